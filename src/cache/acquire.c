/* SPDX-License-Identifier: MIT */
/* From a miss to a block under policy torch, in the order PyTorch's allocator tries;
 * policy acre has its own ladder (acre/ladder.c), made of parts of this one:
 *
 *   1. callbacks that may free something, then the pool again
 *   2. garbage collection, when there is a limit and a threshold
 *   3. the device
 *   4. a private pool that helps; one or a few oversize blocks released, then the
 *      device
 *   5. everything idle released, after waiting for pending uses, then the device
 *
 * In a capture nothing is given back to the device, so that 4 is about a private
 * pool that helps only, and there is no 5.
 *
 * A refusal ahead (throw_on_cudamalloc_oom) at 3 ends it; so does any failure of
 * the device that is not about memory. */
#include "cache/acquire.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/observe/record.h"
#include "cache/observe/report.h"
#include "cache/pools/capture.h"
#include "cache/pools/pools.h"
#include "cache/reclaim.h"
#include "cache/size.h"
#include "cache/torch/grow.h"

acre_status acquire_allows_locked(acre_cache *cache, struct attempt *attempt)
{
    size_t bytes = attempt->segment_bytes;

    attempt->is_rejected = false; /* as an earlier attempt may have been */
    if (!bytes || !size_fits(cache->held_bytes, bytes, cache->limit_bytes))
        return ACRE_ERR_LIMIT;
    if (cache->conf.is_rejecting) {
        double share = cache->conf.memory_fraction * (double)cache->device->info.total_bytes;
        if (!size_fits(cache->held_bytes, bytes, (uint64_t)share)) {
            attempt->is_rejected = true;
            return ACRE_ERR_REJECTED;
        }
    }
    return ACRE_OK;
}

/* Asks the device, with the lock dropped if so configured, or where the pool has
 * its memory from. The bytes are already charged, so the limit holds meanwhile. */
static acre_status ask_device(acre_cache *cache, const struct attempt *attempt, void **out)
{
    const struct request *request = &attempt->request;
    struct acre_device *device = cache->device;
    const struct private_pool *owner = request->pool->owner;
    bool has_source = owner && private_pool_has_source(owner);
    bool drops_lock = cache->conf.drops_lock || has_source;
    acre_status status;

    if (drops_lock)
        quick_lock_drop(&cache->lock);
    if (has_source)
        status =
            pool_source_alloc(&owner->source, device, attempt->segment_bytes, request->stream, out);
    else
        status = device->ops->alloc(device->self, device->index, attempt->segment_bytes, out);
    if (drops_lock)
        quick_lock_take(&cache->lock);
    return status;
}

/* Takes that back, with the block that was made for it. */
static void unask_device(acre_cache *cache, const struct attempt *attempt, struct block *block,
                         void *base)
{
    const struct request *request = &attempt->request;
    const struct private_pool *owner = request->pool->owner;

    if (!owner || !private_pool_has_source(owner)) {
        late_return_locked(cache, block, base, attempt->segment_bytes);
        return;
    }
    quick_lock_drop(&cache->lock);
    pool_source_free(&owner->source, cache->device, base, attempt->segment_bytes, request->stream);
    quick_lock_take(&cache->lock);
    block_destroy(&cache->blocks, block);
}

static void count_obtained(acre_cache *cache, struct segment *segment)
{
    bool is_small = segment->pool->is_small;

    segment->pool->segment_count++;
    stats_up(&cache->stats.segment, is_small, 1);
    pool_gain(segment->pool, &cache->stats, segment->bytes);
    cache->stats.num_device_alloc++;
    if (segment->bytes >= cache->conf.max_split_bytes) {
        segment->is_oversize = true;
        stat_up(&cache->stats.oversize_segments, 1);
    }
    segment->stack = record_stack_locked(cache);
    record_segment_locked(cache, ACRE_ACTION_SEGMENT_ALLOC, segment->base, segment->bytes, segment);
}

