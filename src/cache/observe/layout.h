/* SPDX-License-Identifier: MIT */
/* What every block of a cache is doing, for users and for checks.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_OBSERVE_LAYOUT_H
#define SRC_CACHE_OBSERVE_LAYOUT_H

#include "cache/cache.h"

/* What a block is doing; free ones that threads keep at hand are free. */
acre_block_state layout_state_of(const struct block *block);

/* What acre_cache_layout_create gives; NULL: no host memory. */
acre_cache_layout *layout_copy_locked(acre_cache *cache);

/* Walks everything; names the fact that does not hold. */
bool engine_check_locked(acre_cache *cache, const char **fact);

#endif
