/* SPDX-License-Identifier: MIT */
#include "plan/place/section.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_BYTES_MAX ((uint64_t)1 << 60)
#define ALIGNMENT_MAX  ((uint64_t)1 << 40)
#define COUNT_MAX      100000000u

/* A start or an end of a piece. */
struct section_event {
    uint64_t time;
    uint32_t piece;
    uint32_t is_start; /* ends come first at one time, as they are excluded */
};

static int compare_events(const void *left, const void *right)
{
    const struct section_event *a = left, *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int)a->is_start - (int)b->is_start;
}

/* ---- Checking -------------------------------------------------------------------- */

#define FAIL(index, ...) fail_buffer(index, __VA_ARGS__)

static acre_status fail_buffer(size_t index, const char *why, uint64_t value)
{
    return status_fail(ACRE_ERR_INVALID, "plan: buffer %zu %s %llu", index, why,
                       (unsigned long long)value);
}

static acre_status check_gaps(const acre_plan_buffer *buffer, size_t index)
{
    uint64_t at = buffer->start;

    if (buffer->gap_count && !buffer->gaps)
        return FAIL(index, "has no gaps, but their count is", buffer->gap_count);
    for (uint32_t g = 0; g < buffer->gap_count; g++) {
        if (buffer->gaps[g].start < at || buffer->gaps[g].start >= buffer->gaps[g].end ||
            buffer->gaps[g].end > buffer->end)
            return FAIL(index, "has a gap that is empty, out of order or outside its life, at",
                        buffer->gaps[g].start);
        at = buffer->gaps[g].end;
    }
    return ACRE_OK;
}

static acre_status check_buffer(const acre_plan_buffer *buffer, size_t index)
{
    if (buffer->end < buffer->start)
        return FAIL(index, "ends before it starts, at", buffer->end);
    if (buffer->size > SIZE_BYTES_MAX)
        return FAIL(index, "is larger than 2^60:", buffer->size);
    if (buffer->alignment > ALIGNMENT_MAX)
        return FAIL(index, "has an alignment above 2^40:", buffer->alignment);
    if (buffer->flags & ~(uint32_t)ACRE_PLAN_FIXED)
        return FAIL(index, "has unknown flags", buffer->flags);
    if ((buffer->flags & ACRE_PLAN_FIXED) && buffer->offset > SIZE_BYTES_MAX)
        return FAIL(index, "is fixed above 2^60:", buffer->offset);
    if ((buffer->flags & ACRE_PLAN_FIXED) && buffer->alignment > 1 &&
        buffer->offset % buffer->alignment)
        return FAIL(index, "is fixed at an offset that is not aligned:", buffer->offset);
    return check_gaps(buffer, index);
}

/* ---- Pieces ---------------------------------------------------------------------- */

static bool is_live(const acre_plan_buffer *buffer)
{
    return buffer->size > 0 && buffer->end > buffer->start;
}

/* Adds the start and end of a piece unless it is empty. */
static void add_piece(struct sections *sections, struct section_event *events, uint64_t start,
                      uint64_t end)
{
    uint32_t piece = sections->piece_count;

    if (start >= end)
        return;
    events[2 * (size_t)piece] = (struct section_event){start, piece, 1};
    events[2 * (size_t)piece + 1] = (struct section_event){end, piece, 0};
    sections->piece_count++;
}

static void list_pieces(struct sections *sections, const acre_plan_buffer *buffers,
                        struct section_event *events)
{
    for (uint32_t i = 0; i < sections->buffer_count; i++) {
        const acre_plan_buffer *buffer = &buffers[i];
        uint64_t at = buffer->start;
        sections->piece_start[i] = sections->piece_count;
        sections->size[i] = is_live(buffer) ? (int64_t)buffer->size : 0;
        sections->alignment[i] = buffer->alignment ? (int64_t)buffer->alignment : 1;
        sections->fixed[i] = buffer->flags & ACRE_PLAN_FIXED ? (int64_t)buffer->offset : -1;
        sections->has_fixed |= sections->fixed[i] >= 0;
        if (!is_live(buffer))
            continue;
        for (uint32_t g = 0; g < buffer->gap_count; g++) {
            add_piece(sections, events, at, buffer->gaps[g].start);
            at = buffer->gaps[g].end;
        }
        add_piece(sections, events, at, buffer->end);
        sections->has_gaps |= sections->piece_count - sections->piece_start[i] > 1;
    }
    sections->piece_start[sections->buffer_count] = sections->piece_count;
}

/* Numbers sections along the sorted events: a new one begins with the first
 * start after an end. owner tells the buffer of a piece. */
static acre_status section_cut(struct sections *sections, const struct section_event *events,
                               const uint32_t *owner)
{
    uint32_t section = 0;
    int64_t load = 0;
    bool has_ended = false;

    for (size_t e = 0; e < 2 * (size_t)sections->piece_count; e++) {
        struct piece *piece = &sections->pieces[events[e].piece];
        int64_t size = sections->size[owner[events[e].piece]];
        if (!events[e].is_start) {
            has_ended = true;
            piece->last = section + 1;
            load -= size;
            continue;
        }
        if (has_ended)
            section++;
        has_ended = false;
        piece->first = section;
        if (__builtin_add_overflow(load, size, &load) || load > INT64_MAX / 16)
            return status_fail(ACRE_ERR_INVALID, "plan: more than 2^59 bytes are needed at %llu",
                               (unsigned long long)events[e].time);
        sections->load[section] = load;
        if (load > sections->lower_bound) {
            sections->lower_bound = load;
            sections->bound_time = events[e].time;
        }
    }
    sections->section_count = sections->piece_count ? section + 1 : 0;
    return ACRE_OK;
}

