/* SPDX-License-Identifier: MIT */
/* Frees from deleters, which cannot be told to come again, that are refused for now: the pool
 * sleeps, a capture runs, the device or host memory fails. They are noted, and done when a pool
 * wakes or idle memory is reclaimed. Until then the blocks stay live, for statistics, and nobody
 * can free them once more.
 *
 * Blocks are noted in themselves, so that noting needs no memory and cannot fail.
 */
#ifndef SRC_CACHE_POOLS_LATE_H
#define SRC_CACHE_POOLS_LATE_H

#include "base/list.h"

#include <acre/cache.h>

#include <stddef.h>

struct block;

struct late {
    struct list blocks;  /* in the order in which they came, but for DIRECT ones */
    size_t direct_count; /* those, which are in cache.direct like others         */
};

void late_init(struct late *late);
/* After acre_cache_free refused: frees all the same, or notes the block when that may succeed
 * later. Takes the lock. Errors: the last refusal. */
acre_status late_free(acre_cache *cache, void *pointer, acre_status refusal);
/* Returns memory that the device gave in vain. What it does not take back now is offered again with
 * what is noted; block, an object from the store, stands for it. The last error stays. */
void late_return_locked(acre_cache *cache, struct block *block, void *base, size_t bytes);
/* Takes back the note of a block, which is live as any other then. */
void late_withdraw_locked(acre_cache *cache, struct block *block);
/* Frees what can be freed now. The last error stays. */
void late_settle_locked(acre_cache *cache);

#endif
