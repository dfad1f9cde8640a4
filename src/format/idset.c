/* SPDX-License-Identifier: MIT */
#include "format/idset.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/process/hash.h"
#include "base/status.h"

#define ENTRIES_MIN 64

/* Numbers first to last, all used. Two ranges never touch. */
struct id_range {
    uint64_t first, last;
    struct rbnode node;
};

static inline bool range_less(const struct id_range *a, const struct id_range *b)
{
    return a->first < b->first;
}

/* The range lies entirely below the number. */
static inline bool range_before(const struct id_range *range, const uint64_t *id)
{
    return range->last < *id;
}

RBTREE_DEFINE(ranges, struct id_range, node, uint64_t, range_less, range_before);

void idset_init(struct idset *set)
{
    *set = (struct idset){.ranges = RBTREE_INITIALIZER};
}

void idset_fini(struct idset *set)
{
    for (struct id_range *range; (range = ranges_first(&set->ranges));) {
        ranges_remove(&set->ranges, range);
        heap_free(range);
    }
    heap_free(set->entries);
    heap_free(set->free_slots);
    idset_init(set);
}

/* ---- Used numbers ------------------------------------------------------------ */

bool idset_was_used(const struct idset *set, uint64_t id)
{
    const struct id_range *range = ranges_lower_bound(&set->ranges, &id);

    return range && range->first <= id;
}

size_t idset_range_count(const struct idset *set)
{
    size_t count = 0;

    for (struct id_range *range = ranges_first(&set->ranges); range; range = ranges_next(range))
        count++;
    return count;
}

/* Joins range with its successor when no number is missing between them. */
static void join_next(struct idset *set, struct id_range *range)
{
    struct id_range *next = ranges_next(range);

    if (next && next->first - 1 == range->last) {
        range->last = next->last;
        ranges_remove(&set->ranges, next);
        heap_free(next);
    }
}

static acre_status mark_used(struct idset *set, uint64_t id)
{
    struct id_range *above = ranges_lower_bound(&set->ranges, &id);
    struct id_range *below = above ? ranges_prev(above) : ranges_last(&set->ranges);

    if (above && above->first <= id)
        return ACRE_ERR_EXISTS;
    if (below && below->last == id - 1) {
        below->last = id;
        join_next(set, below);
        set->recent = below;
        return ACRE_OK;
    }
    if (above && above->first - 1 == id) {
        above->first = id;
        set->recent = above;
        return ACRE_OK;
    }
    struct id_range *range = heap_alloc(sizeof *range);
    if (!range)
        return ACRE_ERR_HOST_MEMORY;
    range->first = range->last = id;
    ranges_insert(&set->ranges, range);
    set->recent = range;
    return ACRE_OK;
}

/* The usual case first: the number after the last one, and the highest. */
static acre_status mark_next_used(struct idset *set, uint64_t id)
{
    struct id_range *recent = set->recent;

    if (recent && id > 0 && recent->last == id - 1 && recent == ranges_last(&set->ranges)) {
        recent->last = id;
        return ACRE_OK;
    }
    return mark_used(set, id);
}

/* ---- Live numbers ---------------------------------------------------------------- */

static size_t idset_home(const struct idset *set, uint64_t id)
{
    return (size_t)hash_number(id) & (set->entry_count - 1);
}

static struct idset_entry *find_entry(const struct idset *set, uint64_t id)
{
    size_t at = idset_home(set, id);

    while (set->entries[at].slot && set->entries[at].id != id)
        at = (at + 1) & (set->entry_count - 1);
    return &set->entries[at];
}

/* Makes room for one more live number. */
static acre_status grow_entries(struct idset *set)
{
    struct idset bigger = *set;

    if ((set->live_count + 1) * 2 <= set->entry_count)
        return ACRE_OK;
    bigger.entry_count = set->entry_count ? set->entry_count * 2 : ENTRIES_MIN;
    bigger.entries = heap_array(bigger.entry_count, sizeof *bigger.entries);
    if (!bigger.entries)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < set->entry_count; i++)
        if (set->entries[i].slot)
            *find_entry(&bigger, set->entries[i].id) = set->entries[i];
    heap_free(set->entries);
    set->entries = bigger.entries;
    set->entry_count = bigger.entry_count;
    return ACRE_OK;
}

/* Makes sure that a new slot, when it ends, has a place on the stack. */
static acre_status grow_slots(struct idset *set)
{
    if (set->free_count > 0 || set->slot_count < set->free_capacity)
        return ACRE_OK;
    if (set->slot_count > UINT32_MAX - 2)
        return status_fail(ACRE_ERR_LIMIT, "more than %u live allocations", UINT32_MAX - 2);
    size_t capacity = set->free_capacity ? set->free_capacity * 2 : ENTRIES_MIN;
    uint32_t *bigger = heap_realloc(set->free_slots, capacity * sizeof *bigger);
    if (!bigger)
        return ACRE_ERR_HOST_MEMORY;
    set->free_slots = bigger;
    set->free_capacity = capacity;
    return ACRE_OK;
}

acre_status idset_begin(struct idset *set, uint64_t id, uint32_t *out_slot)
{
    acre_status status = grow_entries(set);

    if (status == ACRE_OK)
        status = grow_slots(set);
    if (status == ACRE_OK)
        status = mark_next_used(set, id);
    if (status != ACRE_OK)
        return status;
    uint32_t slot = set->free_count ? set->free_slots[--set->free_count] : set->slot_count++;
    *find_entry(set, id) = (struct idset_entry){id, slot + 1};
    set->live_count++;
    *out_slot = slot;
    return ACRE_OK;
}

bool idset_find(const struct idset *set, uint64_t id, uint32_t *out_slot)
{
    const struct idset_entry *entry = set->live_count ? find_entry(set, id) : NULL;

    if (!entry || !entry->slot)
        return false;
    *out_slot = entry->slot - 1;
    return true;
}

bool idset_end(struct idset *set, uint64_t id, uint32_t *out_slot)
{
    if (!idset_find(set, id, out_slot))
        return false;
    size_t mask = set->entry_count - 1, hole = (size_t)(find_entry(set, id) - set->entries);

    /* An entry behind the hole moves into it unless its home lies between. */
    for (size_t at = hole; set->entries[at = (at + 1) & mask].slot;) {
        if (((at - idset_home(set, set->entries[at].id)) & mask) >= ((at - hole) & mask)) {
            set->entries[hole] = set->entries[at];
            hole = at;
        }
    }
    set->entries[hole] = (struct idset_entry){0, 0};
    set->live_count--;
    CHECK(set->free_count < set->free_capacity);
    set->free_slots[set->free_count++] = *out_slot;
    return true;
}
