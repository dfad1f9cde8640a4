/* SPDX-License-Identifier: MIT */
/* Public calls of the caching allocator: check, lock, engine, unlock. */
#include "cache/cache.h"
#include "cache/engine.h"
#include "cache/fork.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "cache/observe/record.h"
#include "cache/observe/report.h"
#include "cache/pools/capture.h"
#include "cache/pools/pools.h"
#include "cache/pools/sleep.h"
#include "cache/reclaim.h"
#include "cache/size.h"
#include "cache/acre/stitch.h"
#include "cache/torch/grow.h"

#include <math.h>
#include <string.h>

const struct policy *policy_get(acre_policy id)
{
    return id == ACRE_POLICY_TORCH ? &policy_torch : &policy_acre;
}

/* ---- Life of a cache -------------------------------------------------------- */

static uint64_t limit_of_fraction(const acre_cache *cache, double fraction)
{
    if (fraction >= 1)
        return ACRE_CACHE_NO_LIMIT;
    return (uint64_t)round(fraction * (double)cache->device->info.total_bytes);
}

static acre_status cache_init(acre_cache *cache, const acre_cache_config *config,
                              uint64_t *out_given)
{
    const char *text;
    acre_status status = cache_conf_load(&cache->conf, config, &text, out_given);

    if (status != ACRE_OK)
        return status;
    cache->conf_text = heap_strdup(text);
    if (!cache->conf_text)
        return ACRE_ERR_HOST_MEMORY;
    status = map_init(&cache->map);
    if (status != ACRE_OK)
        return status;
    cache->policy = policy_get((acre_policy)cache->conf.policy);
    cache->facts = cache->policy->facts;
    cache->limit_bytes = config->limit_bytes
                             ? config->limit_bytes
                             : limit_of_fraction(cache, cache->conf.memory_fraction);
    stats_init(&cache->stats, cache_conf_signed(cache->conf.max_split_bytes));
    pool_init(&cache->small, true);
    pool_init(&cache->large, false);
    status = cache->policy->pool_init(cache, &cache->small);
    if (status != ACRE_OK)
        return status;
    status = cache->policy->pool_init(cache, &cache->large);
    if (status != ACRE_OK)
        goto fini_small;
    if (cache->facts.can_stitch)
        status = stitch_create(cache, &cache->small, &cache->large);
    if (status == ACRE_OK && cache->policy->init)
        status = cache->policy->init(cache);
    if (status == ACRE_OK)
        return status;
    stitch_destroy(cache->large.stitch);
    cache->policy->pool_fini(cache, &cache->large);
fini_small:
    cache->policy->pool_fini(cache, &cache->small);
    return status;
}

