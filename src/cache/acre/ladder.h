/* SPDX-License-Identifier: MIT */
/* From a miss of the lanes to a block: the cold path of policy acre.
 *
 * Not thread-safe: the cache's lock is held around every call, which may drop and retake
 * it to call users and devices.
 */
#ifndef SRC_CACHE_ACRE_LADDER_H
#define SRC_CACHE_ACRE_LADDER_H

#include "cache/acre/arena.h"
#include "cache/cache.h"

/* Finds or makes a block for a request whose rounded size and stream are set, in the pool
 * of arena, which is that of the stream (NULL: no host memory). attempt->block is then LIVE
 * and in the map, without a tag and not in the live statistics. On failure, attempt_failed
 * is to be called after dropping the lock. */
acre_status ladder_climb_locked(acre_cache *cache, struct arena *arena, struct attempt *attempt);

/* policy.acquire: climbs for a request that the engine could not serve. */
acre_status ladder_acquire_locked(acre_cache *cache, struct attempt *attempt,
                                  struct block **out);

#endif
