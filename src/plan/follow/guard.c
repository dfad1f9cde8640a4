/* SPDX-License-Identifier: MIT */
/* Goes through two rounds of allocations with a map of who had which bytes last:
 *
 *   bytes   0        100      250            400
 *   last    | e4     | none   | e9           |
 *
 * The map is an array of spans in order; the last one has no end. An allocation looks
 * at the spans below it, and puts its own in their place.
 */
#include "plan/follow/guard.h"

#include "base/heap.h"

#include <string.h>

struct guard_span {
    uint64_t start;
    uint32_t entry; /* or NO_ENTRY */
};

struct guard_map {
    struct guard_span *spans;
    uint32_t count;
};

/* The span that an offset lies in. */
static uint32_t find_span(const struct guard_map *map, uint64_t offset)
{
    uint32_t low = 0, high = map->count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (map->spans[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Makes a span begin at an offset; gives its index. */
static uint32_t cut_span(struct guard_map *map, uint64_t offset)
{
    uint32_t at = find_span(map, offset);

    if (map->spans[at].start == offset)
        return at;
    at++;
    memmove(map->spans + at + 1, map->spans + at, (map->count++ - at) * sizeof *map->spans);
    map->spans[at] = (struct guard_span){offset, map->spans[at - 1].entry};
    return at;
}

/* Gives the bytes of an entry to it, and guards those that had them. */
static void take_bytes(struct guard_map *map, struct timetable_entry *entries, uint32_t entry)
{
    const struct timetable_entry *mine = &entries[entry];
    uint32_t first = cut_span(map, mine->offset);
    uint32_t end = cut_span(map, mine->offset + mine->size);

    for (uint32_t i = first; i < end; i++) {
        uint32_t other = map->spans[i].entry;
        if (other != NO_ENTRY && entries[other].stream != mine->stream)
            entries[other].is_guarded = true;
    }
    map->spans[first].entry = entry;
    memmove(map->spans + first + 1, map->spans + end, (map->count - end) * sizeof *map->spans);
    map->count -= end - first - 1;
}

acre_status guard_entries(struct timetable_entry *entries, uint32_t count, uint32_t *out_guarded)
{
    struct guard_map map = {heap_array(2 * (size_t)count + 4, sizeof *map.spans), 1};

    if (!map.spans)
        return ACRE_ERR_HOST_MEMORY;
    map.spans[0] = (struct guard_span){0, NO_ENTRY};
    for (uint64_t n = 0; n < 2 * (uint64_t)count; n++) {
        uint32_t entry = (uint32_t)(n % count);
        if (entries[entry].offset != OFFSET_CACHE)
            take_bytes(&map, entries, entry);
    }
    heap_free(map.spans);
    *out_guarded = 0;
    for (uint32_t e = 0; e < count; e++)
        *out_guarded += entries[e].is_guarded;
    return ACRE_OK;
}
