/* SPDX-License-Identifier: MIT */
#include "view/pieces.h"

#include "base/heap.h"
#include "format/deflate.h"
#include "format/frames.h"
#include "view/level.h"

#include <string.h>

/* What one piece after the other is made with. */
struct maker {
    const acre_view *view;
    FILE *file;
    struct pack pack; /* the piece under construction      */
    struct pack meta; /* JSON, written last                */
    char prefix[24];  /* of names: "d0." for device 0      */
};

/* ---- One piece ------------------------------------------------------------------------ */

static void put_base64(FILE *file, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[4096];
    size_t at = 0;

    for (size_t i = 0; i < count; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= i + 2 < count ? bytes[i + 2] : 0;
        line[at++] = digits[group >> 18];
        line[at++] = digits[group >> 12 & 63];
        line[at++] = i + 1 < count ? digits[group >> 6 & 63] : '=';
        line[at++] = i + 2 < count ? digits[group & 63] : '=';
        if (at == sizeof line) {
            fwrite(line, 1, at, file);
            at = 0;
        }
    }
    fwrite(line, 1, at, file);
}

/* Writes the piece under construction and begins the next. */
static acre_status put_piece(struct maker *maker, const char *name)
{
    unsigned char *smaller = NULL;
    size_t count = 0;
    acre_status status = pack_status(&maker->pack);

    if (status == ACRE_OK)
        status = deflate_bytes(maker->pack.bytes, maker->pack.count, &smaller, &count);
    if (status != ACRE_OK)
        return status;
    fprintf(maker->file, "<script type=\"text/plain\" id=\"p.%s%s\" data-form=\"%s\">",
            maker->prefix, name, smaller ? "deflate" : "plain");
    put_base64(maker->file, smaller ? smaller : maker->pack.bytes,
               smaller ? count : maker->pack.count);
    fputs("</script>\n", maker->file);
    heap_free(smaller);
    pack_clear(&maker->pack);
    return ACRE_OK;
}

/* ---- Spans ------------------------------------------------------------------------- */

enum column { BEGIN, LIFE, WAIT, ADDRESS, BYTES, EXTRA, STACK, STREAM, POOL, FLAGS, COLUMNS };

static const char *const column_names[COLUMNS] = {
    "begin", "life", "wait", "address", "bytes", "extra", "stack", "stream", "pool", "flags",
};

/* Adds one field of one span. Life is 0 for what is never seen; wait is how long
 * the end came after the request; extra is what a block takes beyond the request. */
static void pack_field(struct pack *pack, enum column column, const struct span *span,
                       uint32_t moments, uint64_t base)
{
    uint32_t end = span_end(span, moments);

    switch (column) {
    case BEGIN:
        pack_step(pack, span->begin);
        break;
    case LIFE:
        pack_number(pack, span->end >= moments ? 0 : (uint64_t)(end - span->begin) + 1);
        break;
    case WAIT:
        pack_number(pack, span->asked < end ? end - span->asked : 0);
        break;
    case ADDRESS:
        pack_step(pack, span->address - base);
        break;
    case BYTES:
        pack_number(pack, span->bytes);
        break;
    case EXTRA:
        pack_number(pack, span->block_bytes - span->bytes);
        break;
    case STACK:
        pack_number(pack, span->stack);
        break;
    case STREAM:
        pack_number(pack, span->stream);
        break;
    case POOL:
        pack_number(pack, span->pool);
        break;
    case FLAGS:
        pack_number(pack, span->flags);
        break;
    case COLUMNS:
        break;
    }
}

static acre_status put_spans(struct maker *maker, const char *kind, const struct spans *spans,
                             const uint32_t *order, uint32_t moments, uint64_t base)
{
    char name[32];
    acre_status status = ACRE_OK;

    for (int column = 0; column < COLUMNS && status == ACRE_OK; column++) {
        for (size_t i = 0; i < spans->count; i++)
            pack_field(&maker->pack, (enum column)column, &spans->items[order[i]], moments, base);
        snprintf(name, sizeof name, "%s.%s", kind, column_names[column]);
        status = put_piece(maker, name);
    }
    return status;
}

/* ---- Levels ------------------------------------------------------------------------- */

static acre_status put_sums(struct maker *maker, const struct view_history *history,
                            const struct totals *totals, const struct level *level)
{
    uint64_t *sums = heap_array(level->columns, sizeof *sums);
    char name[32];

    if (!sums)
        return ACRE_ERR_HOST_MEMORY;
    for (unsigned group = 0; group < LEVEL_GROUPS; group++) {
        level_sum(level, history, totals, group, sums);
        maker->pack.last = 0;
        for (uint32_t i = 0; i < level->columns; i++)
            pack_step(&maker->pack, sums[i]);
    }
    heap_free(sums);
    snprintf(name, sizeof name, "l%u.sums", level->shift);
    return put_piece(maker, name);
}

