/* SPDX-License-Identifier: MIT */
/* Expandable segments of policy torch: growing them, giving pages back, their options.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_TORCH_GROW_H
#define SRC_CACHE_TORCH_GROW_H

#include "cache/cache.h"

/* Makes room for a request by mapping pages; the block is in no index. What was
 * mapped before a failure stays, free. */
acre_status grow_locked(acre_cache *cache, const struct request *request, struct block **out);
/* Unmaps all whole pages that are free in a pool, after waiting once per run for
 * what is queued. Goes on after an error and gives the first one. */
acre_status grow_shrink_locked(acre_cache *cache, const struct pool *pool, bool *is_quiet);
/* Follows the options; then, without the lock, finds out what the device can do
 * and says so in the log. */
void grow_configure_locked(acre_cache *cache);
void grow_announce(acre_cache *cache);

#endif
