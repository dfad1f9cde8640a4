/* SPDX-License-Identifier: MIT */
/* The whole cache of one device: parts embedded, one lock around them.
 *
 * Files that compose parts (cache, engine, acquire, grow, reclaim, report, layout,
 * policy_*, front) include this header; parts never do.
 *
 * Life of an allocation (policy torch):
 *   acre_cache_alloc ─ lock ─ engine_alloc_locked ─ deferred_collect
 *       ─ policy.find ─ (miss) acquire_locked: callbacks, garbage, device,
 *         release, device ─ cut, account ─ unlock
 * Life of a free:
 *   acre_cache_free ─ lock ─ map_find ─ engine_free_locked
 *       ─ deferred_add, or engine_put_locked: join, index, account ─ unlock
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
#include "cache/map.h"
#include "cache/observer.h"
#include "cache/policy.h"
#include "cache/torch/pool.h"
#include "cache/pools/private_pool.h"
#include "cache/pools/scope.h"
#include "cache/segment.h"
#include "cache/share/shares.h"
#include "cache/observe/stats.h"

#include <acre/cache.h>

struct acre_device;
struct front;

/* A capture that runs. */
struct mark {
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
    struct observers *oom_observers, *rejection_observers, *reclaimers, *trackers;
    struct history history;
    uint64_t rejection_logged_ns; /* when a rejection was last logged; 0: never      */
    _Atomic bool is_enabled;      /* the user's switch; read unlocked                 */
    bool is_forbidden;            /* by the environment; constant                     */
    struct front *front;          /* thread caches of policy acre; else NULL          */
    bool keeps_pages;             /* reclaiming leaves pages of stitched memory alone */
    bool expands;                 /* new memory comes by expandable segments          */
    bool is_expanding_said;       /* in the log: what became of expandable_segments   */
    acre_handle_type handle_type; /* to try first for new pages                      */
    struct expand_peers peers;    /* devices that reach mapped memory, own one aside  */
    unsigned fork_generation;     /* of the process that made it; constant            */
    struct fork_guard fork_guard; /* of the lock                                      */
    struct list fork_link;        /* in the list of all caches (fork.c)               */
};

/* A request on its way through the engine, and what became of it. */
struct request {
    size_t bytes; /* as asked for, > 0                                      */
    void *stream;
    /* Set by engine_alloc_locked. */
    size_t rounded;       /* size of the block                                      */
    size_t segment_bytes; /* what the device would be asked for                     */
    struct pool *pool;
    struct block *block; /* the result                                             */
    bool has_slack;      /* may have new memory although threads keep some         */
    /* Set on failure, for request_failed. */
    bool is_rejected;    /* refused ahead                                          */
    const char *option;  /* would join pieces of memory; NULL: none, or it is on   */
    uint64_t held_bytes; /* at that moment                                         */
    uint64_t limit_bytes;
    uint64_t device_free, device_total;
    uint64_t bytes_allocated; /* sleeping pools aside                              */
    uint64_t bytes_asleep;    /* live in sleeping pools, without memory            */
    uint64_t bytes_reserved, bytes_waiting, largest_free, free_private;
    double fraction; /* option per_process_memory_fraction                     */
};

/* Finds or makes a block for request->bytes on request->stream: state LIVE, in
 * the map, uses empty. Does not move the live statistics (stats.h). May drop and
 * retake the lock. On failure, call request_failed after dropping the lock. */
acre_status engine_alloc_locked(acre_cache *cache, struct request *request);
/* The same when rounded and pool are set already. */
acre_status engine_alloc_in_locked(acre_cache *cache, struct request *request);

/* Takes the block that covers [address, address + rounded) and cuts it out.
 * Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_HOST_MEMORY. out_prefix is a LIVE block of
 * what lies before, or NULL; the caller frees it. */
acre_status engine_alloc_at_locked(acre_cache *cache, struct request *request, char *address,
                                   struct block **out_prefix);

/* Makes the first bytes of an indexed FREE block LIVE, whatever the policy thinks of
 * cutting it. A spare block object must be there. Does not move the live
 * statistics. */
struct block *engine_cut_locked(acre_cache *cache, struct block *block, size_t bytes);

/* Ends the life of a LIVE block: back to its pool, or WAITING when other streams
 * use it; policy.retire is called when nobody does any more. On failure the block
 * stays LIVE. */
acre_status engine_free_locked(acre_cache *cache, struct block *block);

/* Returns a block that nobody uses (LIVE without uses, or WAITING without
 * events) to its pool, joined with free neighbours. policy.retire is not called. */
void engine_put_locked(acre_cache *cache, struct block *block);

/* Retires a block and puts it back; the last event of arg's, a cache's, block. */
void engine_done_locked(void *arg, struct block *block);

/* Sees which waiting blocks have become free, before an allocation for stream. */
acre_status engine_collect_slow_locked(acre_cache *cache, void *stream);
static inline acre_status engine_collect_locked(acre_cache *cache, void *stream)
{
    if (__builtin_expect(cache->deferred.pending_count == 0, 1))
        return ACRE_OK;
    return engine_collect_slow_locked(cache, stream);
}

/* The block that is LIVE, or DIRECT, with that base; NULL otherwise. */
struct block *engine_find_locked(const acre_cache *cache, const void *pointer);

/* Walks everything; names the fact that does not hold. */
bool engine_check_locked(acre_cache *cache, const char **fact);

/* cache.c: the public calls of the same name, under the lock; the ones exported
 * (front.c) try without it first. */
acre_status cache_alloc(acre_cache *cache, size_t bytes, void *stream, void **out);
acre_status cache_free(acre_cache *cache, void *pointer);
/* Frees a live block with all that belongs to it. On failure it stays live. */
acre_status cache_free_block_locked(acre_cache *cache, struct block *block);

