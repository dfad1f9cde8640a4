/* SPDX-License-Identifier: MIT */
#include "cache/map.h"

#include "base/heap.h"
#include "base/status.h"

#include <string.h>

acre_status map_init(struct map *map)
{
    memset(map, 0, sizeof *map);
    map->root = heap_map(sizeof *map->root);
    return map->root ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

void map_fini(struct map *map)
{
    for (size_t i = 0; i < map->owned_count; i++)
        heap_unmap(map->owned[i], sizeof *map->owned[i]);
    heap_free(map->owned);
    for (size_t i = 1; i < MAP_HIGH_COUNT; i++)
        heap_unmap(atomic_load(&map->high[i]), sizeof(struct map_root));
    heap_unmap(map->root, sizeof *map->root);
    memset(map, 0, sizeof *map);
}

/* The root that covers an address, or NULL when none was made. */
static struct map_root *root_of(const struct map *map, uintptr_t address)
{
    uintptr_t index = address >> MAP_ROOT_SHIFT;

    if (index == 0)
        return map->root;
    if (index >= MAP_HIGH_COUNT)
        return NULL;
    return atomic_load_explicit(&map->high[index], memory_order_acquire);
}

static size_t leaf_index(uintptr_t address)
{
    return (address >> MAP_LEAF_SHIFT) & (MAP_ROOT_COUNT - 1);
}

/* An address as seen by its root. */
static uintptr_t in_root(uintptr_t address)
{
    return address & (((uintptr_t)1 << MAP_ROOT_SHIFT) - 1);
}

/* What a root holds for a leaf. */
static uintptr_t map_shifted(const struct map_leaf *leaf, size_t index)
{
    return (uintptr_t)leaf - index * sizeof *leaf;
}

/* Makes the root of an address if it is missing. */
static struct map_root *root_make(struct map *map, uintptr_t address)
{
    struct map_root *root = root_of(map, address);

    if (root)
        return root;
    root = heap_map(sizeof *root);
    if (root)
        atomic_store_explicit(&map->high[address >> MAP_ROOT_SHIFT], root, memory_order_release);
    return root;
}

/* Makes the leaf of an address if it is missing. */
static acre_status leaf_make(struct map *map, uintptr_t address)
{
    struct map_root *root = root_make(map, address);
    size_t index = leaf_index(address);

    if (!root)
        return ACRE_ERR_HOST_MEMORY;
    if (atomic_load_explicit(&root->leaves[index], memory_order_relaxed))
        return ACRE_OK;
    if (map->owned_count == map->owned_capacity) {
        size_t capacity = map->owned_capacity ? map->owned_capacity * 2 : 16;
        void *grown = heap_realloc(map->owned, capacity * sizeof(void *));
        if (!grown)
            return ACRE_ERR_HOST_MEMORY;
        map->owned = grown;
        map->owned_capacity = capacity;
    }
    struct map_leaf *leaf = heap_map(sizeof *leaf);
    if (!leaf)
        return ACRE_ERR_HOST_MEMORY;
    map->owned[map->owned_count++] = leaf;
    if (map_shifted(leaf, index) == 0) /* looks like none: keep it, and make another */
        return leaf_make(map, address);
    atomic_store_explicit(&root->leaves[index], map_shifted(leaf, index), memory_order_release);
    return ACRE_OK;
}

acre_status map_reserve(struct map *map, const void *base, uint64_t bytes)
{
    uintptr_t first = (uintptr_t)base, last = first + bytes - 1;

    if (bytes == 0)
        return ACRE_OK;
    if (first % ((uintptr_t)1 << MAP_UNIT_SHIFT))
        return status_fail(ACRE_ERR_RANGE,
                           "device memory at %p does not begin at a multiple of 512 bytes; "
                           "whoever hands it out has to align it",
                           base);
    if (last < first || last >> MAP_HIGH_SHIFT)
        return status_fail(ACRE_ERR_RANGE, "device memory at %p of %llu bytes lies beyond 2^57",
                           base, (unsigned long long)bytes);
    for (uintptr_t i = first >> MAP_LEAF_SHIFT; i <= last >> MAP_LEAF_SHIFT; i++) {
        acre_status status = leaf_make(map, i << MAP_LEAF_SHIFT);
        if (status != ACRE_OK)
            return status;
    }
    return ACRE_OK;
}

/* The leaf of an address as its root holds it, or 0 when none was made. */
static uintptr_t leaf_of(const struct map *map, uintptr_t address)
{
    struct map_root *root = root_of(map, address);

    if (!root)
        return 0;
    return atomic_load_explicit(&root->leaves[leaf_index(address)], memory_order_acquire);
}

struct block *map_find_far(const struct map *map, const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer, leaf = leaf_of(map, address);

    if (!leaf)
        return NULL;
    return atomic_load_explicit(map_slot(leaf, in_root(address)), memory_order_acquire);
}

_Atomic(struct block *) *map_entry_far(struct map *map, const void *base)
{
    uintptr_t address = (uintptr_t)base, leaf = leaf_of(map, address);

    CHECK(leaf && address % (1 << MAP_UNIT_SHIFT) == 0);
    return map_slot(leaf, in_root(address));
}