static acre_status put_level(struct maker *maker, const struct totals *totals,
                             const struct level *level)
{
    char name[32];
    acre_status status;

    for (uint32_t i = 0; i < level->columns; i++)
        pack_number(&maker->pack, level->shown[i] - ((uint64_t)i << level->shift));
    snprintf(name, sizeof name, "l%u.shown", level->shift);
    status = put_piece(maker, name);
    for (uint32_t i = 0; i < level->columns; i++)
        pack_step(&maker->pack, totals->allocated[level->shown[i]]);
    snprintf(name, sizeof name, "l%u.allocated", level->shift);
    if (status == ACRE_OK)
        status = put_piece(maker, name);
    for (uint32_t i = 0; i < level->columns; i++)
        pack_step(&maker->pack, level->reserved[i]);
    snprintf(name, sizeof name, "l%u.reserved", level->shift);
    if (status == ACRE_OK)
        status = put_piece(maker, name);
    for (size_t i = 0; i < level->kept_count; i++)
        pack_step(&maker->pack, level->kept[i]);
    snprintf(name, sizeof name, "l%u.kept", level->shift);
    return status == ACRE_OK ? put_piece(maker, name) : status;
}

static acre_status put_levels(struct maker *maker, const struct view_history *history,
                              const struct totals *totals, const uint32_t *order)
{
    acre_status status = ACRE_OK;
    unsigned first = level_first(totals->moments);

    pack_text(&maker->meta, ",\"levels\":[");
    for (unsigned shift = first; shift && status == ACRE_OK;
         shift = level_next(totals->moments, shift)) {
        struct level level;
        status = level_init(&level, history, totals, order, shift);
        if (status != ACRE_OK)
            break;
        pack_text(&maker->meta, "%s{\"shift\":%u,\"columns\":%u,\"kept\":%zu,\"sums\":%s}",
                  shift == first ? "" : ",", shift, level.columns, level.kept_count,
                  shift == first ? "true" : "false");
        status = put_level(maker, totals, &level);
        if (status == ACRE_OK && shift == first)
            status = put_sums(maker, history, totals, &level);
        level_fini(&level);
    }
    pack_text(&maker->meta, "]");
    return status;
}

/* ---- A device ------------------------------------------------------------------------- */

static uint64_t lowest_address(const struct view_history *history)
{
    uint64_t lowest = UINT64_MAX;

    for (size_t i = 0; i < history->blocks.count; i++)
        if (history->blocks.items[i].address < lowest)
            lowest = history->blocks.items[i].address;
    for (size_t i = 0; i < history->ranges.count; i++)
        if (history->ranges.items[i].address < lowest)
            lowest = history->ranges.items[i].address;
    return lowest == UINT64_MAX ? 0 : lowest;
}

static void tell_marks(struct pack *meta, const struct view_history *history)
{
    pack_text(meta, ",\"marks\":[");
    for (size_t i = 0; i < history->mark_count; i++) {
        const struct view_mark *mark = &history->marks[i];
        pack_text(meta,
                  "%s{\"at\":%u,\"kind\":\"%s\",\"bytes\":%llu,\"free\":%llu,\"stack\":%u,"
                  "\"text\":",
                  i ? "," : "", mark->moment, mark->action == ACRE_VIEW_OOM ? "oom" : "mark",
                  (unsigned long long)mark->bytes, (unsigned long long)mark->free_bytes,
                  mark->stack);
        pack_json(meta, mark->text ? mark->text : "", mark->text ? strlen(mark->text) : 0);
        pack_text(meta, "}");
    }
    pack_text(meta, "]");
}

/* "device 0", or with the label of its file before it. */
static void tell_name(struct pack *meta, const struct view_history *history)
{
    struct pack name = {0};

    if (history->label)
        pack_bytes(&name, history->label, strlen(history->label));
    pack_text(&name, "%sdevice %u", history->label ? ", " : "", history->number);
    meta->is_lost |= name.is_lost;
    pack_json(meta, (const char *)name.bytes, name.count);
    pack_fini(&name);
}

/* When the last request failed, in microseconds, or 0; and what is held at the end: the page
 * opens with the device that they choose. */
