/* SPDX-License-Identifier: MIT */
/* Frees that a cache refuses for now, of callers who do not come again: deleters, PyTorch.
 *
 * The deleter of an allocator of the cache notes what it cannot free while a pool sleeps, a capture
 * runs, or the device or host memory fails, and frees it later; that needs no memory. */
#ifndef SRC_ALLOC_LATER_H
#define SRC_ALLOC_LATER_H

#include <acre/allocator.h>
#include <acre/cache.h>

#include <stdbool.h>

/* Whether a free that was answered so was refused for a reason that may pass. */
static inline bool later_may(acre_status answer)
{
    return answer != ACRE_OK && answer != ACRE_ERR_INVALID && answer != ACRE_ERR_FORKED;
}

/* After acre_cache_free refused: leaves the block to the deleter of an allocator of that cache.
 * False: it was refused for a reason that does not pass. */
static inline bool later_free(acre_allocator *allocator, void *pointer, acre_status refusal)
{
    return later_may(refusal) && acre_allocator_raw_deallocate(allocator, pointer) == ACRE_OK;
}

#endif
