/* SPDX-License-Identifier: MIT */
/* What is said when a request fails: the whole picture in one text, in the
 * order PyTorch's users know, then what would have helped. */
#include "backend/backend.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cache/observe/record.h"
#include "cache/observe/snapshot_parts.h"

#include <time.h>

/* A rejection is logged at most once in so long. */
#define REJECTION_LOG_NS ((uint64_t)60 * 1000000000)

/* A size in words, for one statement. */
#define IN_WORDS(bytes) text_bytes((char[TEXT_BYTES_MAX]){0}, bytes)

static uint64_t largest_free(const acre_cache *cache)
{
    const struct pool *const pools[] = {&cache->small, &cache->large};
    uint64_t largest = 0;

    for (int i = 0; i < 2; i++)
        for (struct block *block = cache->policy->first(pools[i]); block;
             block = cache->policy->next(pools[i], block))
            largest = block->bytes > largest ? block->bytes : largest;
    return largest;
}

/* Bytes of live blocks in sleeping pools, which have no memory of the device. */
static uint64_t asleep_bytes(const acre_cache *cache)
{
    uint64_t bytes = 0;

    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (!pool_is_asleep(segment->pool))
            continue;
        for (const struct block *block = segment->first; block; block = block->next)
            bytes += layout_state_of(block) == ACRE_BLOCK_LIVE ? block->bytes : 0;
    }
    return bytes;
}

/* Bytes that are free in private pools; a sleeping pool has none. */
static uint64_t free_private(const acre_cache *cache)
{
    uint64_t bytes = 0;

    LIST_FOR_EACH(link, &cache->private_pools) {
        struct private_pool *owner = CONTAINER_OF(link, struct private_pool, link);
        if (owner->sleep)
            continue;
        const struct pool *const pools[] = {&owner->small, &owner->large};
        for (int i = 0; i < 2; i++)
            for (struct block *block = cache->policy->first(pools[i]); block;
                 block = cache->policy->next(pools[i], block))
                bytes += block->bytes;
    }
    return bytes;
}

/* The option of the policy that lets memory in pieces serve as one; NULL where it is
 * on, or the device cannot. */
static const char *joining_option(const acre_cache *cache, const struct pool *pool)
{
    if (cache->policy->id == ACRE_POLICY_TORCH)
        return cache->conf.is_expandable
                   ? NULL
                   : "expandable_segments:True in ACRE_CONF or PYTORCH_CUDA_ALLOC_CONF";
    if ((pool && pool->stitch) || !device_has(cache->device, ACRE_CAP_VIRTUAL))
        return NULL;
    return pool && pool->owner ? "a pool with ACRE_POOL_STITCHED"
                               : "stitched_memory:True in ACRE_CONF";
}

void request_gather_locked(acre_cache *cache, struct request *request)
{
    struct acre_device *device = cache->device;

    if (cache->policy->relieve)
        cache->policy->relieve(cache);
    if (cache->policy->settle)
        cache->policy->settle(cache);
    request->device_total = device->info.total_bytes;
    request->device_free = 0;
    device->ops->memory_info(device->self, device->index, &request->device_free,
                             &request->device_total);
    request->held_bytes = cache->held_bytes;
    request->limit_bytes = cache->limit_bytes;
    request->option = joining_option(cache, request->pool);
    request->fraction = cache->conf.memory_fraction;
    request->bytes_asleep = asleep_bytes(cache);
    request->bytes_allocated =
        (uint64_t)cache->stats.allocated_bytes.all.current - request->bytes_asleep;
    request->bytes_reserved = (uint64_t)cache->stats.reserved_bytes.all.current;
    request->bytes_waiting = (uint64_t)(cache->stats.active_bytes.all.current -
                                        cache->stats.allocated_bytes.all.current);
    request->largest_free = largest_free(cache);
    request->free_private = free_private(cache);
    if (request->is_rejected)
        cache->stats.num_oom_rejections++;
    else
        cache->stats.num_ooms++;
    if (!request->is_rejected)
        record_oom_locked(cache, request);
    if (cache->policy->resume)
        cache->policy->resume(cache);
}

/* Adds what would have helped, the most likely first. */
static void add_remedy(const struct request *request, struct text *text)
{
    uint64_t idle = request->bytes_reserved - request->bytes_allocated;
    bool is_limited = request->limit_bytes != ACRE_CACHE_NO_LIMIT;

    if (request->bytes_waiting >= request->segment_bytes)
        text_add(text, " Memory waits for other streams: let them finish before freeing.");
    else if (idle >= request->rounded && request->option)
        text_add(text, " Enough is reserved but in pieces: try %s.", request->option);
    else if (is_limited && request->segment_bytes <= request->device_free)
        text_add(text, " The device has room: raise the memory limit.");
    else if (request->option)
        text_add(text,
                 " Reduce peak memory use: smaller batch, activation checkpointing, offloading. If "
                 "reserved but unallocated memory is large, try %s.",
                 request->option);
    else
        text_add(text,
                 " Reduce peak memory use: smaller batch, activation checkpointing, offloading.");
}

