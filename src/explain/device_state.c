/* SPDX-License-Identifier: MIT */
#include "explain/device_state.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/text.h"
#include "format/snapshot/facts.h"
#include "replay/recorded.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_SHOWN 3

static const void *key_of(uint64_t address)
{
    return (const void *)(uintptr_t)(address + 1);
}

void device_state_destroy(struct device_state *device_state)
{
    if (!device_state)
        return;
    past_fini(&device_state->past);
    heap_free(device_state->stacks);
    heap_free(device_state->sizes);
    heap_free(device_state);
}

acre_status device_state_of_peak(const struct snapshot *snapshot, uint32_t device,
                                 uint64_t *out_event)
{
    struct past past;
    struct recorded_levels levels;

    *out_event = 0;
    if (!facts_has_history(snapshot, device)) {
        *out_event = device < snapshot->device_count ? snapshot->devices[device].entry_count : 0;
        return ACRE_OK;
    }
    acre_status status = past_recover(snapshot, device, &past);
    if (status != ACRE_OK)
        return status;
    recorded_measure(snapshot, device, &past, &levels);
    *out_event = levels.requested_peak_entry;
    past_fini(&past);
    return ACRE_OK;
}

/* ---- Whose blocks are ------------------------------------------------------------------- */

/* Gives blocks the stack of their allocation, and marks those that wait for streams:
 * is_open is used for that. */
static acre_status find_owners(const struct snapshot *snapshot, uint32_t device,
                               struct device_state *device_state)
{
    const struct snap_entry *entries = snapshot_history(snapshot, device);
    struct past *past = &device_state->past;
    struct ptrmap blocks = PTRMAP_INITIALIZER;
    acre_status status = ptrmap_reserve(&blocks, past->block_count);

    for (size_t i = 0; i < past->block_count && status == ACRE_OK; i++) {
        past->blocks[i].is_open = past->blocks[i].is_pending;
        past->blocks[i].is_met = false;
        if (!past->blocks[i].is_kept) /* told by its free alone, which others may do */
            past->blocks[i].stack = SNAP_NONE;
        status = ptrmap_put(&blocks, key_of(past->blocks[i].address), &past->blocks[i]);
    }
    for (uint64_t i = 0; i < snapshot->devices[device].entry_count && status == ACRE_OK; i++) {
        const struct snap_entry *entry = &entries[i];
        if (entry->action != SNAP_ALLOC && entry->action != SNAP_FREE_REQUESTED)
            continue;
        struct past_block *block = ptrmap_get(&blocks, key_of(entry->address));
        if (!block)
            continue;
        if (i >= device_state->event) { /* pending at the end, but not yet at the moment */
            block->is_open &= entry->action != SNAP_FREE_REQUESTED || !block->is_pending;
            block->is_pending = false;
            continue;
        }
        block->is_open = entry->action == SNAP_FREE_REQUESTED && past->has_completed;
        block->is_met |= entry->action == SNAP_ALLOC;
        if (entry->action == SNAP_ALLOC)
            block->event = i;
        if (entry->action == SNAP_ALLOC && entry->stack != SNAP_NONE)
            block->stack = entry->stack;
    }
    ptrmap_fini(&blocks);
    return status;
}

/* ---- Groups ------------------------------------------------------------------------------ */

static int by_bytes(const void *a, const void *b)
{
    const struct group *left = a, *right = b;

    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return left->key < right->key ? -1 : left->key > right->key;
}

/* Adds up blocks by a key below key_count; the last key is "none". */
static acre_status add_up(const struct device_state *device_state, bool by_stack, size_t key_count,
                          struct group **out, size_t *out_count)
{
    struct group *groups = heap_array(key_count + 1, sizeof *groups);
    size_t count = 0;

    if (!groups)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < device_state->past.block_count; i++) {
        const struct past_block *block = &device_state->past.blocks[i];
        size_t key = by_stack ? (block->stack == SNAP_NONE ? key_count : block->stack)
                              : (size_t)(63 - __builtin_clzll(block->bytes | 1));
        groups[key].bytes += block->bytes;
        groups[key].count++;
    }
    for (size_t i = 0; i <= key_count; i++)
        if (groups[i].count) {
            groups[count] = groups[i];
            groups[count++].key = i == key_count ? SNAP_NONE : (uint32_t)i;
        }
    qsort(groups, count, sizeof *groups, by_bytes);
    *out = groups;
    *out_count = count;
    return ACRE_OK;
}

/* ---- The rest ------------------------------------------------------------------------------ */

static bool is_private(const struct snapshot *snapshot, uint32_t pool)
{
    return pool != SNAP_NONE && (snapshot->pools[pool].id[0] || snapshot->pools[pool].id[1]);
}

