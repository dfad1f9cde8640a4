/* SPDX-License-Identifier: MIT */
/* Public calls that set and read limits, options, statistics and observers.
 *
 * A NULL cache is refused where there is a status to say so; elsewhere nothing
 * happens and what is read is that of no cache. */
#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "cache/cache.h"
#include "cache/pools/pools.h"
#include "cache/torch/grow.h"

#include <math.h>
#include <stdio.h>

static acre_status settings_refuse(const char *call)
{
    return status_fail(ACRE_ERR_INVALID, "%s: an argument is NULL", call);
}

void acre_cache_enable(acre_cache *cache, bool enabled)
{
    if (!cache)
        return;
    quick_lock_take(&cache->lock);
    atomic_store(&cache->is_enabled, enabled);
    cache->policy->enable(cache, acre_cache_is_enabled(cache));
    quick_lock_drop(&cache->lock);
}

bool acre_cache_is_enabled(const acre_cache *cache)
{
    return cache && atomic_load_explicit(&cache->is_enabled, memory_order_relaxed) &&
           !cache->is_forbidden;
}

/* ---- Limits ------------------------------------------------------------------- */

void acre_cache_limit_set(acre_cache *cache, uint64_t bytes)
{
    if (!cache)
        return;
    quick_lock_take(&cache->lock);
    cache->limit_bytes = bytes;
    quick_lock_drop(&cache->lock);
}

uint64_t acre_cache_limit_get(acre_cache *cache)
{
    if (!cache)
        return ACRE_CACHE_NO_LIMIT;
    quick_lock_take(&cache->lock);
    uint64_t bytes = cache->limit_bytes;
    quick_lock_drop(&cache->lock);
    return bytes;
}

acre_status acre_cache_memory_fraction_set(acre_cache *cache, double fraction)
{
    if (!cache)
        return settings_refuse("acre_cache_memory_fraction_set");
    if (!(fraction >= 0 && fraction <= 1))
        return status_fail(ACRE_ERR_RANGE,
                           "invalid fraction %g: a share of the device is within [0, 1]", fraction);
    double bytes = round(fraction * (double)cache->device->info.total_bytes);
    acre_cache_limit_set(cache, fraction < 1 ? (uint64_t)bytes : ACRE_CACHE_NO_LIMIT);
    return ACRE_OK;
}

double acre_cache_memory_fraction_get(acre_cache *cache)
{
    uint64_t limit = acre_cache_limit_get(cache);

    if (limit == ACRE_CACHE_NO_LIMIT)
        return 1;
    return (double)limit / (double)cache->device->info.total_bytes;
}

/* ---- Options -------------------------------------------------------------------- */

acre_status acre_cache_conf_set(acre_cache *cache, const char *text)
{
    uint64_t given = 0;

    if (!cache || !text)
        return settings_refuse("acre_cache_conf_set");
    char *copy = heap_strdup(text);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    quick_lock_take(&cache->lock);
    acre_status status = cache_conf_read(&cache->conf, "acre_cache_conf_set", text, &given);
    if (status == ACRE_OK) {
        char *old = cache->conf_text;
        cache->conf_text = copy;
        copy = old;
        grow_configure_locked(cache);
    }
    quick_lock_drop(&cache->lock);
    heap_free(copy);
    if (status == ACRE_OK) {
        cache_conf_report_unused(cache->policy->id, given);
        grow_announce(cache);
    }
    return status;
}

int acre_cache_conf_get(acre_cache *cache, char *buffer, size_t bytes)
{
    if (!cache)
        return snprintf(buffer, bytes, "%s", "");
    quick_lock_take(&cache->lock);
    int length = snprintf(buffer, bytes, "%s", cache->conf_text);
    quick_lock_drop(&cache->lock);
    return length;
}

/* ---- Statistics --------------------------------------------------------------------- */

acre_status acre_cache_stats_get(acre_cache *cache, acre_cache_stats *stats)
{
    if (!cache)
        return settings_refuse("acre_cache_stats_get");
    acre_status status = STRUCT_CHECK("acre_cache_stats_get", acre_cache_stats, stats);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    cache->policy->settle(cache);
    STRUCT_GIVE(acre_cache_stats, stats, &cache->stats);
    cache->policy->resume(cache);
    quick_lock_drop(&cache->lock);
    return ACRE_OK;
}

