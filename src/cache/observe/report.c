/* SPDX-License-Identifier: MIT */
/* What is said when a request fails: the whole picture in one text, in the
 * order PyTorch's users know, then what would have helped. */
#include "cache/observe/report.h"

#include "backend/backend.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cache/observe/layout.h"
#include "cache/observe/record.h"
#include "cache/observe/snapshot_parts.h"

#include <time.h>

/* A rejection is logged at most once in this many nanoseconds. */
#define REJECTION_LOG_NS ((uint64_t)60 * 1000000000)

/* A size in words, for one statement. */
#define IN_WORDS(bytes) text_bytes((char[TEXT_BYTES_MAX]){0}, bytes)

static uint64_t largest_free(const acre_cache *cache)
{
    const struct pool *const pools[] = {&cache->small, &cache->large};
    uint64_t largest = 0;

    for (int i = 0; i < 2; i++) {
        size_t bytes = cache->policy->largest(pools[i]);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/* Bytes of live blocks in sleeping pools, which have no memory of the device. */
static uint64_t asleep_bytes(const acre_cache *cache)
{
    uint64_t bytes = 0;
    bool has_any = false;

    LIST_FOR_EACH(link, &cache->private_pools)
        has_any |= CONTAINER_OF(link, struct private_pool, link)->sleep != NULL;
    if (!has_any)
        return 0;
    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (!pool_is_asleep(segment->pool))
            continue;
        for (const struct block *block = segment->first; block; block = block->next)
            bytes += layout_state_of(block) == ACRE_BLOCK_LIVE ? block->bytes : 0;
    }
    return bytes;
}

/* Bytes that are free in private pools, or in those only that have ended; a sleeping pool has
 * none. */
static uint64_t free_private(const acre_cache *cache, bool ended_only)
{
    uint64_t bytes = 0;

    LIST_FOR_EACH(link, &cache->private_pools) {
        struct private_pool *owner = CONTAINER_OF(link, struct private_pool, link);
        if (owner->sleep || (ended_only && owner->use_count))
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
    if (cache->facts.can_expand)
        return cache->conf.is_expandable
                   ? NULL
                   : "expandable_segments:True in ACRE_CONF or PYTORCH_CUDA_ALLOC_CONF";
    if ((pool && pool->stitch) || !device_has(cache->device, ACRE_CAP_VIRTUAL))
        return NULL;
    return pool && pool->owner ? "a pool with ACRE_POOL_STITCHED"
                               : "stitched_memory:True in ACRE_CONF";
}

void cache_note_addresses(acre_cache *cache, size_t page_bytes, acre_status status)
{
    if (attempt_lacks_memory(status))
        cache->bytes_unaddressed = expand_span(cache->device, page_bytes);
}

void attempt_gather_locked(acre_cache *cache, struct attempt *attempt)
{
    struct shortage *shortage = &attempt->shortage;
    struct acre_device *device = cache->device;

    cache->policy->relieve(cache);
    cache->policy->settle(cache);
    shortage->device_total = device->info.total_bytes;
    shortage->device_free = 0;
    device->ops->memory_info(device->self, device->index, &shortage->device_free,
                             &shortage->device_total);
    shortage->held_bytes = cache->held_bytes;
    shortage->limit_bytes = cache->limit_bytes;
    shortage->option = joining_option(cache, attempt->request.pool);
    shortage->plain_option =
        cache->facts.can_expand ? "expandable_segments:False" : "stitched_memory:False";
    shortage->fraction = cache->conf.memory_fraction;
    shortage->bytes_asleep = asleep_bytes(cache);
    shortage->bytes_unaddressed = cache->bytes_unaddressed;
    shortage->bytes_allocated =
        (uint64_t)cache->stats.allocated_bytes.all.current - shortage->bytes_asleep;
    shortage->bytes_reserved = (uint64_t)cache->stats.reserved_bytes.all.current;
    shortage->bytes_waiting = (uint64_t)(cache->stats.active_bytes.all.current -
                                         cache->stats.allocated_bytes.all.current);
    shortage->largest_free = largest_free(cache);
    shortage->free_private = free_private(cache, false);
    shortage->free_ended = cache->capture_count ? free_private(cache, true) : 0;
    if (attempt->is_rejected)
        cache->stats.num_oom_rejections++;
    else
        cache->stats.num_ooms++;
    if (!attempt->is_rejected)
        record_oom_locked(cache, attempt);
    cache->policy->resume(cache);
}

/* Adds what would have helped, the most likely first. */
static void add_remedy(const struct acre_device *device, const struct attempt *attempt,
                       struct text *text)
{
    const struct shortage *shortage = &attempt->shortage;
    bool is_host = device->type == ACRE_DEVICE_CPU;
    uint64_t idle = shortage->bytes_reserved - shortage->bytes_allocated;
    bool is_limited = shortage->limit_bytes != ACRE_CACHE_NO_LIMIT;

    if (shortage->bytes_unaddressed)
        text_add(text,
                 " Addresses ran out, not memory: the device could not reserve %s of them. Have "
                 "fewer caches, private pools and streams on it, or set %s.",
                 IN_WORDS(shortage->bytes_unaddressed), shortage->plain_option);
    else if (shortage->bytes_waiting >= attempt->segment_bytes)
        text_add(text, " Memory waits for other streams: let them finish before freeing.");
    else if (shortage->free_ended >= attempt->segment_bytes)
        text_add(text,
                 " Pools that have ended hold %s, which cannot go back to the device during a "
                 "capture: empty the cache before it begins.",
                 IN_WORDS(shortage->free_ended));
    else if (idle >= attempt->request.rounded && shortage->option)
        text_add(text, " Enough is reserved but in pieces: try %s.", shortage->option);
    else if (is_limited && attempt->segment_bytes <= shortage->device_free)
        text_add(text, " The %s has room: raise the memory limit.", is_host ? "machine" : "device");
    else if (is_host)
        text_add(text, " Free what is not needed, or let less be live at a time.");
    else if (shortage->option)
        text_add(text,
                 " Reduce peak memory use: smaller batch, activation checkpointing, offloading. If "
                 "reserved but unallocated memory is large, try %s.",
                 shortage->option);
    else
        text_add(text,
                 " Reduce peak memory use: smaller batch, activation checkpointing, offloading.");
}

/* What there is: a GPU in PyTorch's words, or the memory of this machine. */
static void add_place(const struct acre_device *device, const struct attempt *attempt,
                      struct text *text)
{
    const struct shortage *shortage = &attempt->shortage;
    if (device->type == ACRE_DEVICE_CPU) {
        text_add(text, "Out of host memory. Tried to allocate %s. ",
                 IN_WORDS(attempt->segment_bytes));
        text_add(text, "This machine has %s of which %s is free. ",
                 IN_WORDS(shortage->device_total), IN_WORDS(shortage->device_free));
        return;
    }
    text_add(text, "%s out of memory. Tried to allocate %s. ",
             device->type == ACRE_DEVICE_CUDA ? "CUDA" : device->info.name,
             IN_WORDS(attempt->segment_bytes));
    text_add(text, "GPU %d has a total capacity of %s of which %s is free. ", device->index,
             IN_WORDS(shortage->device_total), IN_WORDS(shortage->device_free));
}

static void write_report(const acre_cache *cache, const struct attempt *attempt, struct text *text)
{
    const struct shortage *shortage = &attempt->shortage;
    uint64_t used = shortage->device_total - shortage->device_free;
    uint64_t outside = used > shortage->held_bytes ? used - shortage->held_bytes : 0;

    add_place(cache->device, attempt, text);
    if (outside)
        text_add(text, "%s is in use outside this cache. ", IN_WORDS(outside));
    if (shortage->limit_bytes != ACRE_CACHE_NO_LIMIT)
        text_add(text, "%s allowed; ", IN_WORDS(shortage->limit_bytes));
    text_add(text, "%s allocated by Acre",
             IN_WORDS(shortage->bytes_allocated + shortage->free_private));
    if (shortage->free_private)
        text_add(text, ", with %s of it free in private pools", IN_WORDS(shortage->free_private));
    text_add(
        text, ", and %s reserved by Acre but unallocated",
        IN_WORDS(shortage->bytes_reserved - shortage->bytes_allocated - shortage->free_private));
    text_add(text, " (largest free block %s", IN_WORDS(shortage->largest_free));
    text_add(text, ", waiting for streams %s).", IN_WORDS(shortage->bytes_waiting));
    if (shortage->bytes_asleep)
        text_add(text, " Sleeping pools have %s more, which hold no memory.",
                 IN_WORDS(shortage->bytes_asleep));
    text_add(text, " The request was for %s", IN_WORDS(attempt->request.bytes));
    text_add(text, ", rounded to %s.", IN_WORDS(attempt->request.rounded));
    add_remedy(cache->device, attempt, text);
}

static acre_status fail_oom(acre_cache *cache, const struct attempt *attempt)
{
    const struct shortage *shortage = &attempt->shortage;
    struct observers *list;
    char buffer[1024];
    struct text text;
    bool is_limited = shortage->limit_bytes != ACRE_CACHE_NO_LIMIT;

    text_init(&text, buffer, sizeof buffer);
    write_report(cache, attempt, &text);
    log_line(ACRE_LOG_WARN, "%s", buffer);
    quick_lock_take(&cache->lock);
    list = observers_hold(cache->oom_observers);
    quick_lock_drop(&cache->lock);
    for (size_t i = 0; list && i < list->count; i++)
        ((acre_cache_oom_fn)list->items[i].fn)(
            list->items[i].arg, cache->device->index, attempt->segment_bytes,
            is_limited ? shortage->limit_bytes : shortage->device_total, shortage->device_free);
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

static acre_status fail_rejected(acre_cache *cache, const struct attempt *attempt)
{
    const struct shortage *shortage = &attempt->shortage;
    struct observers *list;
    bool is_due;

    quick_lock_take(&cache->lock);
    list = observers_hold(cache->rejection_observers);
    is_due = rejection_is_due_locked(cache);
    quick_lock_drop(&cache->lock);
    if (is_due)
        log_line(ACRE_LOG_WARN, "a request of %zu bytes was refused ahead with %llu bytes held",
                 attempt->request.bytes, (unsigned long long)shortage->held_bytes);
    for (size_t i = 0; list && i < list->count; i++)
        ((acre_cache_rejection_fn)list->items[i].fn)(list->items[i].arg, cache->device->index,
                                                     attempt->segment_bytes, shortage->held_bytes,
                                                     shortage->device_total);
    observers_drop(list);
    return status_fail(ACRE_ERR_REJECTED,
                       "Allocation of %zu bytes on device %d was preemptively rejected: %llu "
                       "bytes are held and per_process_memory_fraction allows %.0f; raise it, or "
                       "switch throw_on_cudamalloc_oom off",
                       attempt->request.bytes, cache->device->index,
                       (unsigned long long)shortage->held_bytes,
                       shortage->fraction * (double)cache->device->info.total_bytes);
}

acre_status attempt_failed(acre_cache *cache, const struct attempt *attempt, acre_status status)
{
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return fail_oom(cache, attempt);
    if (status == ACRE_ERR_REJECTED)
        return fail_rejected(cache, attempt);
    return status;
}