/* What the request might have taken: free memory of its stream and pool. In one piece it takes
 * such of segments for its size alone; small requests have segments of their own. */
struct own {
    uint64_t stream;
    uint32_t pool;
    bool is_small, has_request;
};

static bool own_matches(const struct snapshot *snapshot, const struct own *own,
                        const struct past_segment *segment)
{
    bool is_other_pool = is_private(snapshot, segment->pool) || is_private(snapshot, own->pool);

    return segment->stream == own->stream && (!is_other_pool || segment->pool == own->pool);
}

/* One segment: its blocks are those from *at on. */
static void look_at_segment(const struct snapshot *snapshot, struct device_state *device_state,
                            const struct past_segment *segment, const struct own *own, size_t *at)
{
    const struct past *past = &device_state->past;
    uint64_t end = segment->address + segment->bytes, from = segment->address;
    uint64_t used = 0, largest = 0;
    bool is_own = own_matches(snapshot, own, segment);
    bool is_fit = is_own && (!own->has_request || segment->is_small == own->is_small);

    for (; *at < past->block_count && past->blocks[*at].address < end; (*at)++) {
        const struct past_block *block = &past->blocks[*at];
        if (block->address < segment->address)
            continue; /* of no segment that is known */
        if (block->address > from && block->address - from > largest)
            largest = block->address - from;
        from = block->address + block->bytes;
        used += block->bytes;
    }
    if (end > from && end - from > largest)
        largest = end - from;
    uint64_t idle = segment->bytes > used ? segment->bytes - used : 0;
    device_state->reserved_bytes += segment->bytes;
    if (is_fit && largest > device_state->own_largest_bytes)
        device_state->own_largest_bytes = largest;
    if (is_own && used)
        device_state->own_free_bytes += idle;
    if (is_private(snapshot, segment->pool)) {
        device_state->private_bytes += segment->bytes;
        device_state->private_free_bytes += idle;
        return;
    }
    if (largest > device_state->largest_free_bytes)
        device_state->largest_free_bytes = largest;
    *(used ? &device_state->free_split_bytes : &device_state->free_whole_bytes) += idle;
}

/* Adds up what live blocks are for. Blocks without a stack that were there before the
 * history, in a recording that has one, count as "before the recording". */
static void add_categories(const struct snapshot *snapshot, uint32_t device,
                           struct device_state *device_state)
{
    const struct past *past = &device_state->past;
    bool has_history = facts_has_history(snapshot, device);

    for (size_t i = 0; i < device_state->stack_count; i++) {
        const struct group *group = &device_state->stacks[i];
        if (group->key != SNAP_NONE)
            device_state->categories[device_state_category(snapshot, group->key)] += group->bytes;
    }
    for (size_t i = 0; i < past->block_count; i++)
        if (past->blocks[i].stack == SNAP_NONE) {
            device_state->stackless_bytes += past->blocks[i].bytes;
            device_state->categories[has_history && !past->blocks[i].is_met ? CATEGORY_BEFORE
                                                                            : CATEGORY_UNKNOWN] +=
                past->blocks[i].bytes;
        }
}

acre_status device_state_create(const struct snapshot *snapshot, uint32_t device, uint64_t event,
                                const struct snap_entry *request, struct device_state **out)
{
    struct device_state *device_state = heap_zalloc(sizeof *device_state);
    const struct snap_origin *origin = request ? snapshot_origin(snapshot, request) : NULL;
    struct own own = {.stream = origin ? origin->stream : 0,
                      .pool = origin ? origin->pool : SNAP_NONE,
                      .is_small = request && request->bytes <= (uint64_t)1 << 20,
                      .has_request = request != NULL};
    size_t at = 0;

    if (!device_state)
        return ACRE_ERR_HOST_MEMORY;
    device_state->event = event;
    acre_status status = past_recover_at(snapshot, device, event, &device_state->past);
    if (status == ACRE_OK)
        status = find_owners(snapshot, device, device_state);
    if (status == ACRE_OK)
        status = add_up(device_state, true, snapshot->stack_count, &device_state->stacks,
                        &device_state->stack_count);
    if (status == ACRE_OK)
        status = add_up(device_state, false, 64, &device_state->sizes, &device_state->size_count);
    if (status != ACRE_OK) {
        device_state_destroy(device_state);
        return status;
    }
    for (size_t i = 0; i < device_state->past.segment_count; i++)
        look_at_segment(snapshot, device_state, &device_state->past.segments[i], &own, &at);
    add_categories(snapshot, device, device_state);
    for (size_t i = 0; i < device_state->past.block_count; i++) {
        const struct past_block *block = &device_state->past.blocks[i];

        if (block->is_open)
            device_state->waiting_bytes += block->bytes;
        else
            device_state->allocated_bytes += block->bytes;
        device_state->requested_bytes += block->is_open ? 0 : block->requested_bytes;
    }
    *out = device_state;
    return ACRE_OK;
}

