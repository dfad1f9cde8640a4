/* SPDX-License-Identifier: MIT */
/* From an address to the slab around it, for all heaps of the process.
 *
 *    63     47          31             16          0
 *   +--------+-----------+--------------+-----------+
 *   |  zero  |   root    |     leaf     | in granule|
 *   +--------+-----------+--------------+-----------+
 *
 * Reading takes no lock: a leaf, once published, stays. What an entry points at is kept
 * while a block of the slab is live, and callers only ask about blocks they own; a wrong
 * pointer finds NULL or a slab that does not know the slot.
 */
#ifndef SRC_HOSTMEM_GRANULE_H
#define SRC_HOSTMEM_GRANULE_H

#include <acre/base.h>

#include <stdatomic.h>
#include <stdint.h>

struct slab;

enum {
    GRANULE_SHIFT = 16, /* bytes per entry, as a power of two */
    GRANULE_LEAF_SHIFT = 31,
    GRANULE_ROOT_SHIFT = 47,
    GRANULE_BYTES = 1 << GRANULE_SHIFT,
    GRANULE_LEAF_COUNT = 1 << (GRANULE_LEAF_SHIFT - GRANULE_SHIFT),
    GRANULE_ROOT_COUNT = 1 << (GRANULE_ROOT_SHIFT - GRANULE_LEAF_SHIFT),
};

struct granule_leaf {
    _Atomic(struct slab *) slabs[GRANULE_LEAF_COUNT];
};

extern _Atomic(struct granule_leaf *) granule_roots[GRANULE_ROOT_COUNT];

/* The slab of the granule around pointer, or NULL. */
static inline struct slab *granule_find(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer, root = address >> GRANULE_LEAF_SHIFT;
    struct granule_leaf *leaf;

    if (__builtin_expect(root >= GRANULE_ROOT_COUNT, 0))
        return NULL;
    leaf = atomic_load_explicit(&granule_roots[root], memory_order_acquire);
    if (!leaf)
        return NULL;
    return atomic_load_explicit(&leaf->slabs[(address >> GRANULE_SHIFT) % GRANULE_LEAF_COUNT],
                                memory_order_acquire);
}

/* Makes the granule at base able to hold an entry.
 * Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_RANGE (beyond 2^47). */
acre_status granule_reserve(const void *base);

/* Enters a slab, or NULL, at a reserved granule. */
void granule_set(const void *base, struct slab *slab);

#endif
