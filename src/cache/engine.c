/* SPDX-License-Identifier: MIT */
/* The engine: moves blocks between pools, users and queues and accounts for it,
 * whatever the policy. Live statistics are the caller's (stats.h). */
#include "cache/engine.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/acre/range.h"
#include "cache/observe/record.h"
#include "cache/pools/capture.h"
#include "cache/pools/pools.h"
#include "cache/size.h"

/* Accounts for a block that leaves the pool: whole, or with a tail that stays. */
static inline void count_taken(acre_cache *cache, bool is_small, bool was_split,
                               const struct block *block, const struct block *tail)
{
    struct stats_tally *tally = &cache->tally;

    if (cache->facts.counts_late || block->is_expandable)
        return;
    if (tail && !was_split)
        tally_split(tally, is_small, 1, (int64_t)tail->bytes);
    else if (tail)
        tally_split(tally, is_small, 0, -(int64_t)block->bytes);
    else if (was_split)
        tally_split(tally, is_small, -1, -(int64_t)block->bytes);
}

/* Makes a FREE block that is in no index LIVE, cut to bytes when is_split. A
 * spare block object must be there. */
static struct block *engine_commit(acre_cache *cache, struct block *block, size_t bytes,
                                   size_t requested, bool is_split)
{
    bool was_split = block_is_split(block), is_small = block->pool->is_small;
    struct block *tail = NULL;

    if (is_split) {
        tail = block;
        block = block_split(&cache->blocks, tail, bytes);
        tail->state = BLOCK_FREE;
        cache->policy->insert(tail->pool, tail);
    }
    count_taken(cache, is_small, was_split, block, tail);
    block->state = BLOCK_LIVE;
    block->requested = requested;
    if (UNLIKELY(block->bytes >= cache->conf.max_split_bytes && !cache->facts.counts_late)) {
        block->is_oversize = true;
        stat_up(&cache->stats.oversize_allocations, 1);
    }
    map_set(&cache->map, block->base, block);
    return block;
}

/* Makes a FREE block that is in no index LIVE, cut if the policy allows. */
static inline struct block *commit_request(acre_cache *cache, struct block *block,
                                           const struct request *request)
{
    bool is_split =
        block->bytes > request->rounded && cache->policy->may_split(cache, block, request->rounded);

    return engine_commit(cache, block, request->rounded, request->bytes, is_split);
}

struct block *engine_commit_locked(acre_cache *cache, struct block *block,
                                   const struct request *request)
{
    return commit_request(cache, block, request);
}

/* Which pool serves, now that the size is known. */
static inline acre_status engine_route(acre_cache *cache, struct request *request)
{
    request->rounded = cache->policy->round(cache, request->bytes);
    if (UNLIKELY(!list_empty(&cache->scopes)))
        return pools_route_locked(cache, request);
    request->pool = cache->policy->is_small(request->rounded) ? &cache->small : &cache->large;
    return ACRE_OK;
}

acre_status engine_alloc_locked(acre_cache *cache, struct attempt *attempt)
{
    const struct policy *policy = cache->policy;
    struct request *request = &attempt->request;
    struct block *block;
    acre_status status = engine_route(cache, request);

    if (LIKELY(status == ACRE_OK))
        status = engine_collect_locked(cache, request->stream);
    if (UNLIKELY(status != ACRE_OK))
        return attempt_other_failure(status);
    if (UNLIKELY(!block_store_reserve(&cache->blocks, 1)))
        return ACRE_ERR_HOST_MEMORY;
    attempt->is_rejected = false;
    block = request->rounded ? policy->find(cache, request) : NULL;
    if (UNLIKELY(!block)) {
        status = policy->acquire(cache, attempt, &block);
        if (status != ACRE_OK)
            return status;
        /* The lock may have been dropped and the spare object used. */
        if (!block_store_reserve(&cache->blocks, 1)) {
            policy->insert(block->pool, block);
            return ACRE_ERR_HOST_MEMORY;
        }
    }
    attempt->block = commit_request(cache, block, request);
    return ACRE_OK;
}

/* The FREE block of stream that covers [address, address + bytes), or NULL. */
static struct block *find_around(const acre_cache *cache, const struct pool *pool,
                                 const void *stream, const char *address, size_t bytes)
{
    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (segment->pool != pool || address < segment->base ||
            address >= segment->base + segment->bytes)
            continue;
        struct block *block = segment->first;
        while (address >= block->base + block->bytes)
            block = block->next;
        bool fits = size_fits((uint64_t)(address - block->base), bytes, block->bytes);
        return block->state == BLOCK_FREE && block->stream == stream && fits ? block : NULL;
    }
    return NULL;
}

