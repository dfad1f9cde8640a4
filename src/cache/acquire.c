/* SPDX-License-Identifier: MIT */
/* From a miss to a block, in the order PyTorch's allocator tries:
 *
 *   1. callbacks that may free something, then the pool again; policies that
 *      keep free blocks outside the pool give them back and look once more
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
#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/observe/record.h"
#include "cache/size.h"
#include "cache/acre/stitch.h"

static bool is_about_memory(acre_status status)
{
    return status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_LIMIT;
}

acre_status acquire_allows_locked(acre_cache *cache, struct request *request)
{
    size_t bytes = request->segment_bytes;

    request->is_rejected = false; /* as an earlier attempt may have been */
    if (!bytes || !size_fits(cache->held_bytes, bytes, cache->limit_bytes))
        return ACRE_ERR_LIMIT;
    if (cache->conf.is_rejecting) {
        double share = cache->conf.memory_fraction * (double)cache->device->info.total_bytes;
        if (!size_fits(cache->held_bytes, bytes, (uint64_t)share)) {
            request->is_rejected = true;
            return ACRE_ERR_REJECTED;
        }
    }
    return ACRE_OK;
}

/* Asks the device, with the lock dropped if so configured, or where the pool has
 * its memory from. The bytes are already charged, so the limit holds meanwhile. */
static acre_status ask_device(acre_cache *cache, const struct request *request, void **out)
{
    struct acre_device *device = cache->device;
    struct private_pool *owner = request->pool->owner;
    bool has_source = owner && private_pool_has_source(owner);
    bool drops_lock = cache->conf.drops_lock || has_source;
    acre_status status;

    if (owner)
        owner->busy_count++;
    if (drops_lock)
        quick_lock_drop(&cache->lock);
    if (has_source)
        status =
            pool_source_alloc(&owner->source, device, request->segment_bytes, request->stream, out);
    else
        status = device->ops->alloc(device->self, device->index, request->segment_bytes, out);
    if (drops_lock)
        quick_lock_take(&cache->lock);
    if (owner)
        owner->busy_count--;
    return status;
}

/* Takes that back. */
static void unask_device(acre_cache *cache, const struct request *request, void *base)
{
    struct acre_device *device = cache->device;
    struct private_pool *owner = request->pool->owner;

    if (!owner || !private_pool_has_source(owner)) {
        device->ops->free(device->self, device->index, base);
        return;
    }
    owner->busy_count++;
    quick_lock_drop(&cache->lock);
    pool_source_free(&owner->source, device, base, request->segment_bytes, request->stream);
    quick_lock_take(&cache->lock);
    owner->busy_count--;
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
    record_segment_locked(cache, ACRE_ACTION_SEGMENT_ALLOC, segment->base, segment->bytes,
                          segment->stream, segment->pool, segment->stack);
}

/* Obtains a segment of request->segment_bytes, or room in an expandable one; the
 * block is in no index. */
static acre_status obtain_segment(acre_cache *cache, struct request *request, struct block **out)
{
    struct segment *segment;
    struct block *block;
    void *base;
    acre_status status = acquire_allows_locked(cache, request);

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
    cache->held_bytes += request->segment_bytes;
    status = ask_device(cache, request, &base);
    if (status != ACRE_OK)
        goto free_segment;
    status = map_reserve(&cache->map, base, request->segment_bytes);
    if (status != ACRE_OK || !block_store_reserve(&cache->blocks, 2)) {
        status = status == ACRE_OK ? ACRE_ERR_HOST_MEMORY : status;
        goto free_base;
    }
    block = block_create(&cache->blocks);
    segment_init(segment, block, request->pool, request->stream, base, request->segment_bytes,
                 cache_take_order(cache));
    block->state = BLOCK_FREE;
    list_push_back(&cache->segments, &segment->link);
    count_obtained(cache, segment);
    *out = block;
    return ACRE_OK;

free_base:
    unask_device(cache, request, base);
free_segment:
    cache->held_bytes -= request->segment_bytes;
    heap_free(segment);
    return status;
}

/* Obtains a block that is in no index, or one to cut it off. */
static acre_status acquire_obtain(acre_cache *cache, struct request *request, struct block **out)
{
    if (request->pool->stitch)
        return stitch_obtain(cache, request, out);
    return obtain_segment(cache, request, out);
}

/* Asks all callbacks for memory, with the lock dropped; whether one freed some. */
static bool ask_reclaimers_locked(acre_cache *cache)
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

/* Steps 4 and 5, after the device had nothing. */
static acre_status release_and_obtain(acre_cache *cache, struct request *request, bool is_capturing,
                                      struct block **out)
{
    acre_status status = ACRE_ERR_DEVICE_MEMORY;

    *out = pools_lend_locked(cache, request);
    if (!*out && cache->policy->borrow)
        *out = cache->policy->borrow(cache, request);
    if (*out)
        return ACRE_OK;
    if (is_capturing)
        return status;
    if (reclaim_available_locked(cache, request)) {
        status = acquire_obtain(cache, request, out);
        if (!is_about_memory(status) && status != ACRE_ERR_REJECTED)
            return status;
    }
    cache->keeps_pages = request->pool->stitch != NULL; /* they are what is asked for */
    status = reclaim_all_locked(cache);
    cache->keeps_pages = false;
    if (status != ACRE_OK)
        return status;
    cache->stats.num_alloc_retries++;
    if (request->pool->stitch && stitch_retry_locked(cache, request, out))
        return ACRE_OK;
    return acquire_obtain(cache, request, out);
}

/* Whether the policy gave back what it held outside the pools. */
static bool acquire_relieve(acre_cache *cache)
{
    return cache->policy->relieve && cache->policy->relieve(cache);
}

acre_status acquire_locked(acre_cache *cache, struct request *request, struct block **out)
{
    uint64_t granularity = cache->device->info.alloc_granularity;
    struct status_saved before;
    bool is_capturing;
    acre_status status = capture_context_locked(cache, request->stream, &is_capturing);

    if (status != ACRE_OK) /* not of the request: nothing is to be reported about it */
        return is_about_memory(status) ? ACRE_ERR_DEVICE : status;
    status_save(&before);
    request->segment_bytes = request->rounded ? cache->policy->segment_bytes(cache, request) : 0;
    request->segment_bytes = round_up(request->segment_bytes, granularity);
    bool may_help = ask_reclaimers_locked(cache);
    if (!request->has_slack)
        may_help |= acquire_relieve(cache);
    if (may_help && request->rounded) {
        *out = cache->policy->find(cache, request);
        if (*out)
            return ACRE_OK;
    }
    if (cache->limit_bytes != ACRE_CACHE_NO_LIMIT && cache->conf.gc_threshold > 0 && !is_capturing)
        reclaim_garbage_locked(cache);
    status = acquire_obtain(cache, request, out);
    if (is_about_memory(status) && request->has_slack && acquire_relieve(cache)) {
        *out = cache->policy->find(cache, request);
        status = *out ? ACRE_OK : status;
    }
    if (is_about_memory(status) && request->segment_bytes)
        status = release_and_obtain(cache, request, is_capturing, out);
    if (status == ACRE_OK)
        status_restore(&before); /* what failed on the way is not the user's business */
    else if (is_about_memory(status) || request->is_rejected)
        request_gather_locked(cache, request);
    if (is_about_memory(status) || request->is_rejected)
        status = request->is_rejected ? ACRE_ERR_REJECTED : ACRE_ERR_DEVICE_MEMORY;
    return status;
}