/* acquire.c: whether the limits allow request->segment_bytes more from the device.
 * Errors: ACRE_ERR_LIMIT, ACRE_ERR_REJECTED. */
acre_status acquire_allows_locked(acre_cache *cache, struct request *request);
/* The ladder from a miss to a block, which is in no index. */
acre_status acquire_locked(acre_cache *cache, struct request *request, struct block **out);

/* grow.c: expandable segments, of policy torch. */
/* Whether requests served by a pool grow expandable segments. */
static inline bool cache_expands(const acre_cache *cache, const struct pool *pool)
{
    return cache->expands && !(pool->owner && private_pool_has_source(pool->owner));
}
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

/* reclaim.c: what gives memory back to the device. */
/* Waits for all queued work, which memory must before the device takes it back. */
acre_status reclaim_quiesce(const acre_cache *cache);
/* Whether a segment may go back, or pages of it: while captures run, if its streams
 * take no part in one, and no graph can be using it. */
bool reclaim_may_release_locked(const acre_cache *cache, const struct segment *segment);
/* Waits until nothing that is queued uses a segment: once per run, which *is_quiet
 * tells, for everything; while captures run, for the streams of its blocks. */
acre_status reclaim_settle_locked(acre_cache *cache, const struct segment *segment, bool *is_quiet);
void reclaim_garbage_locked(acre_cache *cache);
bool reclaim_available_locked(acre_cache *cache, const struct request *request);
/* Waits for pending uses, then releases all idle segments. Goes on after an
 * error and gives the first one. */
acre_status reclaim_all_locked(acre_cache *cache);
/* The same for a private pool that is freeable, which may end. Both may drop and
 * retake the lock. */
acre_status reclaim_private_locked(acre_cache *cache, struct private_pool *pool);

/* pools.c: the private pools of a cache. */
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

/* capture.c: captures that run. */
/* Whether streams may capture: the cache knows of a capture, or has an open scope, in which a
 * capture may begin that nobody tells the cache of. */
static inline bool capture_may_run_locked(const acre_cache *cache)
{
    return __builtin_expect(cache->capture_count || !list_empty(&cache->scopes), 0);
}
/* While a scope is open: marks the capture that a stream takes part in, if the cache does not
 * know of it; is_own: the calling thread works on it. Failures leave no mark. */
void capture_notice_locked(acre_cache *cache, void *stream, bool is_own);
/* The same for the streams of all blocks, before something that would break captures. */
void capture_search_locked(acre_cache *cache);
/* Drops marks of captures that were found and are over. */
void capture_sweep_locked(acre_cache *cache);
/* Whether a stream takes part in a capture, given by id. */
acre_status capture_has_locked(acre_cache *cache, uint64_t capture_id, void *stream, bool *out_has);
/* Whether a stream captures, or might; false while the cache knows of no capture and has no
 * open scope. */
bool capture_runs_on_locked(const acre_cache *cache, void *stream);
/* Whether the calling thread began a capture that runs. */
bool capture_is_own_locked(const acre_cache *cache);
/* Whether a call about stream is in a capture context (capture.c). */
acre_status capture_context_locked(const acre_cache *cache, void *stream, bool *out);
/* The capture that a use of stream is part of, 0 for none. */
acre_status capture_of_use_locked(const acre_cache *cache, void *stream, uint64_t *out_id);
/* Tells the cache that stream captures, and that it has ended. */
acre_status mark_begin_locked(acre_cache *cache, void *stream, uint64_t *out_id);
acre_status mark_end_locked(acre_cache *cache, void *stream);
/* As deferred_add, while captures run. */
acre_status capture_free_locked(acre_cache *cache, struct block *block);
/* As deferred_collect_slow, with captures in mind. */
acre_status capture_collect_locked(acre_cache *cache, void *stream);
/* Sets blocks free, of one pool or of all (NULL), whose captures have ended. */
acre_status capture_flush_locked(acre_cache *cache, const struct private_pool *pool);
void capture_fini(acre_cache *cache);

/* layout.c: what a block is doing; free ones that threads keep at hand are free. */
acre_block_state layout_state_of(const struct block *block);

/* layout.c: what acre_cache_layout_create gives; NULL: no memory. */
acre_cache_layout *layout_copy_locked(acre_cache *cache);

/* sleep.c: whether the pool of a block, or a private pool, is asleep; and the
 * sentence about it. */
static inline bool pool_is_asleep(const struct pool *pool)
{
    return pool->owner && pool->owner->sleep;
}
/* Bytes of blocks of a pool that sleep without memory of the device. */
uint64_t sleep_away_bytes(const acre_cache *cache, const struct pool *pool);
acre_status sleep_refuse(const struct private_pool *pool, const char *call);
/* Forgets what a pool that ends has saved. */
void sleep_drop(acre_cache *cache, struct private_pool *pool);

/* report.c: gathers what the report says, under the lock, and counts the OOM;
 * then, with no lock held, tells observers and records the error. */
void request_gather_locked(acre_cache *cache, struct request *request);
acre_status request_failed(acre_cache *cache, const struct request *request, acre_status status);
/* With ACRE_CHECK 2, walks the whole cache and aborts on a false fact. */
void cache_check_now(acre_cache *cache);
static inline void cache_check_locked(acre_cache *cache)
{
    if (ACRE_CHECK >= 2)
        cache_check_now(cache);
}

/* The order of a new segment. */
static inline uint64_t cache_take_order(acre_cache *cache)
{
    uint64_t order = cache->order_next;

    cache->order_next += cache->order_step;
    return order;
}

#endif