acre_status acre_cache_create(acre_device *device, const acre_cache_config *config,
                              acre_cache **out)
{
    acre_cache_config copy = {.struct_size = sizeof copy};
    acre_status status = ACRE_OK;
    uint64_t given;

    if (!device || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_create: device and out are needed");
    status = backend_check_fork(device->backend);
    if (status != ACRE_OK)
        return status;
    if (config)
        status = STRUCT_TAKE("acre_cache_create", acre_cache_config, config, &copy);
    if (status != ACRE_OK)
        return status;
    acre_cache *cache = heap_zalloc(sizeof *cache);
    if (!cache)
        return ACRE_ERR_HOST_MEMORY;
    cache->device = device;
    cache->order_step = !(copy.flags & ACRE_CACHE_TIES_BY_ADDRESS);
    list_init(&cache->segments);
    list_init(&cache->returned);
    list_init(&cache->private_pools);
    list_init(&cache->accounts);
    list_init(&cache->scopes);
    list_init(&cache->direct);
    block_store_init(&cache->blocks);
    deferred_init(&cache->deferred, device);
    shares_init(&cache->shares);
    capture_waits_init(&cache->capture_waits);
    late_init(&cache->late);
    list_init(&cache->marks);
    status = cache_init(cache, &copy, &given);
    if (status != ACRE_OK)
        goto free_cache;
    quick_lock_init(&cache->lock, RANK_CACHE, "cache");
    cache_fork_join(cache);
    cache->is_forbidden = cache_conf_environment_disables();
    atomic_init(&cache->is_enabled, true);
    acre_cache_enable(cache, !(copy.flags & ACRE_CACHE_DISABLED));
    cache_conf_report_unused(cache->policy->id, given);
    grow_configure_locked(cache);
    grow_announce(cache);
    *out = cache;
    return ACRE_OK;

free_cache:
    map_fini(&cache->map);
    heap_free(cache->conf_text);
    heap_free(cache);
    return status;
}

/* Returns everything to the device, in use or not. */
static void give_back_all(acre_cache *cache)
{
    struct acre_device *device = cache->device;

    if (reclaim_quiesce(cache) != ACRE_OK)
        log_line(ACRE_LOG_ERROR, "a cache ends with failed work: %s", acre_last_error());
    for (struct pool *pool = NULL; (pool = pools_next_locked(cache, pool));)
        stitch_destroy(pool->stitch);
    LIST_FOR_EACH_SAFE(link, after, &cache->segments) {
        struct segment *segment = CONTAINER_OF(link, struct segment, link);
        const struct private_pool *owner = segment->pool->owner;
        if (segment->expand)
            expand_abandon(segment->expand);
        else if (segment->host)
            ; /* part of another one */
        else if (owner && private_pool_has_source(owner))
            pool_source_free(&owner->source, device, segment->base, segment->bytes,
                             segment->stream);
        else if (device->ops->free(device->self, device->index, segment->base) != ACRE_OK)
            log_line(ACRE_LOG_ERROR, "a segment of %zu bytes could not be returned: %s",
                     segment->bytes, acre_last_error());
        heap_free(segment);
    }
    LIST_FOR_EACH(link, &cache->direct) {
        struct block *block = CONTAINER_OF(link, struct block, link);
        if (device->ops->free(device->self, device->index, block->base) != ACRE_OK)
            log_line(ACRE_LOG_ERROR, "%zu bytes could not be returned: %s", block->bytes,
                     acre_last_error());
    }
}

/* Uses are objects of the deferred part: blocks still live give theirs back. */
static void forget_all_uses(acre_cache *cache)
{
    LIST_FOR_EACH(link, &cache->segments) {
        struct block *block = CONTAINER_OF(link, struct segment, link)->first;
        for (; block; block = block->next)
            deferred_forget_uses(&cache->deferred, block);
    }
}

void acre_cache_destroy(acre_cache *cache)
{
    struct status_saved before;

    if (!cache)
        return;
    status_save(&before);
    cache_fork_leave(cache);
    record_stop_locked(cache);
    cache->policy->settle(cache);
    if (cache->stats.allocation.all.current)
        log_line(ACRE_LOG_WARN, "a cache ends with %lld allocations of %lld bytes live",
                 (long long)cache->stats.allocation.all.current,
                 (long long)cache->stats.allocated_bytes.all.current);
    deferred_synchronize(&cache->deferred, NULL, engine_done_locked, cache);
    capture_fini(cache);
    forget_all_uses(cache);
    shares_warn(&cache->shares);
    if (cache->policy->fini)
        cache->policy->fini(cache);
    give_back_all(cache);
    pools_fini(cache);
    cache->policy->pool_fini(cache, &cache->small);
    cache->policy->pool_fini(cache, &cache->large);
    deferred_fini(&cache->deferred);
    shares_fini(&cache->shares);
    map_fini(&cache->map);
    block_store_fini(&cache->blocks);
    observers_drop(cache->oom_observers);
    observers_drop(cache->rejection_observers);
    observers_drop(cache->reclaimers);
    observers_drop(cache->trackers);
    history_clear(&cache->history);
    heap_free(cache->conf_text);
    heap_free(cache);
    status_restore(&before);
}

acre_policy acre_cache_policy(const acre_cache *cache)
{
    return cache ? cache->policy->id : ACRE_POLICY_DEFAULT;
}

acre_device *acre_cache_device(const acre_cache *cache)
{
    return cache ? cache->device : NULL;
}

/* ---- Allocating --------------------------------------------------------------- */

static acre_status fail_pointer(const void *pointer)
{
    return status_fail(ACRE_ERR_INVALID,
                       "invalid device pointer: %p is not the first byte of a live allocation "
                       "of this cache",
                       pointer);
}

/* Straight from the device, while caching is off. */
static acre_status alloc_direct(acre_cache *cache, size_t bytes, void **out)
{
    struct acre_device *device = cache->device;
    size_t rounded = round_up(bytes, device->info.alloc_granularity);
    void *base;

    quick_lock_take(&cache->lock);
    acre_status status = ACRE_ERR_HOST_MEMORY;
    if (!block_store_reserve(&cache->blocks, 1))
        goto drop_lock;
    status = device->ops->alloc(device->self, device->index, rounded, &base);
    if (status != ACRE_OK)
        goto drop_lock;
    struct block *block = block_create(&cache->blocks);
    status = map_reserve(&cache->map, base, 1);
    if (status != ACRE_OK) {
        late_return_locked(cache, block, base, rounded);
        goto drop_lock;
    }
    block->base = base;
    block->bytes = rounded;
    block->requested = bytes;
    block->state = BLOCK_DIRECT;
    list_push_back(&cache->direct, &block->link);
    map_set(&cache->map, base, block);
    *out = base;
drop_lock:
    quick_lock_drop(&cache->lock);
    return status;
}

static acre_status free_direct_locked(acre_cache *cache, struct block *block)
{
    struct acre_device *device = cache->device;

    capture_sweep_locked(cache);
    acre_status status = capture_search_locked(cache);
    if (status == ACRE_OK)
        status = reclaim_quiesce(cache);
    if (status == ACRE_OK)
        status = device->ops->free(device->self, device->index, block->base);
    if (status != ACRE_OK)
        return status;
    if (map_find(&cache->map, block->base) == block) /* else it was never handed out */
        map_clear(&cache->map, block->base);
    list_remove(&block->link);
    block_destroy(&cache->blocks, block);
    return ACRE_OK;
}

acre_status cache_alloc(acre_cache *cache, size_t bytes, void *stream, void **out)
{
    struct attempt attempt;

    if (UNLIKELY(!cache || !out))
        return status_fail(ACRE_ERR_INVALID, "acre_cache_alloc: cache and out are needed");
    if (UNLIKELY(bytes - 1 >= SIZE_REQUEST_END - 1)) {
        if (bytes)
            return status_fail(ACRE_ERR_DEVICE_MEMORY,
                               "out of memory: %zu bytes are more than 1EB (2^60 bytes)", bytes);
        *out = NULL;
        return ACRE_OK;
    }
    REFUSE_FORKED(cache);
    if (UNLIKELY(!acre_cache_is_enabled(cache)))
        return alloc_direct(cache, bytes, out);
    attempt_init(&attempt, bytes, stream);
    record_gather(cache, ACRE_CONTEXT_STATE);
    quick_lock_take(&cache->lock);
    acre_status status = engine_alloc_locked(cache, &attempt);
    if (LIKELY(status == ACRE_OK)) {
        record_alloc_locked(cache, attempt.block);
        cache->policy->admit(cache, attempt.block);
        *out = attempt.block->base;
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return LIKELY(status == ACRE_OK) ? status : attempt_failed(cache, &attempt, status);
}

/* Frees a live block with its share of the statistics. */
static acre_status free_locked(acre_cache *cache, struct block *block)
{
    if (UNLIKELY(pool_is_asleep(block->pool)))
        return sleep_refuse(block->pool->owner, "acre_cache_free");
    bool is_small = block->pool->is_small, is_waiting = false;
    size_t bytes = block->bytes, requested = block->requested;
    acre_status status = engine_free_locked(cache, block, &is_waiting);

    if (UNLIKELY(status != ACRE_OK))
        return status;
    cache->policy->dismiss(cache, is_small, bytes, requested, is_waiting);
    /* Asking a hold takes back what was exported, so that comes when nothing can fail. */
    if (UNLIKELY(is_waiting && cache->deferred.held_count))
        deferred_collect_holds(&cache->deferred, engine_done_locked, cache);
    return ACRE_OK;
}

acre_status acre_cache_alloc_at(acre_cache *cache, size_t bytes, void *stream, void *address)
{
    struct attempt attempt;
    struct block *prefix = NULL;

    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_alloc_at: a cache is needed");
    if (!acre_cache_is_enabled(cache))
        return status_fail(ACRE_ERR_STATE, "acre_cache_alloc_at: caching is switched off");
    if (bytes == 0)
        return ACRE_OK;
    if ((uintptr_t)address % BLOCK_UNIT)
        return status_fail(ACRE_ERR_INVALID,
                           "address %p is not a multiple of kMinBlockSize, %zu bytes", address,
                           BLOCK_UNIT);
    REFUSE_FORKED(cache);
    attempt_init(&attempt, bytes, stream);
    quick_lock_take(&cache->lock);
    cache->policy->relieve(cache);
    acre_status status = bytes < SIZE_REQUEST_END
                             ? engine_alloc_at_locked(cache, &attempt, address, &prefix)
                             : status_fail(ACRE_ERR_NOT_FOUND, "%zu bytes are too many", bytes);
    if (status == ACRE_OK) {
        struct label label = record_label_locked(cache, "mallocWithAddress");
        if (prefix) {
            record_alloc_locked(cache, prefix);
            cache->policy->admit(cache, prefix);
        }
        record_alloc_locked(cache, attempt.block);
        cache->policy->admit(cache, attempt.block);
        if (prefix)
            free_locked(cache, prefix);
        label_restore(label);
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status;
}

/* Frees a live block that has a tag, if no other thread has claimed it first. */
static acre_status free_tagged_locked(acre_cache *cache, struct block *block)
{
    if (!block_tag_claim_used(block, block->base))
        return fail_pointer(block->base);
    acre_status status = free_locked(cache, block);
    if (status != ACRE_OK) /* it stays live, and only a block with uses can fail */
        atomic_store_explicit(&block->tag, (uintptr_t)block->base | BLOCK_TAG_USED,
                              memory_order_release);
    return status;
}

acre_status cache_free_block_locked(acre_cache *cache, struct block *block)
{
    if (block->is_late)
        late_withdraw_locked(cache, block);
    if (UNLIKELY(block->state == BLOCK_DIRECT))
        return free_direct_locked(cache, block);
    return block_is_tagged(block) ? free_tagged_locked(cache, block) : free_locked(cache, block);
}

acre_status cache_free(acre_cache *cache, void *pointer)
{
    acre_status status;

    if (UNLIKELY(!cache))
        return status_fail(ACRE_ERR_INVALID, "acre_cache_free: a cache is needed");
    if (UNLIKELY(!pointer))
        return ACRE_OK;
    record_gather(cache, ACRE_CONTEXT_ALL);
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    struct block *block = engine_find_locked(cache, pointer);
    if (UNLIKELY(!block))
        status = fail_pointer(pointer);
    else if (UNLIKELY(block->state == BLOCK_DIRECT))
        status = free_direct_locked(cache, block);
    else if (block_is_tagged(block))
        status = free_tagged_locked(cache, block);
    else
        status = free_locked(cache, block);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    record_gather_end(cache);
    return status;
}

/* Adds a use that may be part of a capture. */
static __attribute__((noinline)) acre_status use_captured_locked(acre_cache *cache,
                                                                 struct block *block, void *stream)
{
    uint64_t capture_id;

    if (!list_empty(&cache->scopes))
        capture_notice_locked(cache, stream, false);
    acre_status status = capture_of_use_locked(cache, stream, &capture_id);
    if (status == ACRE_OK)
        status = deferred_use(&cache->deferred, block, stream, capture_id);
    return status;
}

/* Notes that stream uses a live block. */
static inline acre_status use_locked(acre_cache *cache, struct block *block, void *stream)
{
    bool is_tagged = block_is_tagged(block);

    if (is_tagged && !block_tag_use(block))
        return fail_pointer(block->base); /* freed meanwhile */
    acre_status status = UNLIKELY(capture_may_run_locked(cache))
                             ? use_captured_locked(cache, block, stream)
                             : deferred_use(&cache->deferred, block, stream, 0);
    if (UNLIKELY(status != ACRE_OK) && is_tagged && !block->uses)
        block_tag_live(block);
    return status;
}

acre_status acre_cache_record_stream(acre_cache *cache, void *pointer, void *stream)
{
    acre_status status = ACRE_OK;

    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_record_stream: a cache is needed");
    if (!pointer)
        return ACRE_OK;
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    struct block *block = engine_find_locked(cache, pointer);
    if (!block)
        status = fail_pointer(pointer);
    else if (block->state == BLOCK_LIVE && block->stream != stream &&
             device_has(cache->device, ACRE_CAP_STREAMS))
        status = use_locked(cache, block, stream);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_cache_empty(acre_cache *cache)
{
    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_empty: a cache is needed");
    REFUSE_FORKED(cache);
    record_gather(cache, ACRE_CONTEXT_ALL);
    quick_lock_take(&cache->lock);
    cache->policy->relieve(cache);
    acre_status status = reclaim_all_locked(cache);
    if (!cache->capture_count)
        deferred_trim(&cache->deferred);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    record_gather_end(cache);
    return status;
}

acre_status acre_cache_base(acre_cache *cache, void *pointer, void **out_base, uint64_t *out_bytes)
{
    acre_status status = ACRE_OK;

    if (!cache || !out_base || !out_bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_base: an argument is NULL");
    quick_lock_take(&cache->lock);
    struct block *block = pointer ? engine_find_locked(cache, pointer) : NULL;
    if (!block) {
        status = fail_pointer(pointer);
    } else if (!block->segment) {
        *out_base = block->base;
        *out_bytes = block->bytes;
    } else if (block->pool->stitch) {
        *out_base = block->base;
        *out_bytes = block->bytes;
    } else if (block->segment->expand) {
        status = status_fail(ACRE_ERR_UNSUPPORTED,
                             "acre_cache_base: %p lies in an expandable segment, which has no "
                             "one base allocation; switch expandable_segments off",
                             pointer);
    } else {
        *out_base = block->segment->base;
        *out_bytes = block->segment->bytes;
    }
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_cache_block_bytes(acre_cache *cache, void *pointer, uint64_t *out_bytes)
{
    acre_status status = ACRE_OK;

    if (!cache || !out_bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_block_bytes: an argument is NULL");
    quick_lock_take(&cache->lock);
    struct block *block = pointer ? engine_find_locked(cache, pointer) : NULL;
    if (block)
        *out_bytes = block->bytes;
    else
        status = fail_pointer(pointer);
    quick_lock_drop(&cache->lock);
    return status;
}
