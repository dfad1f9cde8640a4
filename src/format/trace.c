/* SPDX-License-Identifier: MIT */
/* Reading traces: lines out of a bounded buffer, checked one by one.
 *
 * After the first error every further read gives the same error, so that
 * nothing behind it can be taken for the trace.
 */
#include "format/trace.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "format/idset.h"
#include "format/source.h"

#include <ctype.h>
#include <string.h>

#define LINE_MAX_BYTES 4096
#define BUFFER_BYTES   (65536 + LINE_MAX_BYTES + 1)
#define BYTES_MAX      ((uint64_t)1 << 60)

struct acre_trace {
    struct source *source;
    char *path; /* for messages                               */
    struct idset ids;
    size_t at, count;        /* next byte of the buffer, and bytes in it   */
    uint64_t line;           /* of the last line taken, from 1             */
    bool is_end;             /* the source has no more                     */
    acre_status failed;      /* ACRE_OK until an error                     */
    struct status_saved why; /* its text                                   */
    char buffer[BUFFER_BYTES];
};

/* A word of a line; not zero-terminated. */
struct word {
    const char *text;
    size_t length;
};

#define FAIL(trace, format, ...)                                                                   \
    status_fail(ACRE_ERR_FORMAT, "%s:%llu: " format, (trace)->path,                                \
                (unsigned long long)(trace)->line, __VA_ARGS__)

acre_status acre_trace_open(const char *path, acre_trace **out)
{
    struct source *source;

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_trace_open: %s is NULL", path ? "out" : "path");
    acre_status status = source_open(path, &source);
    return status == ACRE_OK ? trace_adopt(path, source, out) : status;
}

acre_status trace_adopt(const char *path, struct source *source, acre_trace **out)
{
    acre_trace *trace = heap_alloc(sizeof *trace);

    if (!trace) {
        source_close(source);
        return ACRE_ERR_HOST_MEMORY;
    }
    memset(trace, 0, offsetof(acre_trace, buffer));
    idset_init(&trace->ids);
    trace->source = source;
    trace->path = heap_strdup(path);
    if (!trace->path) {
        acre_trace_close(trace);
        return ACRE_ERR_HOST_MEMORY;
    }
    *out = trace;
    return ACRE_OK;
}

void acre_trace_close(acre_trace *trace)
{
    if (!trace)
        return;
    source_close(trace->source);
    idset_fini(&trace->ids);
    heap_free(trace->path);
    heap_free(trace);
}

acre_status acre_trace_rewind(acre_trace *trace)
{
    acre_status status = source_rewind(trace->source);

    if (status != ACRE_OK)
        return status;
    idset_fini(&trace->ids);
    trace->at = trace->count = 0;
    trace->line = 0;
    trace->is_end = false;
    trace->failed = ACRE_OK;
    return ACRE_OK;
}

uint64_t trace_slots(const acre_trace *trace)
{
    return trace->ids.slot_count;
}

void trace_progress(const acre_trace *trace, uint64_t *out_done, uint64_t *out_total)
{
    source_progress(trace->source, out_done, out_total);
}

/* ---- Lines ---------------------------------------------------------------------- */

/* Puts more of the source behind what is left in the buffer. */
static acre_status trace_fill(acre_trace *trace)
{
    size_t left = trace->count - trace->at, got;

    memmove(trace->buffer, trace->buffer + trace->at, left);
    trace->at = 0;
    trace->count = left;
    acre_status status =
        source_read(trace->source, trace->buffer + left, sizeof trace->buffer - left, &got);
    if (status == ACRE_ERR_FORMAT) { /* the source knows the file, not the line */
        struct status_saved why;
        status_save(&why);
        return status_fail_native(status, why.native, "%.900s (after line %llu)", why.text,
                                  (unsigned long long)trace->line);
    }
    if (status != ACRE_OK)
        return status;
    trace->count += got;
    trace->is_end = got == 0;
    return ACRE_OK;
}

