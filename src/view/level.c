/* SPDX-License-Identifier: MIT */
#include "view/level.h"

#include "base/check.h"
#include "base/heap.h"

#include <string.h>

/* ---- Totals ------------------------------------------------------------------------- */

/* Adds spans as differences; the sum of them up to a moment is what is there. */
static void add_steps(uint64_t *steps, const struct spans *spans, uint32_t moments)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct span *span = &spans->items[i];
        uint32_t end = span_end(span, moments);
        if (span->begin >= end)
            continue;
        steps[span->begin] += span->block_bytes;
        if (end < moments)
            steps[end] -= span->block_bytes;
    }
    for (uint32_t i = 1; i < moments; i++)
        steps[i] += steps[i - 1];
}

/* Finds the stacks whose small blocks hold most bytes for longest. */
static void find_groups(struct totals *totals, const struct spans *blocks, double *weights,
                        uint32_t stack_count)
{
    for (size_t i = 0; i < blocks->count; i++) {
        const struct span *block = &blocks->items[i];
        uint32_t end = span_end(block, totals->moments);
        if (block->block_bytes < totals->threshold && block->begin < end)
            weights[block->stack] += (double)block->block_bytes * (end - block->begin);
    }
    while (totals->group_count < LEVEL_GROUPS - 1) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < stack_count; i++)
            if (weights[i] > weights[best])
                best = i;
        if (!(weights[best] > 0))
            return;
        totals->groups[totals->group_count++] = best;
        weights[best] = 0;
    }
}

acre_status totals_init(struct totals *totals, const struct view_history *history,
                        uint32_t stack_count)
{
    double *weights = heap_array((size_t)stack_count + 1, sizeof *weights);

    memset(totals, 0, sizeof *totals);
    totals->moments = history_moments(history);
    totals->allocated = heap_array(totals->moments, sizeof *totals->allocated);
    totals->reserved = heap_array(totals->moments, sizeof *totals->reserved);
    if (!weights || !totals->allocated || !totals->reserved) {
        heap_free(weights);
        totals_fini(totals);
        return ACRE_ERR_HOST_MEMORY;
    }
    add_steps(totals->allocated, &history->blocks, totals->moments);
    add_steps(totals->reserved, &history->ranges, totals->moments);
    for (uint32_t i = 0; i < totals->moments; i++) {
        if (totals->allocated[i] > totals->allocated[totals->peak])
            totals->peak = i;
        if (totals->reserved[i] > totals->reserved_peak)
            totals->reserved_peak = totals->reserved[i];
    }
    totals->threshold = totals->allocated[totals->peak] / LEVEL_SHARE;
    find_groups(totals, &history->blocks, weights, stack_count);
    heap_free(weights);
    return ACRE_OK;
}

void totals_fini(struct totals *totals)
{
    heap_free(totals->allocated);
    heap_free(totals->reserved);
    memset(totals, 0, sizeof *totals);
}

/* ---- Levels ------------------------------------------------------------------------- */

static uint32_t columns_of(uint32_t moments, unsigned shift)
{
    return (uint32_t)(((uint64_t)moments + ((uint64_t)1 << shift) - 1) >> shift);
}

unsigned level_first(uint32_t moments)
{
    unsigned shift = 0;

    while (columns_of(moments, shift) > LEVEL_COLUMNS)
        shift++;
    return shift;
}

unsigned level_next(uint32_t moments, unsigned shift)
{
    if (shift <= 2 || columns_of(moments, shift - 2) > LEVEL_COLUMNS_MAX)
        return 0;
    return shift - 2;
}

/* Which columns show a block: the first, and the first after it that does not. */
static void shown_columns(const struct level *level, const struct span *block, uint32_t moments,
                          uint32_t *out_begin, uint32_t *out_end)
{
    uint32_t end = span_end(block, moments);
    uint32_t first = block->begin >> level->shift, last = end >> level->shift;

    if (first < level->columns && level->shown[first] < block->begin)
        first++;
    if (last < level->columns && level->shown[last] < end)
        last++;
    *out_begin = first;
    *out_end = last < level->columns ? last : level->columns;
}

static void fill_columns(struct level *level, const struct totals *totals)
{
    for (uint32_t column = 0; column < level->columns; column++) {
        uint64_t begin = (uint64_t)column << level->shift;
        uint64_t end = begin + ((uint64_t)1 << level->shift);
        uint32_t best = (uint32_t)begin;
        for (uint64_t i = begin; i < end && i < totals->moments; i++) {
            if (totals->allocated[i] > totals->allocated[best])
                best = (uint32_t)i;
            if (totals->reserved[i] > level->reserved[column])
                level->reserved[column] = totals->reserved[i];
        }
        level->shown[column] = best;
    }
}

acre_status level_init(struct level *level, const struct view_history *history,
                       const struct totals *totals, const uint32_t *order, unsigned shift)
{
    const struct spans *blocks = &history->blocks;
    uint32_t begin, end;

    *level = (struct level){.shift = shift, .columns = columns_of(totals->moments, shift)};
    level->shown = heap_array(level->columns, sizeof *level->shown);
    level->reserved = heap_array(level->columns, sizeof *level->reserved);
    level->kept = heap_array(blocks->count + 1, sizeof *level->kept);
    if (!level->shown || !level->reserved || !level->kept) {
        level_fini(level);
        return ACRE_ERR_HOST_MEMORY;
    }
    fill_columns(level, totals);
    for (size_t i = 0; i < blocks->count; i++) {
        const struct span *block = &blocks->items[order[i]];
        if (block->block_bytes < totals->threshold)
            continue;
        shown_columns(level, block, totals->moments, &begin, &end);
        if (begin < end)
            level->kept[level->kept_count++] = (uint32_t)i;
    }
    return ACRE_OK;
}

void level_fini(struct level *level)
{
    heap_free(level->shown);
    heap_free(level->reserved);
    heap_free(level->kept);
    memset(level, 0, sizeof *level);
}

static unsigned group_of(const struct totals *totals, uint32_t stack)
{
    for (unsigned i = 0; i < totals->group_count; i++)
        if (totals->groups[i] == stack)
            return i;
    return LEVEL_GROUPS - 1;
}

void level_sum(const struct level *level, const struct view_history *history,
               const struct totals *totals, unsigned group, uint64_t *sums)
{
    const struct spans *blocks = &history->blocks;
    uint32_t begin, end;

    memset(sums, 0, level->columns * sizeof *sums);
    for (size_t i = 0; i < blocks->count; i++) {
        const struct span *block = &blocks->items[i];
        if (block->block_bytes >= totals->threshold || group_of(totals, block->stack) != group)
            continue;
        shown_columns(level, block, totals->moments, &begin, &end);
        if (begin >= end)
            continue;
        sums[begin] += block->block_bytes;
        if (end < level->columns)
            sums[end] -= block->block_bytes;
    }
    for (uint32_t i = 1; i < level->columns; i++)
        sums[i] += sums[i - 1];
}
