/* SPDX-License-Identifier: MIT */
#include "plan/search/conflict.h"

#include "base/heap.h"

#include <string.h>

#define RECORDS_FIRST 64u

/* Record r is the cause -2 - r. */
static uint64_t *record_of(const struct conflict *conflict, int32_t cause)
{
    return conflict->records + (size_t)(-2 - cause) * conflict->words;
}

acre_status conflict_init(struct conflict *conflict, uint32_t buffer_count)
{
    conflict->words = (buffer_count + 63) / 64 + (buffer_count == 0);
    conflict->cause = heap_array(buffer_count + 1u, sizeof *conflict->cause);
    conflict->depth = heap_array(buffer_count + 1u, sizeof *conflict->depth);
    conflict->found = heap_array(conflict->words, sizeof *conflict->found);
    return conflict->cause && conflict->depth && conflict->found ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

void conflict_fini(struct conflict *conflict)
{
    heap_free(conflict->cause);
    heap_free(conflict->depth);
    heap_free(conflict->found);
    heap_free(conflict->records);
}

void conflict_clear(struct conflict *conflict)
{
    memset(conflict->found, 0, conflict->words * sizeof *conflict->found);
}

void conflict_add_floor(const struct conflict *conflict, uint32_t buffer, uint64_t *set)
{
    int32_t cause = conflict->cause[buffer];

    for (; cause >= 0; cause = conflict->cause[cause]) {
        uint32_t depth = conflict->depth[cause];
        if (set[depth / 64] >> (depth % 64) & 1)
            return; /* and so what explains it */
        set[depth / 64] |= UINT64_C(1) << (depth % 64);
    }
    if (cause == CAUSE_NONE)
        return;
    const uint64_t *record = record_of(conflict, cause);
    for (uint32_t k = 0; k < conflict->words; k++)
        set[k] |= record[k];
}

void conflict_add_placed(const struct conflict *conflict, uint32_t buffer, uint64_t *set)
{
    uint32_t depth = conflict->depth[buffer];

    set[depth / 64] |= UINT64_C(1) << (depth % 64);
    conflict_add_floor(conflict, buffer, set);
}

bool conflict_record(struct conflict *conflict, int32_t *out_cause)
{
    size_t bytes = conflict->words * sizeof *conflict->found;

    if (conflict->record_count == conflict->record_capacity) {
        uint32_t capacity =
            conflict->record_capacity ? 2 * conflict->record_capacity : RECORDS_FIRST;
        void *records = heap_realloc(conflict->records, capacity * bytes);
        if (!records)
            return false;
        conflict->records = records;
        conflict->record_capacity = capacity;
    }
    *out_cause = -2 - (int32_t)conflict->record_count++;
    memcpy(record_of(conflict, *out_cause), conflict->found, bytes);
    return true;
}

bool conflict_take_last(struct conflict *conflict, uint32_t *out_depth)
{
    for (uint32_t k = conflict->words; k-- > 0;)
        if (conflict->found[k]) {
            unsigned bit = 63 - (unsigned)__builtin_clzll(conflict->found[k]);
            conflict->found[k] &= ~(UINT64_C(1) << bit);
            *out_depth = 64 * k + bit;
            return true;
        }
    return false;
}