static void tell_end(struct pack *meta, const struct view_history *history, uint32_t moments)
{
    uint64_t failed_us = 0, held = 0;

    for (size_t i = 0; i < history->mark_count; i++)
        if (history->marks[i].action == ACRE_VIEW_OOM)
            failed_us = history->marks[i].moment < history->event_count
                            ? history->times[history->marks[i].moment] + 1
                            : 1;
    for (size_t i = 0; i < history->ranges.count; i++)
        if (history->ranges.items[i].end >= moments)
            held += history->ranges.items[i].block_bytes;
    pack_text(meta, ",\"failed\":%llu,\"held\":%llu", (unsigned long long)failed_us,
              (unsigned long long)held);
}

static void tell_device(struct pack *meta, size_t number, const struct view_history *history,
                        const struct totals *totals, uint64_t base)
{
    pack_text(meta, "\"name\":");
    tell_name(meta, history);
    pack_text(meta, ",\"device\":%zu,\"events\":%u,\"moments\":%u,\"blocks\":%zu,\"ranges\":%zu",
              number, history->event_count, totals->moments, history->blocks.count,
              history->ranges.count);
    pack_text(meta, ",\"base\":\"%llu\",\"peak\":%u,\"peakAllocated\":%llu,\"peakReserved\":%llu",
              (unsigned long long)base, totals->peak,
              (unsigned long long)totals->allocated[totals->peak],
              (unsigned long long)totals->reserved_peak);
    pack_text(meta, ",\"threshold\":%llu,\"time\":%llu,\"groups\":[",
              (unsigned long long)totals->threshold,
              (unsigned long long)(history->event_count ? history->times[0] : 0));
    for (unsigned i = 0; i < totals->group_count; i++)
        pack_text(meta, "%s%u", i ? "," : "", totals->groups[i]);
    pack_text(meta, "]");
    tell_end(meta, history, totals->moments);
    tell_marks(meta, history);
}

static acre_status put_tables(struct maker *maker, const struct view_history *history,
                              const struct totals *totals, uint64_t base, const uint32_t *blocks,
                              const uint32_t *ranges)
{
    acre_status status = put_levels(maker, history, totals, blocks);

    if (status == ACRE_OK)
        status = put_spans(maker, "a", &history->blocks, blocks, totals->moments, base);
    if (status == ACRE_OK)
        status = put_spans(maker, "s", &history->ranges, ranges, totals->moments, base);
    for (uint32_t i = 0; i < history->event_count; i++)
        pack_number(&maker->pack, history->times[i] - history->times[i ? i - 1 : 0]);
    return status == ACRE_OK ? put_piece(maker, "time") : status;
}

static acre_status put_device(struct maker *maker, size_t number)
{
    const struct view_history *history = &maker->view->devices[number];
    uint64_t base = lowest_address(history);
    uint32_t *blocks = NULL, *ranges = NULL;
    struct totals totals;
    acre_status status = totals_init(&totals, history, maker->view->stacks.count);

    if (status != ACRE_OK)
        return status;
    snprintf(maker->prefix, sizeof maker->prefix, "d%zu.", number);
    status = spans_order(&history->blocks, &blocks);
    if (status == ACRE_OK)
        status = spans_order(&history->ranges, &ranges);
    tell_device(&maker->meta, number, history, &totals, base);
    if (status == ACRE_OK)
        status = put_tables(maker, history, &totals, base, blocks, ranges);
    maker->prefix[0] = '\0';
    heap_free(blocks);
    heap_free(ranges);
    totals_fini(&totals);
    return status;
}

/* ---- What devices share ------------------------------------------------------------ */

/* Frames as JSON: [name, file, line] each. */
static acre_status put_frames(struct maker *maker)
{
    const struct intern *frames = &maker->view->frames;
    struct pack *pack = &maker->pack;
    size_t length;

    pack_text(pack, "[");
    for (uint32_t i = 0; i < frames->count; i++) {
        const char *name = intern_get(frames, i, &length), *end = name + length;
        const char *file = name + strlen(name) + 1, *line = file + strlen(file) + 1;
        pack_text(pack, i ? ",[" : "[");
        pack_json(pack, name, strlen(name));
        pack_text(pack, ",");
        pack_json(pack, file, strlen(file));
        pack_text(pack, ",");
        pack_bytes(pack, line, (size_t)(end - line));
        pack_text(pack, "]");
    }
    pack_text(pack, "]");
    return put_piece(maker, "frames");
}

/* Stacks as numbers: how many frames, then each. */
static acre_status put_stacks(struct maker *maker)
{
    const struct intern *stacks = &maker->view->stacks;
    uint32_t frame;
    size_t length;

    for (uint32_t i = 0; i < stacks->count; i++) {
        const unsigned char *bytes = intern_get(stacks, i, &length);
        pack_number(&maker->pack, length / sizeof frame);
        for (size_t at = 0; at < length; at += sizeof frame) {
            memcpy(&frame, bytes + at, sizeof frame);
            pack_number(&maker->pack, frame);
        }
    }
    return put_piece(maker, "stacks");
}

