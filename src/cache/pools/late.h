/* SPDX-License-Identifier: MIT */
/* Frees that come while their pool sleeps, from deleters, which cannot be told to come again: they
 * are noted, and done when the pool wakes. Until then the blocks stay live. What cannot be freed
 * when a pool wakes keeps its place, which takes no memory, and is tried again at the next.
 */
#ifndef SRC_CACHE_POOLS_LATE_H
#define SRC_CACHE_POOLS_LATE_H

#include <acre/cache.h>

struct late_page;

struct late {
    struct late_page *pages; /* newest first; notes go into the first */
    unsigned settle_count;   /* calls of late_settle                  */
};

/* After acre_cache_free refused: frees all the same, or notes the block when its pool sleeps. Takes
 * the lock. Errors: the last refusal. */
acre_status late_free(acre_cache *cache, void *pointer, acre_status refusal);
/* After waking: frees what can be freed now, and keeps the rest. Takes the lock for each. The last
 * error stays. */
void late_settle(acre_cache *cache);
void late_fini(acre_cache *cache);

#endif