acre_status engine_alloc_at_locked(acre_cache *cache, struct attempt *attempt, char *address,
                                   struct block **out_prefix)
{
    const struct policy *policy = cache->policy;
    struct request *request = &attempt->request;
    acre_status status = engine_route(cache, request);
    struct block *block, *prefix = NULL;

    if (status == ACRE_OK)
        status = engine_collect_locked(cache, request->stream);
    if (status != ACRE_OK)
        return status;
    if (!block_store_reserve(&cache->blocks, 2))
        return ACRE_ERR_HOST_MEMORY;
    block = request->rounded
                ? find_around(cache, request->pool, request->stream, address, request->rounded)
                : NULL;
    if (!block)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "Could not allocate CUDA storage at exact address %p: no free block "
                           "of this stream covers the %zu bytes there; allocate where the "
                           "cache holds free memory",
                           (void *)address, request->rounded);
    policy->remove(block->pool, block);
    if (address > block->base) {
        size_t bytes = (size_t)(address - block->base);
        prefix = engine_commit(cache, block, bytes, bytes, true);
        policy->remove(block->pool, block);
    }
    attempt->block = commit_request(cache, block, request);
    *out_prefix = prefix;
    return ACRE_OK;
}

struct block *engine_cut_locked(acre_cache *cache, struct block *block, size_t bytes)
{
    cache->policy->remove(block->pool, block);
    return engine_commit(cache, block, bytes, bytes, bytes < block->bytes);
}

void engine_put_locked(acre_cache *cache, struct block *block)
{
    if (block->is_stitched) {
        range_dissolve(&cache->blocks, block);
        return;
    }
    const struct policy *policy = cache->policy;
    struct pool *pool = block->pool;
    struct block *neighbour;
    int64_t count = 0, bytes = 0;

    CHECK(block->state == BLOCK_LIVE || block->state == BLOCK_WAITING);
    CHECK(!block->uses && !block->event_count);
    map_clear(&cache->map, block->base);
    neighbour = block->prev;
    if (neighbour && neighbour->state == BLOCK_FREE && neighbour->stream == block->stream) {
        policy->remove(pool, neighbour);
        count--;
        bytes -= (int64_t)neighbour->bytes;
        block_merge(&cache->blocks, block, neighbour);
    }
    neighbour = block->next;
    if (neighbour && neighbour->state == BLOCK_FREE && neighbour->stream == block->stream) {
        policy->remove(pool, neighbour);
        count--;
        bytes -= (int64_t)neighbour->bytes;
        block_merge(&cache->blocks, block, neighbour);
    }
    block->state = BLOCK_FREE;
    policy->insert(pool, block);
    if (block_is_split(block)) {
        count++;
        bytes += (int64_t)block->bytes;
    }
    if (cache->facts.counts_late || block->is_expandable)
        return;
    tally_split(&cache->tally, pool->is_small, count, bytes);
}

void engine_done_locked(void *arg, struct block *block)
{
    acre_cache *cache = arg;

    record_done_locked(cache, block);
    cache->policy->retire(cache, block);
    engine_put_locked(cache, block);
}

acre_status engine_collect_slow_locked(acre_cache *cache, void *stream)
{
    if (UNLIKELY(capture_may_run_locked(cache) || cache->deferred.capture_waiting_count))
        return capture_collect_locked(cache, stream);
    deferred_collect_slow(&cache->deferred, engine_done_locked, cache);
    return ACRE_OK;
}

acre_status engine_free_locked(acre_cache *cache, struct block *block, bool *out_waits)
{
    CHECK(block->state == BLOCK_LIVE);
    if (UNLIKELY(block->uses)) {
        acre_status status = UNLIKELY(capture_may_run_locked(cache))
                                 ? capture_free_locked(cache, block)
                                 : deferred_add(&cache->deferred, block, false);
        if (status != ACRE_OK)
            return status;
        *out_waits = block->state != BLOCK_LIVE;
    }
    record_free_locked(cache, block);
    if (UNLIKELY(block->is_oversize)) {
        block->is_oversize = false;
        stat_down(&cache->stats.oversize_allocations, 1);
    }
    if (LIKELY(block->state == BLOCK_LIVE))
        engine_done_locked(cache, block);
    return ACRE_OK;
}
