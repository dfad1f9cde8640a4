/* SPDX-License-Identifier: MIT */
/* vectors FILE...   replays decision vectors and compares every line.
 *
 * A line is `operation ; result ; statistics ; counters ; layout`: what PyTorch's
 * allocator did, to the byte. The first difference ends a file and is printed
 * with line, expected and got. Exit status: 0 all agree, 1 some differ, 2 a file
 * cannot be read. */
#include "tests/support/fake.h"

#include <acre/pool.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_BYTES ((uint64_t)8 << 30)
#define ID_COUNT 4096
#define SEGMENT_COUNT 4096

struct buffer {
    char *text;
    size_t length, capacity;
};

struct replay {
    struct fake *fake;
    acre_cache *cache;
    void *pointers[ID_COUNT];       /* by ID; NULL: not live             */
    void *bases[SEGMENT_COUNT];     /* of segments, by number            */
    int segment_count;              /* numbers given so far              */
    bool has_layout;                /* else results are only "ok"        */
    struct buffer got;
};

static void put(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct buffer *buffer, const char *format, ...)
{
    va_list args;

    if (buffer->capacity - buffer->length < 256) {
        buffer->capacity = 2 * buffer->capacity + 65536;
        buffer->text = realloc(buffer->text, buffer->capacity);
        if (!buffer->text)
            abort();
    }
    va_start(args, format);
    buffer->length += (size_t)vsnprintf(buffer->text + buffer->length,
                                        buffer->capacity - buffer->length, format, args);
    va_end(args);
}

/* ---- What the cache shows --------------------------------------------------------- */

/* Number of the live segment with that base; a new one gets the next number. */
static int segment_number(struct replay *replay, void *base)
{
    for (int i = 0; i < replay->segment_count; i++)
        if (replay->bases[i] == base)
            return i;
    if (replay->segment_count == SEGMENT_COUNT)
        abort();
    replay->bases[replay->segment_count] = base;
    return replay->segment_count++;
}

static void put_stat(struct buffer *out, const acre_stat *stat)
{
    put(out, " %lld,%lld,%lld,%lld", (long long)stat->current, (long long)stat->peak,
        (long long)stat->allocated, (long long)stat->freed);
}

static void put_stats(struct replay *replay)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    struct buffer *out = &replay->got;

    acre_cache_stats_get(replay->cache, &stats);
    put(out, " ;");
#define PUT_ARRAY(name, text)                                                  \
    put_stat(out, &stats.name.all);                                            \
    put_stat(out, &stats.name.small_pool);                                     \
    put_stat(out, &stats.name.large_pool);
    ACRE_CACHE_STAT_ARRAYS(PUT_ARRAY)
    put(out, " ; %lld %lld %lld %lld %lld %lld %lld ;", (long long)stats.num_alloc_retries,
        (long long)stats.num_ooms, (long long)stats.num_sync_all_streams,
        (long long)stats.num_device_alloc, (long long)stats.num_device_free,
        (long long)stats.oversize_allocations.current,
        (long long)stats.oversize_segments.current);
}

static int by_number(const void *a, const void *b)
{
    return ((const int *)a)[0] - ((const int *)b)[0];
}

static void put_layout(struct replay *replay)
{
    static const char *const marks[] = {"", "*", "~", "?"};
    static int order[SEGMENT_COUNT][2]; /* number, index in the layout */
    acre_cache_layout *layout;

    if (acre_cache_layout_create(replay->cache, &layout) != ACRE_OK)
        abort();
    for (uint64_t i = 0; i < layout->segment_count; i++) {
        order[i][0] = segment_number(replay, layout->segments[i].base);
        order[i][1] = (int)i;
    }
    qsort(order, layout->segment_count, sizeof order[0], by_number);
    for (uint64_t i = 0; i < layout->segment_count; i++) {
        const acre_segment_info *segment = &layout->segments[order[i][1]];
        put(&replay->got, " %d:%llu:", order[i][0], (unsigned long long)segment->pool[1]);
        for (uint64_t k = 0; k < segment->block_count; k++) {
            const acre_block_info *block = &layout->blocks[segment->first_block + k];
            put(&replay->got, "%s%llu%s", k ? "," : "", (unsigned long long)block->bytes,
                marks[block->state]);
        }
    }
    acre_cache_layout_destroy(layout);
}

/* ---- Operations -------------------------------------------------------------------- */

static void run_alloc(struct replay *replay, const char *line)
{
    unsigned long long id, bytes;
    void *base;
    uint64_t extent;
    int stream;

    if (sscanf(line, "a %llu %llu %d", &id, &bytes, &stream) != 3 || id >= ID_COUNT)
        abort();
    acre_status status =
        acre_cache_alloc(replay->cache, bytes, fake_stream(stream), &replay->pointers[id]);
    if (status != ACRE_OK) {
        replay->pointers[id] = NULL;
        put(&replay->got, "%s", status == ACRE_ERR_DEVICE_MEMORY ? "OOM" : "?");
        return;
    }
    if (!replay->has_layout) {
        put(&replay->got, "ok");
        return;
    }
    if (acre_cache_base(replay->cache, replay->pointers[id], &base, &extent) != ACRE_OK)
        abort();
    put(&replay->got, "%d+%lld", segment_number(replay, base),
        (long long)((char *)replay->pointers[id] - (char *)base));
}

