/* SPDX-License-Identifier: MIT */
/* What gives memory back to the device: garbage collection, making room for one
 * request, releasing all that is idle. A block is released only when it is a
 * whole segment; of expandable segments, free pages go (grow.c).
 *
 * A free block may still be used by work queued on its own stream. That does not
 * matter as long as it is reused on that stream, but before it goes back to the
 * device all work has to be done: some drivers wait by themselves when memory is
 * freed, others do not, so the cache waits. */
#include "cache/reclaim.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "cache/acre/arena.h"
#include "cache/cache.h"
#include "cache/engine.h"
#include "cache/observe/record.h"
#include "cache/acre/stitch.h"
#include "cache/pools/capture.h"
#include "cache/pools/pools.h"
#include "cache/torch/grow.h"

acre_status reclaim_quiesce(const acre_cache *cache)
{
    const struct acre_device *device = cache->device;

    if (cache->capture_count)
        return status_fail(ACRE_ERR_STATE,
                           "memory cannot go back to the device during %u capture%s: waiting "
                           "for all work would break what is captured; end every capture first",
                           cache->capture_count, text_plural(cache->capture_count));
    if (!device_has(device, ACRE_CAP_STREAMS))
        return ACRE_OK;
    return device->ops->device_synchronize(device->self, device->index);
}

bool reclaim_may_release_locked(const acre_cache *cache, const struct segment *segment)
{
    const struct private_pool *owner = segment->pool->owner;

    if (LIKELY(!cache->capture_count))
        return true;
    if (owner && owner->is_baked)
        return false;
    for (const struct block *block = segment->first; block; block = block->next)
        if (!block_is_common(block) && capture_runs_on_locked(cache, block->stream))
            return false;
    return true;
}

acre_status reclaim_settle_locked(acre_cache *cache, const struct segment *segment, bool *is_quiet)
{
    struct acre_device *device = cache->device;
    acre_status status = ACRE_OK;

    if (LIKELY(!cache->capture_count)) {
        if (!*is_quiet)
            status = reclaim_quiesce(cache);
        *is_quiet |= status == ACRE_OK;
        return status;
    }
    if (!device_has(device, ACRE_CAP_STREAMS))
        return ACRE_OK;
    for (struct block *block = segment->first; block && status == ACRE_OK; block = block->next)
        if (!block_is_common(block))
            status = device->ops->stream_synchronize(device->self, device->index, block->stream);
    return status;
}

/* Gives a segment back to the device; one from elsewhere is only put aside, since
 * its source is called without the lock (reclaim_return_locked). */
static acre_status give_back(acre_cache *cache, struct segment *segment)
{
    struct acre_device *device = cache->device;
    struct private_pool *owner = segment->pool->owner;

    if (!owner || !private_pool_has_source(owner))
        return device->ops->free(device->self, device->index, segment->base);
    owner->busy_count++;
    return ACRE_OK;
}

/* Returns a segment whose blocks are all FREE to the device, after waiting for what
 * is queued. When the device refuses, everything stays as it is. */
static acre_status release_segment(acre_cache *cache, struct segment *segment, bool *is_quiet)
{
    bool is_small = segment->pool->is_small;
    acre_status status = reclaim_settle_locked(cache, segment, is_quiet);

    if (status != ACRE_OK)
        return status;
    status = give_back(cache, segment);
    if (status != ACRE_OK)
        return status;
    for (struct block *block = segment->first, *next; block; block = next) {
        next = block->next;
        CHECK(block->state == BLOCK_FREE);
        cache->policy->remove(block->pool, block);
        block_destroy(&cache->blocks, block);
    }
    record_segment_locked(cache, ACRE_ACTION_SEGMENT_FREE, segment->base, segment->bytes, segment);
    cache->held_bytes -= segment->bytes;
    cache->stats.num_device_free++;
    stats_down(&cache->stats.segment, is_small, 1);
    pool_lose(segment->pool, &cache->stats, segment->bytes);
    segment->pool->segment_count--;
    if (segment->is_oversize)
        stat_down(&cache->stats.oversize_segments, 1);
    list_remove(&segment->link);
    if (segment->pool->owner && private_pool_has_source(segment->pool->owner))
        list_push_back(&cache->returned, &segment->link);
    else
        heap_free(segment);
    return ACRE_OK;
}

