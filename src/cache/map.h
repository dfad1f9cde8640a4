/* SPDX-License-Identifier: MIT */
/* From a device address to the block that begins there.
 *
 * Two tables deep for addresses below 2^48, one more above:
 *
 *    63      57        48          28             9        0
 *   +---------+---------+-----------+-------------+---------+
 *   |   zero  |  high   |   root    |    leaf     | in unit |
 *   +---------+---------+-----------+-------------+---------+
 *
 *   map->root ──► 2^20 leaf pointers (8 MiB of addresses, pages where touched)
 *   leaf      ──► 2^19 block pointers, one per 512-byte unit of 256 MiB
 *
 * A root holds for each leaf not its address but where it would begin if it began
 * with the unit of address 0 (map_slot), so that looking up needs no mask.
 *
 * Reading takes no lock: a leaf, once published, stays until map_fini, and an
 * entry is one atomic word. What an entry points at must stay readable as long
 * as readers may look; blocks come from slabs that live as long as the cache.
 * Writing (reserve, set, clear) is done by one thread at a time, under the
 * owner's lock. map_reserve creates the leaves of a range, so that map_set and
 * map_clear inside that range cannot fail.
 */
#ifndef SRC_CACHE_MAP_H
#define SRC_CACHE_MAP_H

#include "base/check.h"

#include <acre/base.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct block;

enum {
    MAP_UNIT_SHIFT = 9,  /* bytes per entry, as a power of two         */
    MAP_LEAF_SHIFT = 28, /* bytes per leaf, as a power of two          */
    MAP_ROOT_SHIFT = 48, /* bytes per root, as a power of two          */
    MAP_HIGH_SHIFT = 57, /* addresses above are refused                */
    MAP_LEAF_COUNT = 1 << (MAP_LEAF_SHIFT - MAP_UNIT_SHIFT),
    MAP_ROOT_COUNT = 1 << (MAP_ROOT_SHIFT - MAP_LEAF_SHIFT),
    MAP_HIGH_COUNT = 1 << (MAP_HIGH_SHIFT - MAP_ROOT_SHIFT),
};

/* Blocks that begin in 256 MiB of addresses. */
struct map_leaf {
    _Atomic(struct block *) blocks[MAP_LEAF_COUNT];
};

/* Leaves of 2^48 bytes of addresses, each shifted down by the size of all leaves
 * before it; 0 where nothing was reserved. */
struct map_root {
    _Atomic uintptr_t leaves[MAP_ROOT_COUNT];
};

/* The entry of an address below 2^48 in a leaf as a root holds it. */
static inline _Atomic(struct block *) *map_slot(uintptr_t leaf, uintptr_t address)
{
    return (_Atomic(struct block *) *)(leaf + (address >> MAP_UNIT_SHIFT) * sizeof(void *));
}

struct map {
    struct map_root *root; /* of addresses below 2^48; never NULL after init     */
    struct map_leaf **owned; /* all leaves, for map_fini; guarded by the owner   */
    size_t owned_count, owned_capacity;
    _Atomic(struct map_root *) high[MAP_HIGH_COUNT]; /* the others, by address >> 48 */
};

/* Errors: ACRE_ERR_HOST_MEMORY. */
acre_status map_init(struct map *map);
/* Also after a failed or missing map_init, given zeroes. */
void map_fini(struct map *map);

/* Makes [base, base + bytes) writable for map_set.
 * Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_RANGE (beyond 2^57, or base is no multiple
 * of 512). */
acre_status map_reserve(struct map *map, const void *base, uint64_t bytes);

/* The entry of an address above 2^48, or of one without a leaf: NULL. */
struct block *map_find_far(const struct map *map, const void *pointer);

/* Where the block of an address below 2^48 is entered; NULL where nothing can be, and for all
 * other addresses. */
static inline _Atomic(struct block *) *map_place_near(const struct map *map, const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    uintptr_t index = address >> MAP_LEAF_SHIFT;

    if (UNLIKELY(index >= MAP_ROOT_COUNT))
        return NULL;
    uintptr_t leaf = atomic_load_explicit(&map->root->leaves[index], memory_order_acquire);
    return UNLIKELY(!leaf) ? NULL : map_slot(leaf, address);
}

/* As map_find for addresses of the first leaf_count leaves; NULL for all others. */
static inline struct block *map_find_below(const struct map *map, const void *pointer,
                                           uintptr_t leaf_count)
{
    uintptr_t address = (uintptr_t)pointer;
    uintptr_t index = address >> MAP_LEAF_SHIFT;

    if (UNLIKELY(index >= leaf_count))
        return NULL;
    uintptr_t leaf = atomic_load_explicit(&map->root->leaves[index], memory_order_acquire);
    if (UNLIKELY(!leaf))
        return NULL;
    return atomic_load_explicit(map_slot(leaf, address), memory_order_acquire);
}

/* As map_find for addresses below 2^48; NULL for all others. */
static inline struct block *map_find_near(const struct map *map, const void *pointer)
{
    return map_find_below(map, pointer, MAP_ROOT_COUNT);
}

/* The block entered for the 512-byte unit around pointer, or NULL. The caller
 * compares the block's base: an entry does not tell interior pointers apart. */
static inline struct block *map_find(const struct map *map, const void *pointer)
{
    if (UNLIKELY((uintptr_t)pointer >> MAP_ROOT_SHIFT))
        return map_find_far(map, pointer);
    return map_find_near(map, pointer);
}

/* The entry of a base inside a reserved range. */
_Atomic(struct block *) *map_entry_far(struct map *map, const void *base);
static inline _Atomic(struct block *) *map_entry(struct map *map, const void *base)
{
    uintptr_t address = (uintptr_t)base;

    if (UNLIKELY(address >> MAP_ROOT_SHIFT))
        return map_entry_far(map, base);
    uintptr_t leaf = atomic_load_explicit(&map->root->leaves[address >> MAP_LEAF_SHIFT],
                                          memory_order_relaxed);
    CHECK(leaf && address % (1 << MAP_UNIT_SHIFT) == 0);
    return map_slot(leaf, address);
}

/* Enters a block at its base, inside a reserved range. */
static inline void map_set(struct map *map, const void *base, struct block *block)
{
    atomic_store_explicit(map_entry(map, base), block, memory_order_release);
}

/* Takes the entry out. */
static inline void map_clear(struct map *map, const void *base)
{
    atomic_store_explicit(map_entry(map, base), NULL, memory_order_release);
}

#endif