/* An operation on user pool (0, number). */
static acre_status run_pool(struct replay *replay, const char *line)
{
    static const acre_pool_filter any = {.kind = ACRE_POOL_ANY};
    acre_pool_id id = {.user = strtoull(line + 2, NULL, 10)};

    switch (line[1]) {
    case 'c':
        return acre_pool_create(replay->cache, id, NULL);
    case 'b':
        return acre_pool_begin(replay->cache, id, &any);
    case 'e':
        return acre_pool_end(replay->cache, id);
    default:
        return acre_pool_release(replay->cache, id);
    }
}

/* Runs one operation and writes its result. */
static void run(struct replay *replay, const char *line)
{
    unsigned long long number = 0;
    int stream = 0;
    acre_status status = ACRE_OK;

    if (line[0] == 'a') {
        run_alloc(replay, line);
        return;
    }
    if (line[0] == 'c') {
        char text[1024];
        snprintf(text, sizeof text, "%s", line + 2);
        status = acre_cache_conf_set(replay->cache, strcmp(text, "none") == 0 ? "" : text);
    } else if (line[0] == 'm') {
        sscanf(line, "m %llu", &number);
        status = acre_cache_memory_fraction_set(replay->cache,
                                                (double)number / (double)DEVICE_BYTES);
    } else if (line[0] == 'f') {
        sscanf(line, "f %llu", &number);
        status = acre_cache_free(replay->cache, replay->pointers[number]);
    } else if (line[0] == 'r') {
        sscanf(line, "r %llu %d", &number, &stream);
        status = acre_cache_record_stream(replay->cache, replay->pointers[number],
                                          fake_stream(stream));
    } else if (line[0] == 'd') {
        sscanf(line, "d %d", &stream);
        fake_finish(replay->fake, fake_stream(stream));
    } else if (line[0] == 'e') {
        status = acre_cache_empty(replay->cache);
    } else if (line[0] == 'p') {
        status = run_pool(replay, line);
    }
    put(&replay->got, "%s", status == ACRE_OK ? "-" : acre_status_name(status));
}

/* ---- Files ----------------------------------------------------------------------------- */

/* Reads a whole file, gzip or not. */
static char *read_file(const char *name)
{
    char command[4200];
    struct buffer buffer = {0};
    size_t count;

    if (strchr(name, '\''))
        return NULL;
    snprintf(command, sizeof command, "gzip -cdf < '%s'", name);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return NULL;
    do {
        if (buffer.capacity - buffer.length < 65536) {
            buffer.capacity = 2 * buffer.capacity + (1 << 20);
            buffer.text = realloc(buffer.text, buffer.capacity);
            if (!buffer.text)
                abort();
        }
        count = fread(buffer.text + buffer.length, 1, 65535, pipe);
        buffer.length += count;
    } while (count > 0);
    buffer.text[buffer.length] = '\0';
    if (pclose(pipe) != 0) {
        free(buffer.text);
        return NULL;
    }
    return buffer.text;
}

static void print_difference(const char *name, int number, const char *expected,
                             const char *got)
{
    size_t at = 0;

    while (expected[at] && expected[at] == got[at])
        at++;
    printf("%s:%d: differs at column %zu\nexpected: %s\ngot:      %s\n", name, number, at + 1,
           expected, got);
}

/* Replays the lines; 0 when all agree. */
static int replay_lines(struct replay *replay, const char *name, char *text)
{
    int number = 0;

    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        number++;
        char *operation_end = strstr(line, " ; ");
        if (!operation_end)
            return printf("%s:%d: not a vector\n", name, number), 2;
        replay->got.length = 0;
        put(&replay->got, "%.*s ; ", (int)(operation_end - line), line);
        *operation_end = '\0';
        run(replay, line);
        *operation_end = ' ';
        put_stats(replay);
        if (replay->has_layout)
            put_layout(replay);
        for (size_t n = strlen(line); n && line[n - 1] == ' '; n--)
            line[n - 1] = '\0';
        for (size_t n = replay->got.length; n && replay->got.text[n - 1] == ' '; n--)
            replay->got.text[n - 1] = '\0';
        if (strcmp(line, replay->got.text) != 0) {
            print_difference(name, number, line, replay->got.text);
            return 1;
        }
    }
    printf("%s: %d lines agree\n", name, number);
    return 0;
}

static int replay_file(const char *name)
{
    char *text = read_file(name);
    struct replay *replay;
    int result;

    if (!text)
        return printf("%s: cannot be read\n", name), 2;
    replay = calloc(1, sizeof *replay);
    replay->has_layout = !strstr(text, "expandable_segments:True");
    replay->fake = fake_create(&(struct fake_config){.bytes = DEVICE_BYTES,
                                                     .page_bytes = (uint64_t)1 << 20});
    acre_cache_config config = {.struct_size = sizeof config,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT,
                                .policy = ACRE_POLICY_TORCH};
    if (acre_cache_create(fake_device(replay->fake, 0), &config, &replay->cache) != ACRE_OK) {
        printf("%s\n", acre_last_error());
        abort();
    }
    result = replay_lines(replay, name, text);
    acre_cache_destroy(replay->cache);
    fake_destroy(replay->fake);
    free(replay->got.text);
    free(replay);
    free(text);
    return result;
}

int main(int argc, char **argv)
{
    int worst = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: vectors FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        int result = replay_file(argv[i]);
        worst = result > worst ? result : worst;
    }
    return worst;
}