static void write_report(const acre_cache *cache, const struct request *request, struct text *text)
{
    const struct acre_device *device = cache->device;
    bool is_cuda = device->type == ACRE_DEVICE_CUDA;
    uint64_t used = request->device_total - request->device_free;
    uint64_t outside = used > request->held_bytes ? used - request->held_bytes : 0;

    text_add(text, "%s out of memory. Tried to allocate %s. ", is_cuda ? "CUDA" : device->info.name,
             IN_WORDS(request->segment_bytes));
    text_add(text, "GPU %d has a total capacity of %s of which %s is free. ", device->index,
             IN_WORDS(request->device_total), IN_WORDS(request->device_free));
    if (outside)
        text_add(text, "%s is in use outside this cache. ", IN_WORDS(outside));
    if (request->limit_bytes != ACRE_CACHE_NO_LIMIT)
        text_add(text, "%s allowed; ", IN_WORDS(request->limit_bytes));
    text_add(text, "%s allocated by Acre",
             IN_WORDS(request->bytes_allocated + request->free_private));
    if (request->free_private)
        text_add(text, ", with %s of it free in private pools", IN_WORDS(request->free_private));
    text_add(text, ", and %s reserved by Acre but unallocated",
             IN_WORDS(request->bytes_reserved - request->bytes_allocated - request->free_private));
    text_add(text, " (largest free block %s", IN_WORDS(request->largest_free));
    text_add(text, ", waiting for streams %s).", IN_WORDS(request->bytes_waiting));
    if (request->bytes_asleep)
        text_add(text, " Sleeping pools have %s more, which hold no memory.",
                 IN_WORDS(request->bytes_asleep));
    text_add(text, " The request was for %s", IN_WORDS(request->bytes));
    text_add(text, ", rounded to %s.", IN_WORDS(request->rounded));
    add_remedy(request, text);
}

static acre_status fail_oom(acre_cache *cache, const struct request *request)
{
    struct observers *list;
    char buffer[1024];
    struct text text;
    bool is_limited = request->limit_bytes != ACRE_CACHE_NO_LIMIT;

    text_init(&text, buffer, sizeof buffer);
    write_report(cache, request, &text);
    log_line(ACRE_LOG_WARN, "%s", buffer);
    quick_lock_take(&cache->lock);
    list = observers_hold(cache->oom_observers);
    quick_lock_drop(&cache->lock);
    for (size_t i = 0; list && i < list->count; i++)
        ((acre_cache_oom_fn)list->items[i].fn)(
            list->items[i].arg, cache->device->index, request->segment_bytes,
            is_limited ? request->limit_bytes : request->device_total, request->device_free);
    observers_drop(list);
    snapshot_on_oom(cache);
    return status_fail(ACRE_ERR_DEVICE_MEMORY, "%s", buffer);
}

/* Whether a rejection is to be logged now. */
static bool rejection_is_due_locked(acre_cache *cache)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    if (cache->rejection_logged_ns && ns - cache->rejection_logged_ns < REJECTION_LOG_NS)
        return false;
    cache->rejection_logged_ns = ns;
    return true;
}

static acre_status fail_rejected(acre_cache *cache, const struct request *request)
{
    struct observers *list;
    bool is_due;

    quick_lock_take(&cache->lock);
    list = observers_hold(cache->rejection_observers);
    is_due = rejection_is_due_locked(cache);
    quick_lock_drop(&cache->lock);
    if (is_due)
        log_line(ACRE_LOG_WARN, "a request of %zu bytes was refused ahead with %llu bytes held",
                 request->bytes, (unsigned long long)request->held_bytes);
    for (size_t i = 0; list && i < list->count; i++)
        ((acre_cache_rejection_fn)list->items[i].fn)(list->items[i].arg, cache->device->index,
                                                     request->segment_bytes, request->held_bytes,
                                                     request->device_total);
    observers_drop(list);
    return status_fail(ACRE_ERR_REJECTED,
                       "Allocation of %zu bytes on device %d was preemptively rejected: %llu "
                       "bytes are held and per_process_memory_fraction allows %.0f; raise it, or "
                       "switch throw_on_cudamalloc_oom off",
                       request->bytes, cache->device->index,
                       (unsigned long long)request->held_bytes,
                       request->fraction * (double)cache->device->info.total_bytes);
}

acre_status request_failed(acre_cache *cache, const struct request *request, acre_status status)
{
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return fail_oom(cache, request);
    if (status == ACRE_ERR_REJECTED)
        return fail_rejected(cache, request);
    return status;
}
