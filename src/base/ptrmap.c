/* SPDX-License-Identifier: MIT */
#include "base/ptrmap.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/process/hash.h"
#include "base/status.h"

#include <stdint.h>

#define SLOTS_MIN 16

static size_t ptrmap_home(const struct ptrmap *map, const void *key)
{
    return (size_t)hash_number((uintptr_t)key) & (map->slot_count - 1);
}

/* The slot that holds the key, or the empty one where it would go. */
static struct ptrmap_entry *ptrmap_find(const struct ptrmap *map, const void *key)
{
    size_t at = ptrmap_home(map, key);

    while (map->slots[at].key && map->slots[at].key != key)
        at = (at + 1) & (map->slot_count - 1);
    return &map->slots[at];
}

void ptrmap_init(struct ptrmap *map)
{
    *map = (struct ptrmap)PTRMAP_INITIALIZER;
}

void ptrmap_fini(struct ptrmap *map)
{
    heap_free(map->slots);
    ptrmap_init(map);
}

static acre_status ptrmap_grow(struct ptrmap *map, size_t slot_count)
{
    struct ptrmap bigger = {heap_array(slot_count, sizeof *map->slots), slot_count, map->count};

    if (!bigger.slots)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < map->slot_count; i++)
        if (map->slots[i].key)
            *ptrmap_find(&bigger, map->slots[i].key) = map->slots[i];
    heap_free(map->slots);
    *map = bigger;
    return ACRE_OK;
}

acre_status ptrmap_reserve(struct ptrmap *map, size_t more)
{
    size_t slot_count = map->slot_count ? map->slot_count : SLOTS_MIN;

    if (more > SIZE_MAX / 4 - map->count)
        return status_fail(ACRE_ERR_HOST_MEMORY, "a map of %zu further pointers cannot be had",
                           more);
    while (map->count + more > slot_count / 4 * 3)
        slot_count *= 2;
    return slot_count == map->slot_count ? ACRE_OK : ptrmap_grow(map, slot_count);
}

acre_status ptrmap_put(struct ptrmap *map, const void *key, void *value)
{
    CHECK(key);
    if (!ptrmap_has(map, key)) {
        acre_status status = ptrmap_reserve(map, 1);
        if (status != ACRE_OK)
            return status;
        map->count++;
    }
    *ptrmap_find(map, key) = (struct ptrmap_entry){key, value};
    return ACRE_OK;
}

void *ptrmap_get(const struct ptrmap *map, const void *key)
{
    return map->count && key ? ptrmap_find(map, key)->value : NULL;
}

bool ptrmap_has(const struct ptrmap *map, const void *key)
{
    return map->count && key && ptrmap_find(map, key)->key;
}

void *ptrmap_take(struct ptrmap *map, const void *key)
{
    if (!ptrmap_has(map, key))
        return NULL;
    struct ptrmap_entry *slot = ptrmap_find(map, key);
    void *value = slot->value;
    size_t mask = map->slot_count - 1, hole = (size_t)(slot - map->slots), at = hole;

    /* An entry behind the hole moves into it unless its home lies between. */
    while (map->slots[at = (at + 1) & mask].key) {
        size_t from_home = (at - ptrmap_home(map, map->slots[at].key)) & mask;
        if (from_home >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (struct ptrmap_entry){NULL, NULL};
    map->count--;
    return value;
}

struct ptrmap_entry *ptrmap_next(const struct ptrmap *map, size_t *at)
{
    while (*at < map->slot_count) {
        struct ptrmap_entry *entry = &map->slots[(*at)++];
        if (entry->key)
            return entry;
    }
    return NULL;
}

bool ptrmap_check(const struct ptrmap *map)
{
    size_t at = 0, seen = 0;

    for (struct ptrmap_entry *entry; (entry = ptrmap_next(map, &at)); seen++)
        if (ptrmap_find(map, entry->key) != entry)
            return false;
    return seen == map->count;
}