/* Gives segments that were put aside to their sources, with the lock dropped. */
static void return_aside_locked(acre_cache *cache)
{
    while (!list_empty(&cache->returned)) {
        struct segment *segment = CONTAINER_OF(cache->returned.next, struct segment, link);
        struct private_pool *owner = segment->pool->owner;
        list_remove(&segment->link);
        quick_lock_drop(&cache->lock);
        pool_source_free(&owner->source, cache->device, segment->base, segment->bytes,
                         segment->stream);
        quick_lock_take(&cache->lock);
        owner->busy_count--;
        heap_free(segment);
    }
}

/* Whether a block is a segment that can be released. */
static bool is_whole(const struct block *block)
{
    return !block_is_split(block) && segment_is_plain(block->segment);
}

/* Whether it is, and may be now. */
static bool may_go(const acre_cache *cache, const struct block *block)
{
    return is_whole(block) && reclaim_may_release_locked(cache, block->segment);
}

/* Returns the segment of a FREE block that is all of it; as release_segment. */
static acre_status reclaim_release(acre_cache *cache, struct block *block, bool *is_quiet)
{
    CHECK(is_whole(block));
    return release_segment(cache, block->segment, is_quiet);
}

/* One round over a pool: releases whole blocks of at least that age. */
static uint64_t garbage_round(acre_cache *cache, struct pool *pool, bool *is_quiet, double age_min,
                              double *age_sum, uint64_t *count)
{
    uint64_t freed = 0;

    for (struct block *block = cache->policy->first(pool), *next; block; block = next) {
        next = cache->policy->next(pool, block);
        uint64_t age = pool_age(pool, block), bytes = block->bytes;
        if (!may_go(cache, block) || (double)age < age_min)
            continue;
        if (reclaim_release(cache, block, is_quiet) != ACRE_OK)
            continue;
        freed += bytes;
        *age_sum -= (double)age;
        --*count;
    }
    return freed;
}

void reclaim_garbage_locked(acre_cache *cache)
{
    struct pool *pool = &cache->large;
    uint64_t threshold = (uint64_t)(cache->conf.gc_threshold * (double)cache->limit_bytes);
    uint64_t freed = 0, count = 0, round;
    double age_sum = 0;
    bool is_quiet = false;

    if (cache->limit_bytes == ACRE_CACHE_NO_LIMIT || cache->conf.gc_threshold <= 0 ||
        cache->held_bytes <= threshold || capture_search_locked(cache) != ACRE_OK)
        return;
    uint64_t target = cache->held_bytes - threshold;
    for (struct block *block = cache->policy->first(pool); block;
         block = cache->policy->next(pool, block)) {
        if (!is_whole(block))
            continue;
        age_sum += (double)pool_age(pool, block);
        count++;
    }
    do {
        if (!count)
            return;
        round = garbage_round(cache, pool, &is_quiet, age_sum / (double)count, &age_sum, &count);
        freed += round;
    } while (round && freed < target);
}

/* Releases one block large enough for a request, or several, the largest first; whether that
 * is enough. */
static bool release_for(acre_cache *cache, const struct request *request)
{
    uint64_t max_split = cache->conf.max_split_bytes, freed = 0;
    struct pool *pool = request->pool;
    bool is_quiet = false;
    size_t key = request->rounded > max_split ? request->rounded : (size_t)max_split;
    struct block *block = pool_find(pool, request->stream, key);

    if (block && may_go(cache, block))
        return reclaim_release(cache, block, &is_quiet) == ACRE_OK;
    if (!block)
        block = pool_find_last(pool, request->stream);
    while (block && block->bytes >= max_split && freed < key) {
        struct block *smaller = pool_prev(pool, block);
        size_t bytes = block->bytes;
        if (may_go(cache, block) && reclaim_release(cache, block, &is_quiet) == ACRE_OK)
            freed += bytes;
        block = smaller;
    }
    return freed >= key;
}

bool reclaim_available_locked(acre_cache *cache, const struct request *request)
{
    const struct private_pool *owner = request->pool->owner;

    if (cache->conf.max_split_bytes == UINT64_MAX || !cache->facts.splits_to_limit)
        return false;
    if (capture_search_locked(cache) != ACRE_OK ||
        (owner && (cache->capture_count || owner->is_baked)))
        return false; /* a graph may know its addresses */
    bool is_enough = release_for(cache, request);
    return_aside_locked(cache);
    return is_enough;
}

