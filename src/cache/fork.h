/* SPDX-License-Identifier: MIT */
/* Caches in a child of fork.
 *
 * Before a fork the locks of all caches are held and the lanes of all threads stopped, so the
 * child finds every cache as it is between two calls. There, the lanes of threads that no longer
 * exist are taken over: their blocks and credit go back to the cache. A cache on a device that
 * cannot live in a child keeps no lane at all, and its calls answer ACRE_ERR_FORKED.
 */
#ifndef SRC_CACHE_FORK_H
#define SRC_CACHE_FORK_H

#include "base/process/fork.h"

/* Makes a cache known to fork, and ends that. The cache has its lock and front. */
void cache_fork_join(acre_cache *cache);
void cache_fork_leave(acre_cache *cache);

/* ACRE_ERR_FORKED in a child, for a cache on a device that does not work there. */
acre_status cache_fork_refuse(const acre_cache *cache);
static inline acre_status cache_check_fork(const acre_cache *cache)
{
    return __builtin_expect(cache->fork_generation == fork_generation(), 1)
               ? ACRE_OK
               : cache_fork_refuse(cache);
}

/* Opens a public call of a cache. */
#define REFUSE_FORKED(cache)                                                   \
    do {                                                                       \
        acre_status forked = cache_check_fork(cache);                          \
        if (__builtin_expect(forked != ACRE_OK, 0))                            \
            return forked;                                                     \
    } while (0)

#endif