static void settings_reset(acre_cache *cache, void (*fn)(acre_cache_stats *),
                           void (*fn_array)(acre_stat_array *))
{
    if (!cache)
        return;
    quick_lock_take(&cache->lock);
    cache->policy->settle(cache);
    fn(&cache->stats);
    LIST_FOR_EACH(link, &cache->accounts)
        fn_array(&CONTAINER_OF(link, struct pool_account, link)->reserved);
    cache->policy->resume(cache);
    quick_lock_drop(&cache->lock);
}

void acre_cache_stats_reset_peak(acre_cache *cache)
{
    settings_reset(cache, stats_reset_peak, stats_array_reset_peak);
}

void acre_cache_stats_reset_accumulated(acre_cache *cache)
{
    settings_reset(cache, stats_reset_accumulated, stats_array_reset_accumulated);
}

acre_status acre_cache_info(acre_cache *cache, uint64_t *out_largest_block,
                            uint64_t *out_device_free)
{
    uint64_t total, device_free, largest = 0;

    if (!cache || !out_largest_block || !out_device_free)
        return settings_refuse("acre_cache_info");
    struct acre_device *device = cache->device;
    acre_status status =
        device->ops->memory_info(device->self, device->index, &device_free, &total);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    cache->policy->relieve(cache);
    for (struct pool *pool = NULL; (pool = pools_next_locked(cache, pool));)
        for (struct block *block = cache->policy->first(pool); block;
             block = cache->policy->next(pool, block))
            largest = block->bytes > largest ? block->bytes : largest;
    quick_lock_drop(&cache->lock);
    *out_largest_block = largest;
    *out_device_free = device_free;
    return ACRE_OK;
}

/* ---- Observers ------------------------------------------------------------------------ */

/* The lists of observers, by where they stand in a cache. */
enum {
    OOM = offsetof(acre_cache, oom_observers),
    REJECTION = offsetof(acre_cache, rejection_observers),
    RECLAIMER = offsetof(acre_cache, reclaimers)
};

static struct observers **list_at(acre_cache *cache, size_t offset)
{
    return (struct observers **)(void *)((char *)cache + offset);
}

static acre_status settings_add(acre_cache *cache, size_t offset, void (*fn)(void), void *arg)
{
    if (!cache || !fn)
        return status_fail(ACRE_ERR_INVALID, "an observer needs a cache and a function");
    quick_lock_take(&cache->lock);
    acre_status status = observers_add(list_at(cache, offset), fn, arg);
    quick_lock_drop(&cache->lock);
    return status;
}

static void take_out(acre_cache *cache, size_t offset, void (*fn)(void), void *arg)
{
    if (!cache)
        return;
    quick_lock_take(&cache->lock);
    acre_status status = observers_remove(list_at(cache, offset), fn, arg);
    quick_lock_drop(&cache->lock);
    if (status != ACRE_OK)
        log_line(ACRE_LOG_ERROR, "an observer could not be removed: no host memory");
}

acre_status acre_cache_oom_observer_add(acre_cache *cache, acre_cache_oom_fn fn, void *arg)
{
    return settings_add(cache, OOM, (void (*)(void))fn, arg);
}

void acre_cache_oom_observer_remove(acre_cache *cache, acre_cache_oom_fn fn, void *arg)
{
    take_out(cache, OOM, (void (*)(void))fn, arg);
}

acre_status acre_cache_rejection_observer_add(acre_cache *cache, acre_cache_rejection_fn fn,
                                              void *arg)
{
    return settings_add(cache, REJECTION, (void (*)(void))fn, arg);
}

void acre_cache_rejection_observer_remove(acre_cache *cache, acre_cache_rejection_fn fn, void *arg)
{
    take_out(cache, REJECTION, (void (*)(void))fn, arg);
}

acre_status acre_cache_reclaimer_add(acre_cache *cache, acre_cache_reclaim_fn fn, void *arg)
{
    return settings_add(cache, RECLAIMER, (void (*)(void))fn, arg);
}

void acre_cache_reclaimer_remove(acre_cache *cache, acre_cache_reclaim_fn fn, void *arg)
{
    take_out(cache, RECLAIMER, (void (*)(void))fn, arg);
}
