/* SPDX-License-Identifier: MIT */
/* Pools that sleep, as the rest of the cache sees them.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_POOLS_SLEEP_H
#define SRC_CACHE_POOLS_SLEEP_H

#include "cache/cache.h"

/* Bytes of blocks of a pool that sleep without memory of the device. */
uint64_t sleep_away_bytes(const acre_cache *cache, const struct pool *pool);
/* Refuses a call about a sleeping pool: ACRE_ERR_STATE. */
acre_status sleep_refuse(const struct private_pool *pool, const char *call);
/* Forgets what a pool that ends has saved. */
void sleep_drop(acre_cache *cache, struct private_pool *pool);
/* The private pool of an id. Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_UNSUPPORTED (the shared pool). */
acre_status sleep_find_locked(const acre_cache *cache, acre_pool_id id, struct private_pool **out);

#endif