static void raise_bound_to_fixed(struct sections *sections, const acre_plan_buffer *buffers)
{
    for (uint32_t i = 0; i < sections->buffer_count; i++)
        if (sections->fixed[i] >= 0 && sections->size[i] > 0 &&
            sections->fixed[i] + sections->size[i] > sections->lower_bound) {
            sections->lower_bound = sections->fixed[i] + sections->size[i];
            sections->bound_time = buffers[i].start;
        }
}

/* ---- Canonical order ---------------------------------------------------------------- */

static int compare_buffers(const void *left, const void *right, void *arg)
{
    const struct sections *sections = arg;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint32_t pieces_a = sections->piece_start[a + 1] - sections->piece_start[a];
    uint32_t pieces_b = sections->piece_start[b + 1] - sections->piece_start[b];

    if (pieces_a != pieces_b)
        return pieces_a < pieces_b ? -1 : 1;
    for (uint32_t p = 0; p < pieces_a; p++) {
        const struct piece *x = &sections->pieces[sections->piece_start[a] + p];
        const struct piece *y = &sections->pieces[sections->piece_start[b] + p];
        if (x->first != y->first)
            return x->first < y->first ? -1 : 1;
        if (x->last != y->last)
            return x->last < y->last ? -1 : 1;
    }
    if (sections->size[a] != sections->size[b])
        return sections->size[a] < sections->size[b] ? -1 : 1;
    if (sections->alignment[a] != sections->alignment[b])
        return sections->alignment[a] < sections->alignment[b] ? -1 : 1;
    if (sections->fixed[a] != sections->fixed[b])
        return sections->fixed[a] < sections->fixed[b] ? -1 : 1;
    return a < b ? -1 : a > b; /* equal ones are alike */
}

static void sort_canonically(struct sections *sections)
{
    for (uint32_t i = 0; i < sections->buffer_count; i++)
        sections->order[i] = i;
    qsort_r(sections->order, sections->buffer_count, sizeof *sections->order, compare_buffers,
            sections);
}

/* ---- Making ---------------------------------------------------------------------- */

static struct sections *section_allocate(size_t count, size_t piece_max)
{
    struct sections *sections = heap_zalloc(sizeof *sections);

    if (!sections)
        return NULL;
    sections->buffer_count = (uint32_t)count;
    sections->size = heap_array(count + 1, sizeof *sections->size);
    sections->alignment = heap_array(count + 1, sizeof *sections->alignment);
    sections->fixed = heap_array(count + 1, sizeof *sections->fixed);
    sections->piece_start = heap_array(count + 2, sizeof *sections->piece_start);
    sections->order = heap_array(count + 1, sizeof *sections->order);
    sections->pieces = heap_array(piece_max + 1, sizeof *sections->pieces);
    sections->load = heap_array(piece_max + 1, sizeof *sections->load);
    if (!sections->size || !sections->alignment || !sections->fixed || !sections->piece_start ||
        !sections->order || !sections->pieces || !sections->load) {
        sections_destroy(sections);
        return NULL;
    }
    return sections;
}

static acre_status section_fill(struct sections *sections, const acre_plan_buffer *buffers,
                                size_t piece_max)
{
    struct section_event *events = heap_array(2 * piece_max + 1, sizeof *events);
    uint32_t *owner = heap_array(piece_max + 1, sizeof *owner);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (events && owner) {
        list_pieces(sections, buffers, events);
        for (uint32_t i = 0; i < sections->buffer_count; i++)
            for (uint32_t p = sections->piece_start[i]; p < sections->piece_start[i + 1]; p++)
                owner[p] = i;
        qsort(events, 2 * (size_t)sections->piece_count, sizeof *events, compare_events);
        status = section_cut(sections, events, owner);
    }
    heap_free(events);
    heap_free(owner);
    return status;
}

acre_status sections_create(const acre_plan_buffer *buffers, size_t count, struct sections **out)
{
    size_t piece_max = count;

    if (count > COUNT_MAX)
        return status_fail(ACRE_ERR_INVALID, "plan: %zu buffers; at most %u can be placed", count,
                           COUNT_MAX);
    for (size_t i = 0; i < count; i++) {
        acre_status status = check_buffer(&buffers[i], i);
        if (status != ACRE_OK)
            return status;
        piece_max += buffers[i].gap_count;
    }
    if (piece_max > COUNT_MAX)
        return status_fail(ACRE_ERR_INVALID, "plan: %zu gaps; at most %u can be kept",
                           piece_max - count, COUNT_MAX);
    struct sections *sections = section_allocate(count, piece_max);
    if (!sections)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = section_fill(sections, buffers, piece_max);
    if (status != ACRE_OK) {
        sections_destroy(sections);
        return status;
    }
    raise_bound_to_fixed(sections, buffers);
    sort_canonically(sections);
    *out = sections;
    return ACRE_OK;
}

void sections_destroy(struct sections *sections)
{
    if (!sections)
        return;
    heap_free(sections->size);
    heap_free(sections->alignment);
    heap_free(sections->fixed);
    heap_free(sections->piece_start);
    heap_free(sections->pieces);
    heap_free(sections->load);
    heap_free(sections->order);
    heap_free(sections);
}
