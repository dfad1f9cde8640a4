/* SPDX-License-Identifier: MIT */
/* The private pools of a cache: their uses and scopes, which of them serves a request.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_POOLS_POOLS_H
#define SRC_CACHE_POOLS_POOLS_H

#include "cache/cache.h"

/* Uses a pool once more, or creates it; config only for a new one, NULL: the
 * defaults. Errors: as acre_pool_create. */
acre_status pools_use_locked(acre_cache *cache, acre_pool_id id, const acre_pool_config *config,
                             struct private_pool **out);
/* Takes that back, after a failure; a pool made for it goes. */
void pools_unuse_locked(acre_cache *cache, struct private_pool *pool);
/* Opens the scope of a pool, which takes over a use of the caller, and ends it,
 * which drops that use. Errors: ACRE_ERR_STATE, ACRE_ERR_HOST_MEMORY. */
acre_status scope_open_locked(acre_cache *cache, struct private_pool *pool,
                              const acre_pool_filter *filter);
void scope_close_locked(acre_cache *cache, struct private_pool *pool);
/* Sets request->pool by size, stream, thread and open scopes. May drop and retake
 * the lock. Errors: what the device says about captures. */
acre_status pools_route_locked(acre_cache *cache, struct request *request);
/* A block for a request of the shared pool that a private pool lends, in no index;
 * NULL: none. */
struct block *pools_lend_locked(acre_cache *cache, struct request *request);
/* Walks all pools, the shared ones first; NULL before the first and at the end. */
struct pool *pools_next_locked(const acre_cache *cache, const struct pool *pool);
/* How many blocks are in the indices of all pools of a class. */
uint64_t pools_free_count_locked(const acre_cache *cache, bool is_small);
/* Ends pools that are over: one, or all for {0, 0}. */
void pools_end_locked(acre_cache *cache, acre_pool_id id);
/* Frees scopes, pools and accounts; segments are gone. */
void pools_fini(acre_cache *cache);

#endif
