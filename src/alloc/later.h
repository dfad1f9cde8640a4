/* SPDX-License-Identifier: MIT */
/* Frees that a cache refuses for now, of callers who do not come again: deleters, PyTorch.
 *
 * The deleter of an allocator of the cache remembers what it cannot free while a pool sleeps,
 * and frees it when the pool wakes. */
#ifndef SRC_ALLOC_LATER_H
#define SRC_ALLOC_LATER_H

#include <acre/allocator.h>
#include <acre/cache.h>

#include <stdbool.h>

/* After acre_cache_free refused: leaves the block to that deleter, which says in the log what it
 * cannot do either. False: it was refused for another reason, or nothing could be done. */
static inline bool later_free(acre_cache *cache, void *pointer, acre_status refusal)
{
    acre_allocator *allocator;

    if (refusal != ACRE_ERR_STATE || acre_cache_allocator(cache, &allocator) != ACRE_OK)
        return false;
    bool is_left = acre_allocator_raw_deallocate(allocator, pointer) == ACRE_OK;
    acre_allocator_destroy(allocator);
    return is_left;
}

#endif
