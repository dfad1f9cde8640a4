/* SPDX-License-Identifier: MIT */
/* Frees from deleters, which cannot be told to come again, that are refused for now: the pool
 * sleeps, a capture runs, the device or host memory fails. They are noted, and done when a pool
 * wakes or idle memory is reclaimed. Until then the blocks stay live.
 */
#ifndef SRC_CACHE_POOLS_LATE_H
#define SRC_CACHE_POOLS_LATE_H

#include <acre/cache.h>

#include <stdbool.h>
#include <stddef.h>

struct late {
    void **pointers; /* in the order in which they came */
    size_t count, capacity;
};

/* After acre_cache_free refused: frees all the same, or notes the block when that may succeed
 * later. Takes the lock. Errors: the last refusal. */
acre_status late_free(acre_cache *cache, void *pointer, acre_status refusal);
/* Frees what can be freed now. The last error stays. */
void late_settle_locked(acre_cache *cache);
void late_fini(acre_cache *cache);

#endif
