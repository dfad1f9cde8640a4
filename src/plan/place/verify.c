/* SPDX-License-Identifier: MIT */
/* Checks a placement by a sweep over time.
 *
 * What lives is kept in a tree by offset. A piece of a life that starts is
 * compared with its two neighbours there: while nothing overlaps, the others
 * cannot touch it. Shares nothing with the code that places.
 */
#include <acre/plan.h>

#include "base/heap.h"
#include "base/rbtree.h"
#include "base/status.h"

#include <stdlib.h>

/* A piece of a life, between gaps. */
struct life {
    struct rbnode node;
    uint64_t offset, size;
    size_t buffer;
};

struct moment {
    uint64_t time;
    bool is_start;
    struct life *life;
};

static bool life_less(const struct life *a, const struct life *b)
{
    return a->offset < b->offset;
}

static bool life_before(const struct life *a, const uint64_t *offset)
{
    return a->offset < *offset;
}

RBTREE_DEFINE(live_set, struct life, node, uint64_t, life_less, life_before);

static int compare_moments(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int)a->is_start - (int)b->is_start;
}

static acre_status check_alone(const acre_plan_buffer *buffer, size_t index, uint64_t offset,
                               uint64_t capacity)
{
    uint64_t end;

    if (buffer->alignment > 1 && offset % buffer->alignment)
        return status_fail(ACRE_ERR_INVALID, "plan: buffer %zu at %llu is not aligned to %llu",
                           index, (unsigned long long)offset,
                           (unsigned long long)buffer->alignment);
    if ((buffer->flags & ACRE_PLAN_FIXED) && offset != buffer->offset)
        return status_fail(ACRE_ERR_INVALID, "plan: buffer %zu lies at %llu, not at %llu", index,
                           (unsigned long long)offset, (unsigned long long)buffer->offset);
    if (__builtin_add_overflow(offset, buffer->size, &end) || (capacity && end > capacity))
        return status_fail(ACRE_ERR_INVALID, "plan: buffer %zu at %llu ends above %llu", index,
                           (unsigned long long)offset, (unsigned long long)capacity);
    return ACRE_OK;
}

static size_t add_life(struct moment *moments, size_t at, struct life *life, uint64_t start,
                       uint64_t end)
{
    if (start >= end)
        return at;
    moments[at++] = (struct moment){start, true, life};
    moments[at++] = (struct moment){end, false, life};
    return at;
}

static acre_status verify_sweep(const struct moment *moments, size_t count)
{
    struct rbtree live = RBTREE_INITIALIZER;

    for (size_t m = 0; m < count; m++) {
        struct life *life = moments[m].life;
        if (!moments[m].is_start) {
            rbtree_unlink(&live, &life->node);
            continue;
        }
        live_set_insert(&live, life);
        struct life *below = live_set_of(rbtree_step(&life->node, 0));
        struct life *above = live_set_of(rbtree_step(&life->node, 1));
        struct life *clash = NULL;
        if (below && below->offset + below->size > life->offset)
            clash = below;
        else if (above && life->offset + life->size > above->offset)
            clash = above;
        if (clash)
            return status_fail(ACRE_ERR_INVALID, "plan: buffers %zu and %zu overlap at %llu",
                               clash->buffer, life->buffer, (unsigned long long)moments[m].time);
    }
    return ACRE_OK;
}

/* Lists the moments of all pieces; gives how many there are. */
static size_t list_moments(const acre_plan_buffer *buffers, size_t count, const uint64_t *offsets,
                           struct life *lives, struct moment *moments)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t start = buffers[i].start;
        if (buffers[i].size == 0)
            continue;
        for (uint32_t g = 0; g <= buffers[i].gap_count; g++) {
            bool is_last = g == buffers[i].gap_count;
            lives[at / 2] =
                (struct life){.offset = offsets[i], .size = buffers[i].size, .buffer = i};
            at = add_life(moments, at, &lives[at / 2], start,
                          is_last ? buffers[i].end : buffers[i].gaps[g].start);
            start = is_last ? start : buffers[i].gaps[g].end;
        }
    }
    return at;
}

acre_status acre_plan_verify(const acre_plan_buffer *buffers, size_t count, const uint64_t *offsets,
                             uint64_t capacity)
{
    size_t piece_max = count;
    acre_status status = ACRE_OK;

    if (count && (!buffers || !offsets))
        return status_fail(ACRE_ERR_INVALID, "acre_plan_verify: %s is NULL",
                           buffers ? "offsets" : "buffers");
    for (size_t i = 0; i < count && status == ACRE_OK; i++) {
        piece_max += buffers[i].gap_count;
        if (buffers[i].end > buffers[i].start && buffers[i].size > 0)
            status = check_alone(&buffers[i], i, offsets[i], capacity);
    }
    if (status != ACRE_OK)
        return status;
    struct life *lives = heap_array(piece_max + 1, sizeof *lives);
    struct moment *moments = heap_array(2 * piece_max + 2, sizeof *moments);
    status = ACRE_ERR_HOST_MEMORY;
    if (lives && moments) {
        size_t moment_count = list_moments(buffers, count, offsets, lives, moments);
        qsort(moments, moment_count, sizeof *moments, compare_moments);
        status = verify_sweep(moments, moment_count);
    }
    heap_free(lives);
    heap_free(moments);
    return status;
}