/* Releases segments that are free in several blocks, which only happens when
 * the blocks belong to different streams. */
static void release_mixed(acre_cache *cache, const struct pool *pool, bool *is_quiet,
                          acre_status *first)
{
    LIST_FOR_EACH_SAFE(link, after, &cache->segments) {
        struct segment *segment = CONTAINER_OF(link, struct segment, link);
        const struct block *block = segment->first;
        if (segment->pool != pool || !segment_is_plain(segment))
            continue;
        while (block && block->state == BLOCK_FREE)
            block = block->next;
        if (block || !block_is_split(segment->first) || !reclaim_may_release_locked(cache, segment))
            continue;
        acre_status status = release_segment(cache, segment, is_quiet);
        if (*first == ACRE_OK)
            *first = status;
    }
}

/* Releases segments that are free as a whole; stitched memory has none. */
static void release_plain(acre_cache *cache, struct pool *pool, bool *is_quiet, acre_status *first)
{
    for (struct block *block = cache->policy->first(pool), *next; block; block = next) {
        next = cache->policy->next(pool, block);
        if (!may_go(cache, block))
            continue;
        acre_status status = reclaim_release(cache, block, is_quiet);
        if (*first == ACRE_OK)
            *first = status;
    }
    release_mixed(cache, pool, is_quiet, first);
}

static void release_pool(acre_cache *cache, struct pool *pool, bool *is_quiet, acre_status *first)
{
    acre_status status = ACRE_OK;

    if (!pool->stitch) {
        release_plain(cache, pool, is_quiet, first);
        status = grow_shrink_locked(cache, pool, is_quiet);
    } else if (!pool->is_small && pool->stitch != cache->kept_pages) {
        status = stitch_shrink_locked(cache, pool->stitch, is_quiet);
    }
    if (*first == ACRE_OK)
        *first = status;
}

/* Releases what a pool has idle. */
static void release_private(acre_cache *cache, struct private_pool *pool, bool *is_quiet,
                            acre_status *first)
{
    if (pool->sleep)
        return; /* its blocks have no memory, and keep their places */
    release_pool(cache, &pool->small, is_quiet, first);
    release_pool(cache, &pool->large, is_quiet, first);
}

/* Waits for pending uses, of blocks of one pool or all (NULL). */
static acre_status wait_locked(acre_cache *cache, const struct private_pool *pool)
{
    acre_status first = ACRE_OK;

    if (cache->deferred.capture_waiting_count)
        first = capture_flush_locked(cache, pool);
    acre_status status = deferred_synchronize(&cache->deferred, pool, engine_done_locked, cache);
    return first == ACRE_OK ? status : first;
}

acre_status reclaim_all_locked(acre_cache *cache)
{
    bool is_quiet = false;

    capture_sweep_locked(cache);
    acre_status status = capture_search_locked(cache);
    if (status != ACRE_OK || capture_is_own_locked(cache))
        return status; /* nothing is waited for in a capture */
    late_settle_locked(cache);
    cache->stats.num_sync_all_streams++;
    status = wait_locked(cache, NULL);

    release_pool(cache, &cache->large, &is_quiet, &status);
    release_pool(cache, &cache->small, &is_quiet, &status);
    LIST_FOR_EACH(link, &cache->private_pools) {
        struct private_pool *pool = CONTAINER_OF(link, struct private_pool, link);
        if (!pool->use_count || (pool->gives_back && !pool->is_baked))
            release_private(cache, pool, &is_quiet, &status);
    }
    return_aside_locked(cache);
    pools_end_locked(cache, (acre_pool_id){0});
    return status;
}

acre_status reclaim_private_locked(acre_cache *cache, struct private_pool *pool)
{
    acre_pool_id id = pool->id;
    bool is_quiet = false;

    capture_sweep_locked(cache);
    acre_status status = capture_search_locked(cache);
    if (status != ACRE_OK)
        return status;
    cache->stats.num_sync_all_streams++;
    status = wait_locked(cache, pool);
    release_private(cache, pool, &is_quiet, &status);
    return_aside_locked(cache);
    pools_end_locked(cache, id);
    return status;
}