/* For each stack two numbers: the position of the user's own line from 1 on, or 0 without one,
 * and what its memory is for (format/frames.h). */
static acre_status put_titles(struct maker *maker)
{
    const struct intern *stacks = &maker->view->stacks;
    uint32_t frame;
    size_t length, unused;

    for (uint32_t i = 0; i < stacks->count; i++) {
        const unsigned char *bytes = intern_get(stacks, i, &length);
        struct frames frames = FRAMES_NONE;
        for (size_t at = 0; at < length; at += sizeof frame) {
            memcpy(&frame, bytes + at, sizeof frame);
            const char *name = intern_get(&maker->view->frames, frame, &unused);
            frames_add(&frames, name, name + strlen(name) + 1);
        }
        pack_number(&maker->pack, (uint64_t)(frames.own + 1));
        pack_number(&maker->pack, frames_category(&frames));
    }
    return put_piece(maker, "titles");
}

static void tell_categories(struct pack *meta)
{
    pack_text(meta, ",\"categories\":[");
    for (int i = 0; i < CATEGORY_COUNT; i++)
        pack_text(meta, "%s\"%s\"", i ? "," : "", frames_category_name((enum frames_category)i));
    pack_text(meta, "]");
}

static void tell_places(struct pack *meta, const acre_view *view)
{
    uint64_t ids[2];
    size_t length;

    pack_text(meta, ",\"streams\":[");
    for (uint32_t i = 0; i < view->streams.count; i++) {
        memcpy(ids, intern_get(&view->streams, i, &length), sizeof *ids);
        pack_text(meta, "%s\"%llu\"", i ? "," : "", (unsigned long long)ids[0]);
    }
    pack_text(meta, "],\"pools\":[");
    for (uint32_t i = 0; i < view->pools.count; i++) {
        memcpy(ids, intern_get(&view->pools, i, &length), sizeof ids);
        pack_text(meta, "%s[\"%llu\",\"%llu\"]", i ? "," : "", (unsigned long long)ids[0],
                  (unsigned long long)ids[1]);
    }
    pack_text(meta, "],\"notes\":[");
    for (size_t i = 0; i < view->note_count; i++) {
        pack_text(meta, i ? ",[" : "[");
        pack_json(meta, view->notes[i].heading, strlen(view->notes[i].heading));
        pack_text(meta, ",");
        pack_json(meta, view->notes[i].text, strlen(view->notes[i].text));
        pack_text(meta, "]");
    }
    pack_text(meta, "]");
}

static acre_status put_all(struct maker *maker)
{
    const acre_view *view = maker->view;
    const char *separator = "";
    acre_status status = ACRE_OK;

    pack_text(&maker->meta, "{\"version\":\"%s\",\"title\":", acre_version());
    pack_json(&maker->meta, view->title, strlen(view->title));
    pack_text(&maker->meta, ",\"warning\":");
    pack_json(&maker->meta, view->warning ? view->warning : "",
              view->warning ? strlen(view->warning) : 0);
    pack_text(&maker->meta, ",\"devices\":[");
    for (size_t i = 0; i < view->device_count && status == ACRE_OK; i++) {
        if (!view->devices[i].blocks.count && !view->devices[i].ranges.count)
            continue;
        pack_text(&maker->meta, "%s{", separator);
        status = put_device(maker, i);
        pack_text(&maker->meta, "}");
        separator = ",";
    }
    pack_text(&maker->meta, "]");
    tell_places(&maker->meta, view);
    tell_categories(&maker->meta);
    pack_text(&maker->meta, "}");
    if (status == ACRE_OK)
        status = put_frames(maker);
    if (status == ACRE_OK)
        status = put_stacks(maker);
    if (status == ACRE_OK)
        status = put_titles(maker);
    return status == ACRE_OK ? pack_status(&maker->meta) : status;
}

acre_status pieces_write(const acre_view *view, FILE *file)
{
    struct maker maker = {.view = view, .file = file};
    acre_status status = put_all(&maker);

    if (status == ACRE_OK) {
        fputs("<script type=\"application/json\" id=\"meta\">", file);
        fwrite(maker.meta.bytes, 1, maker.meta.count, file);
        fputs("</script>\n", file);
    }
    pack_fini(&maker.pack);
    pack_fini(&maker.meta);
    return status;
}