/* ---- Stacks -------------------------------------------------------------------------------- */

static void read_frame(const struct snapshot *snapshot, uint32_t stack, uint32_t at,
                       const char **name, const char **file, int64_t *line)
{
    const struct snap_run *run = &snapshot->stacks[stack];
    const struct snap_frame *frame = &snapshot->frames[snapshot->frame_ids[run->first + at]];

    *name = snapshot_string(snapshot, frame->name, NULL);
    *file = snapshot_string(snapshot, frame->file, NULL);
    *line = frame->line;
}

static struct frames read_stack(const struct snapshot *snapshot, uint32_t stack)
{
    struct frames frames = FRAMES_NONE;
    const char *name, *file;
    int64_t line;

    for (uint32_t i = 0; stack != SNAP_NONE && i < snapshot->stacks[stack].count; i++) {
        read_frame(snapshot, stack, i, &name, &file, &line);
        frames_add(&frames, name, file);
    }
    return frames;
}

enum frames_category device_state_category(const struct snapshot *snapshot, uint32_t stack)
{
    struct frames frames = read_stack(snapshot, stack);

    return frames_category(&frames);
}

/* The last two parts of a path: enough to find it. */
static const char *short_path(const char *path)
{
    const char *last = NULL, *before = NULL;

    for (const char *at = path; *at; at++)
        if (*at == '/' || *at == '\\') {
            before = last;
            last = at;
        }
    return before ? before + 1 : path;
}

/* How much of a name is shown: of C++ not the arguments, which say nothing that helps. */
static int name_length(const char *name)
{
    const char *at = strstr(name, "::") ? strchr(name, '(') : NULL;

    while (at && (strncmp(at, "(anonymous", 10) == 0 || strncmp(at, "()(", 3) == 0))
        at = strchr(at + 1, '(');
    size_t length = at && at > name ? (size_t)(at - name) : strlen(name);
    return length > INT_MAX ? INT_MAX : (int)length;
}

/* One frame in one line, whatever its names hold. C++ without a file is a name alone. */
static void add_frame(struct text *text, const char *before, const char *name, const char *file,
                      int64_t line)
{
    bool has_file = *file && strcmp(file, "??") != 0;

    text_add(text, "%s", before);
    char *from = text->buffer + text->length;
    text_add(text, "%.*s", name_length(name), name);
    if (has_file)
        text_add(text, " (%s:%lld)", short_path(file), (long long)line);
    for (; *from; from++)
        if ((unsigned char)*from < ' ')
            *from = '?';
}

/* The user's own lines, innermost first, and the call of a library that they made. */
static void add_own(const struct snapshot *snapshot, uint32_t stack, const struct frames *frames,
                    struct text *text)
{
    const char *name, *file;
    int64_t line;
    int shown = 0;

    for (int32_t i = frames->own; i < frames->count && shown < FRAMES_SHOWN; i++) {
        read_frame(snapshot, stack, (uint32_t)i, &name, &file, &line);
        if (frames_kind(name, file) == FRAME_OWN && !frames_is_dull(name))
            add_frame(text, shown++ ? " < " : "", name, file, line);
    }
    if (frames->library < 0 || frames->library > frames->own)
        return;
    read_frame(snapshot, stack, (uint32_t)frames->library, &name, &file, &line);
    add_frame(text, ", in ", name, file, line);
}

/* The innermost frames that say something; those of Python where there are any. */
static void add_any(const struct snapshot *snapshot, uint32_t stack, const struct frames *frames,
                    struct text *text)
{
    const char *name, *file;
    int64_t line;
    int shown = 0;

    for (int32_t i = 0; i < frames->count && shown < FRAMES_SHOWN; i++) {
        read_frame(snapshot, stack, (uint32_t)i, &name, &file, &line);
        bool is_native = frames_kind(name, file) == FRAME_NATIVE;
        if (!frames_is_dull(name) && (frames->library < 0 || !is_native))
            add_frame(text, shown++ ? " < " : "", name, file, line);
    }
}

const char *device_state_stack_text(const struct snapshot *snapshot, uint32_t stack, char *buffer,
                                    size_t size)
{
    struct frames frames = read_stack(snapshot, stack);
    struct text text;

    text_init(&text, buffer, size);
    if (frames.own >= 0)
        add_own(snapshot, stack, &frames, &text);
    else
        add_any(snapshot, stack, &frames, &text);
    if (!text.length)
        text_add(&text, MOMENT_NO_STACK);
    return buffer;
}