acre_status acquire_segment_locked(acre_cache *cache, struct attempt *attempt, struct block **out)
{
    const struct request *request = &attempt->request;
    struct segment *segment;
    struct block *block;
    void *base;
    acre_status status = acquire_allows_locked(cache, attempt);

    if (status == ACRE_OK && cache->policy->prepare)
        status = cache->policy->prepare(cache, request);
    if (status != ACRE_OK)
        return status;
    if (cache_expands(cache, request->pool))
        return grow_locked(cache, request, out);
    status = ACRE_ERR_HOST_MEMORY;
    if (!block_store_reserve(&cache->blocks, 2))
        return status;
    segment = heap_alloc(sizeof *segment);
    if (!segment)
        return status;
    block = block_create(&cache->blocks);
    cache->held_bytes += attempt->segment_bytes;
    status = ask_device(cache, attempt, &base);
    if (status != ACRE_OK)
        goto free_block;
    status = map_reserve(&cache->map, base, attempt->segment_bytes);
    if (status != ACRE_OK) {
        unask_device(cache, attempt, block, base);
        goto free_segment;
    }
    segment_init(segment, block, request->pool, request->stream, base, attempt->segment_bytes);
    segment->order = cache_take_order(cache);
    block->state = BLOCK_FREE;
    list_push_back(&cache->segments, &segment->link);
    count_obtained(cache, segment);
    *out = block;
    return ACRE_OK;

free_block:
    block_destroy(&cache->blocks, block);
free_segment:
    cache->held_bytes -= attempt->segment_bytes;
    heap_free(segment);
    return status;
}

bool acquire_ask_reclaimers_locked(acre_cache *cache)
{
    struct observers *list = observers_hold(cache->reclaimers);
    bool has_freed = false;

    if (!list)
        return false;
    quick_lock_drop(&cache->lock);
    for (size_t i = 0; i < list->count; i++)
        has_freed |= ((acre_cache_reclaim_fn)list->items[i].fn)(list->items[i].arg);
    observers_drop(list);
    quick_lock_take(&cache->lock);
    return has_freed;
}

acre_status acquire_begin_locked(acre_cache *cache, struct attempt *attempt, bool *out_is_capturing,
                                 struct status_saved *out_before)
{
    const struct request *request = &attempt->request;
    uint64_t granularity = cache->device->info.alloc_granularity;

    capture_sweep_locked(cache); /* what is over is no reason to give nothing back */
    acre_status status = capture_context_locked(cache, request->stream, out_is_capturing);

    if (status != ACRE_OK) /* not of the request: nothing is to be reported about it */
        return attempt_lacks_memory(status) ? ACRE_ERR_DEVICE : status;
    /* Callbacks, the device and sources are asked with the lock dropped: the pool must not end,
     * or fall asleep, meanwhile. */
    if (request->pool->owner)
        request->pool->owner->busy_count++;
    status_save(out_before);
    cache->bytes_unaddressed = 0;
    attempt->segment_bytes = request->rounded ? cache->policy->segment_bytes(cache, request) : 0;
    attempt->segment_bytes = round_up(attempt->segment_bytes, granularity);
    return ACRE_OK;
}

acre_status acquire_end_locked(acre_cache *cache, struct attempt *attempt, acre_status status,
                               const struct status_saved *before)
{
    bool lacks_memory = attempt_lacks_memory(status);
    struct private_pool *owner = attempt->request.pool->owner;

    if (owner)
        owner->busy_count--;
    if (status == ACRE_OK) {
        status_restore(before); /* what failed on the way is not the user's business */
        return status;
    }
    if (!lacks_memory && !attempt->is_rejected)
        return status;
    attempt_gather_locked(cache, attempt);
    return attempt->is_rejected ? ACRE_ERR_REJECTED : ACRE_ERR_DEVICE_MEMORY;
}

/* Steps 4 and 5, after the device had nothing. */
static acre_status release_and_obtain(acre_cache *cache, struct attempt *attempt, bool is_capturing,
                                      struct block **out)
{
    acre_status status = ACRE_ERR_DEVICE_MEMORY;

    *out = pools_lend_locked(cache, &attempt->request);
    if (*out)
        return ACRE_OK;
    if (is_capturing)
        return status;
    if (reclaim_available_locked(cache, &attempt->request)) {
        status = acquire_segment_locked(cache, attempt, out);
        if (!attempt_lacks_memory(status) && status != ACRE_ERR_REJECTED)
            return status;
    }
    status = reclaim_all_locked(cache);
    if (status != ACRE_OK)
        return status;
    cache->stats.num_alloc_retries++;
    return acquire_segment_locked(cache, attempt, out);
}

acre_status acquire_locked(acre_cache *cache, struct attempt *attempt, struct block **out)
{
    const struct request *request = &attempt->request;
    struct status_saved before;
    bool is_capturing;
    acre_status status = acquire_begin_locked(cache, attempt, &is_capturing, &before);

    if (status != ACRE_OK)
        return status;
    *out = NULL;
    if (acquire_ask_reclaimers_locked(cache) && request->rounded)
        *out = cache->policy->find(cache, request);
    if (!*out) {
        if (!is_capturing)
            reclaim_garbage_locked(cache);
        status = acquire_segment_locked(cache, attempt, out);
    }
    if (attempt_lacks_memory(status) && attempt->segment_bytes)
        status = release_and_obtain(cache, attempt, is_capturing, out);
    return acquire_end_locked(cache, attempt, status, &before);
}
