/* SPDX-License-Identifier: MIT */
/* The whole cache of one device: parts embedded, one lock around them.
 *
 * Files that compose parts (the wholes of docs/ARCHITECTURE.md) include this header; parts
 * never do. Each whole has a header of its own for what it offers to the others.
 */
#ifndef SRC_CACHE_CACHE_H
#define SRC_CACHE_CACHE_H

#include "base/process/fork.h"
#include "base/quick_lock.h"
#include "cache/block.h"
#include "cache/conf.h"
#include "cache/deferred.h"
#include "cache/torch/expand.h"
#include "cache/observe/history.h"
#include "cache/pools/capture_wait.h"
#include "cache/pools/late.h"
#include "cache/map.h"
#include "cache/observer.h"
#include "cache/policy.h"
#include "cache/request.h"
#include "cache/torch/pool.h"
#include "cache/torch/tally.h"
#include "cache/pools/private_pool.h"
#include "cache/pools/scope.h"
#include "cache/segment.h"
#include "cache/share/shares.h"
#include "cache/observe/stats.h"

#include <acre/cache.h>

struct acre_device;
struct front;
struct status_saved;
struct stitch;

/* A capture that runs. */
struct running_capture {
    struct list link; /* in cache.marks, newest first */
    void *stream;     /* that began it; of a capture that was found: that takes part */
    uint64_t capture_id;
    uint64_t thread; /* number of the one that began it; 0: not known                */
    bool is_found;   /* the cache noticed it, and drops the mark when it is over     */
};

struct acre_cache {
    struct quick_lock lock;      /* guards everything below unless it says otherwise */
    struct acre_device *device;  /* constant                                         */
    const struct policy *policy; /* constant                                         */
    struct policy_facts facts;   /* those of the policy, at hand; constant           */
    struct map map;              /* blocks that are not FREE, by base; read unlocked */
    struct cache_conf conf;
    char *conf_text;              /* last options string                              */
    uint64_t limit_bytes;         /* cap on held_bytes, or ACRE_CACHE_NO_LIMIT        */
    uint64_t held_bytes;          /* bytes obtained from the device, or being obtained */
    uint64_t order_next;          /* of the next segment                              */
    uint64_t order_step;          /* 1; 0 where age does not count                    */
    struct pool small, large;     /* the shared pool                                  */
    struct list private_pools;    /* oldest first                                     */
    struct list accounts;         /* statistics of private pools, ended ones too      */
    struct list scopes;           /* open ones, newest first                          */
    _Atomic uint32_t scope_count; /* how many; read unlocked                         */
    struct block_store blocks;
    struct list segments; /* oldest first                                     */
    struct list returned; /* segments on their way back to a pool's own source */
    struct list direct;   /* DIRECT blocks, obtained while caching was off    */
    struct deferred deferred;
    struct shares shares;               /* blocks that other processes may open             */
    struct capture_waits capture_waits; /* freed while captures ran                         */
    struct list marks;                  /* captures that the cache was told of              */
    uint32_t capture_count;             /* how many                                         */
    uint32_t found_count;               /* of these, found                                  */
    acre_cache_stats stats;
    struct stats_tally tally;                 /* what policy torch has yet to bring into stats    */
    struct observers *oom_observers, *rejection_observers, *reclaimers, *trackers;
    struct history history;
    uint64_t rejection_logged_ns; /* when a rejection was last logged; 0: never      */
    _Atomic bool is_enabled;      /* the user's switch; read unlocked                 */
    bool is_forbidden;            /* by the environment; constant                     */
    struct front *front;          /* thread caches of policy acre; else NULL          */
    struct stitch *kept_pages;    /* reclaiming leaves the pages of this one alone; or NULL */
    bool expands;                 /* new memory comes by expandable segments          */
    bool is_expanding_said;       /* in the log: what became of expandable_segments   */
    acre_handle_type handle_type; /* to try first for new pages                      */
    uint64_t bytes_unaddressed;   /* addresses the device refused in this attempt; 0  */
    struct expand_peers peers;    /* devices that reach mapped memory, own one aside  */
    unsigned fork_generation;     /* of the process that made it; constant            */
    struct fork_guard fork_guard; /* of the lock                                      */
    struct list fork_link;        /* in the list of all caches (fork.c)               */
    struct late late;             /* frees of deleters that were refused              */
};

/* cache.c: the public calls of the same name, under the lock; the ones exported
 * (front.c) try without it first. */
acre_status cache_alloc(acre_cache *cache, size_t bytes, void *stream, void **out);
acre_status cache_free(acre_cache *cache, void *pointer);
/* Frees a live block with all that belongs to it. On failure it stays live. */
acre_status cache_free_block_locked(acre_cache *cache, struct block *block);

/* With ACRE_CHECK 2, walks the whole cache and aborts on a false fact. */
void cache_check_now(acre_cache *cache);
static inline void cache_check_locked(acre_cache *cache)
{
    if (ACRE_CHECK >= 2)
        cache_check_now(cache);
}

/* Whether requests served by a pool grow expandable segments. */
static inline bool cache_expands(const acre_cache *cache, const struct pool *pool)
{
    return cache->expands && !(pool->owner && private_pool_has_source(pool->owner));
}

/* Whether the pool of a block, or a private pool, is asleep. */
static inline bool pool_is_asleep(const struct pool *pool)
{
    return pool->owner && pool->owner->sleep;
}

/* The clock of garbage collection ticks at every search while it is on. */
static inline void cache_count_find(const acre_cache *cache, struct pool *pool)
{
    if (cache->conf.gc_threshold > 0 && cache->limit_bytes != ACRE_CACHE_NO_LIMIT)
        pool->find_count++;
}

/* Notes for the report that addresses for a segment of mapped pages were refused. */
void cache_note_addresses(acre_cache *cache, size_t page_bytes, acre_status status);

/* The order of a new segment. */
static inline uint64_t cache_take_order(acre_cache *cache)
{
    uint64_t order = cache->order_next;

    cache->order_next += cache->order_step;
    return order;
}

#endif