/* Takes the next line, without its end; text is NULL at the end of the file. */
static acre_status next_line(acre_trace *trace, struct word *out)
{
    for (;;) {
        char *begin = trace->buffer + trace->at;
        size_t left = trace->count - trace->at;
        char *end = memchr(begin, '\n', left);
        size_t length = end ? (size_t)(end - begin) : left;

        if (length > LINE_MAX_BYTES) {
            trace->line++;
            return FAIL(trace, "the line is longer than %d bytes", LINE_MAX_BYTES);
        }
        if (end || trace->is_end) {
            *out = (struct word){end || left ? begin : NULL, length};
            trace->line += out->text != NULL;
            trace->at += length + (end != NULL);
            return ACRE_OK;
        }
        acre_status status = trace_fill(trace);
        if (status != ACRE_OK)
            return status;
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts a line into words up to a comment; 5 stands for more than 4. */
static int trace_split(struct word line, struct word words[4])
{
    size_t at = 0;
    int count = 0;

    for (;;) {
        while (at < line.length && is_blank(line.text[at]))
            at++;
        if (at == line.length || line.text[at] == '#')
            return count;
        if (count == 4)
            return 5;
        words[count].text = line.text + at;
        while (at < line.length && !is_blank(line.text[at]) && line.text[at] != '#')
            at++;
        words[count].length = (size_t)(line.text + at - words[count].text);
        count++;
    }
}

/* ---- Events ------------------------------------------------------------------------- */

/* Makes a word fit for a message: short, and printable. */
static const char *trace_shown(struct word word, char buffer[40])
{
    size_t length = word.length < 32 ? word.length : 32;

    for (size_t i = 0; i < length; i++)
        buffer[i] = isprint((unsigned char)word.text[i]) ? word.text[i] : '?';
    strcpy(buffer + length, word.length > 32 ? "..." : "");
    return buffer;
}

static acre_status read_number(acre_trace *trace, struct word word, uint64_t *out)
{
    char text[40];

    if (text_parse_unsigned(word.text, word.length, out))
        return ACRE_OK;
    return FAIL(trace, "\"%s\" is not a whole number below 2^64", trace_shown(word, text));
}

static acre_status read_stream(acre_trace *trace, struct word word, uint32_t *out)
{
    uint64_t number;
    acre_status status = read_number(trace, word, &number);

    if (status != ACRE_OK)
        return status;
    if (number > ACRE_TRACE_STREAM_MAX)
        return FAIL(trace, "stream %llu is above %d", (unsigned long long)number,
                    ACRE_TRACE_STREAM_MAX);
    *out = (uint32_t)number;
    return ACRE_OK;
}

static acre_status read_alloc(acre_trace *trace, const struct word *words, acre_trace_event *event)
{
    acre_status status = read_number(trace, words[1], &event->id);

    if (status == ACRE_OK)
        status = read_number(trace, words[2], &event->bytes);
    if (status == ACRE_OK)
        status = read_stream(trace, words[3], &event->stream);
    if (status != ACRE_OK)
        return status;
    if (event->bytes == 0 || event->bytes > BYTES_MAX)
        return FAIL(trace, "allocation %llu has a size of %llu; it must lie between 1 and 2^60",
                    (unsigned long long)event->id, (unsigned long long)event->bytes);
    status = idset_begin(&trace->ids, event->id, &event->slot);
    if (status == ACRE_ERR_EXISTS)
        return FAIL(trace,
                    "allocation %llu was there before; every allocation needs a number "
                    "of its own",
                    (unsigned long long)event->id);
    return status;
}

/* The slot of a live allocation, for a free or use. */
static acre_status read_live(acre_trace *trace, struct word word, acre_trace_event *event)
{
    acre_status status = read_number(trace, word, &event->id);
    bool is_live;

    if (status != ACRE_OK)
        return status;
    is_live = event->kind == ACRE_TRACE_FREE ? idset_end(&trace->ids, event->id, &event->slot)
                                             : idset_find(&trace->ids, event->id, &event->slot);
    if (is_live)
        return ACRE_OK;
    return FAIL(trace, "%s of allocation %llu, which %s",
                event->kind == ACRE_TRACE_FREE ? "free" : "use", (unsigned long long)event->id,
                idset_was_used(&trace->ids, event->id) ? "was freed before" : "was never made");
}

/* What a line of each kind consists of. */
static const struct form {
    char letter;
    uint8_t kind;
    uint8_t word_count;
    const char *text;
} forms[] = {
    {'a', ACRE_TRACE_ALLOC, 4, "a ID BYTES STREAM"},
    {'f', ACRE_TRACE_FREE, 2, "f ID"},
    {'u', ACRE_TRACE_USE, 3, "u ID STREAM"},
    {'s', ACRE_TRACE_SYNC, 2, "s STREAM"},
    {'e', ACRE_TRACE_EMPTY, 1, "e"},
};

/* A pickle begins with 0x80 and a small number, JSON with a bracket. */
static bool is_snapshot(struct word word)
{
    const char *text = word.text;

    return *text == '{' || *text == '[' ||
           (word.length > 1 && (unsigned char)*text == 0x80 && (unsigned char)text[1] < 8);
}

static acre_status find_form(acre_trace *trace, const struct word *words, int word_count,
                             const struct form **out)
{
    char text[40];

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (words[0].length != 1 || words[0].text[0] != forms[i].letter)
            continue;
        if (word_count != forms[i].word_count)
            return FAIL(trace, "the line has %s%d words; it should read \"%s\"",
                        word_count > 4 ? "more than " : "", word_count > 4 ? 4 : word_count,
                        forms[i].text);
        *out = &forms[i];
        return ACRE_OK;
    }
    if (trace->line == 1 && is_snapshot(words[0]))
        return FAIL(trace,
                    "\"%s\" is no event of a trace; it begins like a memory snapshot, which has "
                    "to be a file here, not a pipe: save it first",
                    trace_shown(words[0], text));
    return FAIL(trace, "\"%s\" is no event of a trace; a line begins with a, f, u, s, e or #",
                trace_shown(words[0], text));
}

static acre_status read_event(acre_trace *trace, const struct word *words, int word_count,
                              acre_trace_event *event)
{
    const struct form *form = NULL;
    acre_status status = find_form(trace, words, word_count, &form);

    if (status != ACRE_OK)
        return status;
    *event = (acre_trace_event){.kind = form->kind};
    switch ((acre_trace_kind)form->kind) {
    case ACRE_TRACE_ALLOC:
        return read_alloc(trace, words, event);
    case ACRE_TRACE_FREE:
        return read_live(trace, words[1], event);
    case ACRE_TRACE_USE:
        status = read_live(trace, words[1], event);
        return status == ACRE_OK ? read_stream(trace, words[2], &event->stream) : status;
    case ACRE_TRACE_SYNC:
        event->stream = ACRE_TRACE_ALL_STREAMS;
        if (words[1].length == 1 && *words[1].text == '*')
            return ACRE_OK;
        return read_stream(trace, words[1], &event->stream);
    case ACRE_TRACE_EMPTY:
        break;
    }
    return ACRE_OK;
}

acre_status acre_trace_read(acre_trace *trace, acre_trace_event *events, size_t capacity,
                            size_t *out_count)
{
    struct word line, words[4];
    acre_status status = trace->failed;
    size_t count = 0;

    if (status != ACRE_OK) {
        status_restore(&trace->why);
        return status;
    }
    while (count < capacity) {
        status = next_line(trace, &line);
        if (status != ACRE_OK || !line.text)
            break;
        int word_count = trace_split(line, words);
        if (word_count == 0)
            continue;
        status = read_event(trace, words, word_count, &events[count]);
        if (status != ACRE_OK)
            break;
        count++;
    }
    if (status != ACRE_OK) {
        trace->failed = status;
        status_save(&trace->why);
        return status;
    }
    *out_count = count;
    return ACRE_OK;
}
