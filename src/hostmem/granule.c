/* SPDX-License-Identifier: MIT */
/* See granule.h. Leaves are published with a compare and exchange, so that two heaps may
 * reserve at the same time. */
#include "hostmem/granule.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

_Atomic(struct granule_leaf *) granule_roots[GRANULE_ROOT_COUNT];

acre_status granule_reserve(const void *base)
{
    uintptr_t root = (uintptr_t)base >> GRANULE_LEAF_SHIFT;
    struct granule_leaf *leaf, *none = NULL;

    if (root >= GRANULE_ROOT_COUNT)
        return status_fail(ACRE_ERR_RANGE, "host memory at %p lies beyond 2^47 bytes", base);
    if (atomic_load_explicit(&granule_roots[root], memory_order_acquire))
        return ACRE_OK;
    leaf = heap_map(sizeof *leaf);
    if (!leaf)
        return ACRE_ERR_HOST_MEMORY;
    if (!atomic_compare_exchange_strong(&granule_roots[root], &none, leaf))
        heap_unmap(leaf, sizeof *leaf);
    return ACRE_OK;
}

void granule_set(const void *base, struct slab *slab)
{
    uintptr_t address = (uintptr_t)base;
    struct granule_leaf *leaf =
        atomic_load_explicit(&granule_roots[address >> GRANULE_LEAF_SHIFT], memory_order_acquire);

    CHECK(leaf && address % GRANULE_BYTES == 0);
    atomic_store_explicit(&leaf->slabs[(address >> GRANULE_SHIFT) % GRANULE_LEAF_COUNT], slab,
                          memory_order_release);
}
