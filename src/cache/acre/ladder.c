/* SPDX-License-Identifier: MIT */
#include "cache/acre/ladder.h"

#include "base/check.h"
#include "base/status.h"
#include "cache/acquire.h"
#include "cache/acre/reuse.h"
#include "cache/acre/stitch.h"
#include "cache/engine.h"
#include "cache/pools/pools.h"
#include "cache/reclaim.h"
#include "cache/threads/front.h"

/* A private pool of plain segments: each stream keeps what it frees. */
static bool is_plain_private(const struct pool *pool)
{
    return pool->owner && !pool->stitch;
}

/* Take: free memory of the pool. A FREE block to cut goes to *part. */
static struct block *ladder_take(acre_cache *cache, struct arena *arena,
                                 const struct request *request, struct block **part)
{
    if (UNLIKELY(is_plain_private(arena->pool))) {
        *part = cache->policy->find(cache, request);
        return NULL;
    }
    struct block *block = reuse_take_locked(cache, arena, request->rounded);

    if (!block)
        cache_count_find(cache, arena->pool);
    return block;
}

/* Relieve: callbacks of users may free something, which goes to the lanes of their threads.
 * Then threads give back what they keep, unless that is too little to ask for. Whether memory
 * became free. */
static bool ladder_relieve(acre_cache *cache, const struct attempt *attempt)
{
    bool has_freed = acquire_ask_reclaimers_locked(cache);

    if (has_freed || !attempt->has_slack)
        has_freed |= front_relieve_locked(cache);
    return has_freed;
}

/* Stitch free pages, or ask the device for memory. */
static acre_status ladder_obtain(acre_cache *cache, struct attempt *attempt, struct block **part)
{
    if (attempt->request.pool->stitch)
        return stitch_obtain(cache, attempt, part);
    return acquire_segment_locked(cache, attempt, part);
}

/* A FREE block of the stream in the pool of the other size class, in no index. */
static struct block *ladder_borrow(const acre_cache *cache, const struct request *request)
{
    const struct private_pool *owner = request->pool->owner;
    const struct pool *small = owner ? &owner->small : &cache->small;
    const struct pool *large = owner ? &owner->large : &cache->large;
    struct arena *arena = arena_find(request->pool->is_small ? large : small, request->stream);

    return arena ? bins_take(&arena->bins, request->rounded) : NULL;
}

/* Once everything idle was given back: all streams are waited for, so that free memory of
 * each may be used. A FREE block in no index, or NULL. */
static struct block *ladder_retry(acre_cache *cache, struct arena *arena, size_t bytes)
{
    struct block *block;

    if (!block_store_reserve(&cache->blocks, 2) ||
        (!cache->capture_count && reclaim_quiesce(cache) != ACRE_OK))
        return NULL;
    front_relieve_locked(cache);
    block = reuse_take_locked(cache, arena, bytes);
    if (!block)
        block = stitch_reuse(cache, arena, bytes);
    if (block)
        block->state = BLOCK_FREE;
    return block;
}

/* Reclaim: memory of private pools that lend it and of the other size class; then
 * everything idle is given back, and the device is asked once more. */
static acre_status ladder_reclaim(acre_cache *cache, struct arena *arena, struct attempt *attempt,
                                  bool is_capturing, struct block **part)
{
    struct request *request = &attempt->request;

    *part = pools_lend_locked(cache, request);
    if (!*part)
        *part = ladder_borrow(cache, request);
    if (*part)
        return ACRE_OK;
    if (is_capturing) /* nothing goes back to the device in a capture */
        return ACRE_ERR_DEVICE_MEMORY;
    cache->kept_pages = request->pool->stitch; /* they are what is asked for */
    acre_status status = reclaim_all_locked(cache);
    cache->kept_pages = NULL;
    if (status != ACRE_OK)
        return status;
    cache->stats.num_alloc_retries++;
    if (request->pool->stitch)
        *part = ladder_retry(cache, arena, request->rounded);
    return *part ? ACRE_OK : ladder_obtain(cache, attempt, part);
}

/* Cuts the block off a FREE one that is in no index. */
static acre_status ladder_cut(acre_cache *cache, struct arena *arena, struct attempt *attempt,
                              struct block *part)
{
    /* The lock may have been dropped and the spare object used. */
    if (!block_store_reserve(&cache->blocks, 1)) {
        cache->policy->insert(part->pool, part);
        return ACRE_ERR_HOST_MEMORY;
    }
    attempt->block = engine_commit_locked(cache, part, &attempt->request);
    if (!attempt->block->arena)
        attempt->block->arena = arena; /* of a new segment */
    return ACRE_OK;
}

acre_status ladder_climb_locked(acre_cache *cache, struct arena *arena, struct attempt *attempt)
{
    struct request *request = &attempt->request;
    struct status_saved before;
    struct block *part = NULL; /* FREE, in no index: the block will be cut off it */
    bool is_capturing;
    acre_status status = engine_collect_locked(cache, request->stream);

    if (UNLIKELY(status != ACRE_OK))
        return attempt_other_failure(status);
    if (UNLIKELY(!arena || !block_store_reserve(&cache->blocks, 1)))
        return ACRE_ERR_HOST_MEMORY;
    attempt->is_rejected = false;
    request->pool = arena->pool;

    /* Take what is free, of any stream and any thread. */
    attempt->block = ladder_take(cache, arena, request, &part);
    /* Take a range of stitched pages that is idle. */
    if (!attempt->block && arena->pool->stitch)
        attempt->block = stitch_reuse(cache, arena, request->rounded);
    if (attempt->block)
        return ACRE_OK;
    if (part)
        return ladder_cut(cache, arena, attempt, part);

    attempt->has_slack = reuse_has_slack(cache, arena->pool);
    status = acquire_begin_locked(cache, attempt, &is_capturing, &before);
    if (status != ACRE_OK)
        return status;

    /* Relieve threads and users of what they do not need. */
    if (ladder_relieve(cache, attempt))
        part = cache->policy->find(cache, request);
    /* Stitch pages, or ask the device. */
    if (!part) {
        if (!is_capturing)
            reclaim_garbage_locked(cache);
        status = ladder_obtain(cache, attempt, &part);
    }
    /* Relieve threads of the little that was left to them. */
    if (attempt_lacks_memory(status) && attempt->has_slack && front_relieve_locked(cache)) {
        part = cache->policy->find(cache, request);
        status = part ? ACRE_OK : status;
    }
    /* Reclaim what others hold and do not use. */
    if (attempt_lacks_memory(status) && attempt->segment_bytes)
        status = ladder_reclaim(cache, arena, attempt, is_capturing, &part);
    /* Report what was found, or that nothing was. */
    status = acquire_end_locked(cache, attempt, status, &before);
    return status == ACRE_OK ? ladder_cut(cache, arena, attempt, part) : status;
}

acre_status ladder_acquire_locked(acre_cache *cache, struct attempt *attempt, struct block **out)
{
    struct request *request = &attempt->request;
    struct arena *arena = arena_get(request->pool, request->stream, NULL);
    acre_status status = ladder_climb_locked(cache, arena, attempt);

    if (status != ACRE_OK)
        return status;
    if (!block_store_reserve(&cache->blocks, 1)) { /* as the engine will need */
        arena_put(&cache->blocks, attempt->block);
        return ACRE_ERR_HOST_MEMORY;
    }
    *out = attempt->block;
    (*out)->state = BLOCK_FREE; /* the engine makes it LIVE */
    return ACRE_OK;
}
