/* SPDX-License-Identifier: MIT */
/* The whole cache of one device: parts embedded, one lock around them.
 *
 * Files that compose parts (cache, engine, acquire, reclaim, report, layout,
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

#include "base/quick_lock.h"
#include "cache/block.h"
#include "cache/conf.h"
#include "cache/deferred.h"
#include "cache/map.h"
#include "cache/observer.h"
#include "cache/policy.h"
#include "cache/pool.h"
#include "cache/segment.h"
#include "cache/stats.h"

#include <acre/cache.h>

struct acre_device;
struct front;

struct acre_cache {
    struct quick_lock lock;      /* guards everything below unless it says otherwise */
    struct acre_device *device;  /* constant                                         */
    const struct policy *policy; /* constant                                         */
    struct map map;              /* blocks that are not FREE, by base; read unlocked */
    struct cache_conf conf;
    char *conf_text;             /* last options string                              */
    uint64_t limit_bytes;        /* cap on held_bytes, or ACRE_CACHE_NO_LIMIT        */
    uint64_t held_bytes;         /* bytes obtained from the device, or being obtained */
    uint64_t order_next;         /* of the next segment                              */
    struct pool small, large;    /* the shared pool                                  */
    struct block_store blocks;
    struct list segments;        /* oldest first                                     */
    struct list direct;          /* DIRECT blocks, obtained while caching was off    */
    struct deferred deferred;
    acre_cache_stats stats;
    struct observers *oom_observers, *rejection_observers, *reclaimers;
    uint64_t rejection_logged_ns; /* when a rejection was last logged; 0: never      */
    _Atomic bool is_enabled;     /* the user's switch; read unlocked                 */
    bool is_forbidden;           /* by the environment; constant                     */
    struct front *front;         /* thread caches of policy acre; else NULL          */
};

/* A request on its way through the engine, and what became of it. */
struct request {
    size_t bytes;         /* as asked for, > 0                                      */
    void *stream;
    /* Set by engine_alloc_locked. */
    size_t rounded;       /* size of the block                                      */
    size_t segment_bytes; /* what the device would be asked for                     */
    struct pool *pool;
    struct block *block;  /* the result                                             */
    /* Set on failure, for request_failed. */
    bool is_rejected;     /* refused ahead                                          */
    bool is_expandable;   /* option expandable_segments                             */
    uint64_t held_bytes;  /* at that moment                                         */
    uint64_t limit_bytes;
    uint64_t device_free, device_total;
    uint64_t bytes_allocated, bytes_reserved, bytes_waiting, largest_free, free_private;
    double fraction;      /* option per_process_memory_fraction                     */
};

/* Finds or makes a block for request->bytes on request->stream: state LIVE, in
 * the map, uses empty. Does not move the live statistics (stats.h). May drop and
 * retake the lock. On failure, call request_failed after dropping the lock. */
acre_status engine_alloc_locked(acre_cache *cache, struct request *request);

/* Takes the block that covers [address, address + rounded) and cuts it out.
 * Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_HOST_MEMORY. out_prefix is a LIVE block of
 * what lies before, or NULL; the caller frees it. */
acre_status engine_alloc_at_locked(acre_cache *cache, struct request *request, char *address,
                                   struct block **out_prefix);

/* Ends the life of a LIVE block: back to its pool, or WAITING when other streams
 * use it; policy.retire is called when nobody does any more. On failure the block
 * stays LIVE. */
acre_status engine_free_locked(acre_cache *cache, struct block *block);

/* Returns a block that nobody uses (LIVE without uses, or WAITING without
 * events) to its pool, joined with free neighbours. policy.retire is not called. */
void engine_put_locked(acre_cache *cache, struct block *block);

/* Retires a block and puts it back; the last event of arg's, a cache's, block. */
void engine_done_locked(void *arg, struct block *block);

/* Sees which waiting blocks have become free. */
acre_status engine_collect_locked(acre_cache *cache);

/* The block that is LIVE, or DIRECT, with that base; NULL otherwise. */
struct block *engine_find_locked(const acre_cache *cache, const void *pointer);

/* Walks everything; names the fact that does not hold. */
bool engine_check_locked(acre_cache *cache, const char **fact);

/* cache.c: the public calls of the same name, under the lock; the ones exported
 * (front.c) try without it first. */
acre_status cache_alloc(acre_cache *cache, size_t bytes, void *stream, void **out);
acre_status cache_free(acre_cache *cache, void *pointer);

/* acquire.c: the ladder from a miss to a block, which is in no index. */
acre_status acquire_locked(acre_cache *cache, struct request *request, struct block **out);

/* reclaim.c: what gives memory back to the device. */
/* Waits for all queued work, which memory must before the device takes it back. */
acre_status reclaim_quiesce(const acre_cache *cache);
void reclaim_garbage_locked(acre_cache *cache);
bool reclaim_available_locked(acre_cache *cache, const struct request *request);
/* Waits for pending uses, then releases all idle segments. Goes on after an
 * error and gives the first one. */
acre_status reclaim_all_locked(acre_cache *cache);

/* report.c: gathers what the report says, under the lock, and counts the OOM;
 * then, with no lock held, tells observers and records the error. */
void request_gather_locked(acre_cache *cache, struct request *request);
acre_status request_failed(acre_cache *cache, const struct request *request,
                           acre_status status);
/* With ACRE_CHECK 2, walks the whole cache and aborts on a false fact. */
void cache_check_now(acre_cache *cache);
static inline void cache_check_locked(acre_cache *cache)
{
    if (ACRE_CHECK >= 2)
        cache_check_now(cache);
}

#endif
