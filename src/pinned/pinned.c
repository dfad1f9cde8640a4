/* SPDX-License-Identifier: MIT */
/* Life and options of a pinned cache, and what gives memory back. */
#include "pinned/pinned.h"

#include "backend/backend.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "pinned/source.h"

#include <string.h>

/* ---- Life ----------------------------------------------------------------------------- */

/* For the poller: whether uses of the shared pool are pending still. */
static bool pinned_look(void *arg)
{
    acre_pinned *pinned = arg;

    quick_lock_take(&pinned->lock);
    settle_collect_locked(pinned, &pinned->shared, false);
    bool is_pending = pinned->shared.events.pending || !list_empty(&pinned->shared.postponed);
    pinned_leave(pinned);
    return is_pending;
}

/* Reads all sources of options. */
static acre_status pinned_load(acre_pinned *pinned, const acre_pinned_config *config)
{
    acre_cache_config as_cache = {.struct_size = sizeof as_cache};
    const char *text;
    uint64_t given;

    as_cache.policy = config->policy;
    as_cache.conf = config->conf;
    if (config->flags & ACRE_PINNED_NO_ENVIRONMENT)
        as_cache.flags |= ACRE_CACHE_NO_ENVIRONMENT;
    acre_status status = cache_conf_load(&pinned->conf, &as_cache, &text, &given);
    if (status != ACRE_OK)
        return status;
    pinned->policy = (acre_policy)pinned->conf.policy;
    pinned->conf_text = heap_strdup(text);
    return pinned->conf_text ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

/* PyTorch's one warning. */
static void warn_of_thresholds(const struct cache_conf *conf)
{
    if (conf->pinned_max_round_threshold_bytes != UINT64_MAX &&
        conf->pinned_max_round_threshold_bytes > conf->pinned_max_cached_bytes)
        log_line(ACRE_LOG_WARN, "pinned_max_round_threshold_mb is above "
                                "pinned_max_cached_size_mb, which decides then");
}

static acre_status pinned_check(const acre_device *device, acre_pinned *const *out)
{
    if (!device || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_create: %s is NULL",
                           device ? "out" : "device");
    if (!device_has(device, ACRE_CAP_HOST_MEMORY))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "acre_pinned_create: device %d (%s) has no "
                           "page-locked host memory",
                           device->index, device->info.name);
    return backend_check_fork(device->backend);
}

/* In a child of fork the first call finds out whether the device works there. */
static void pinned_child(struct fork_guard *guard)
{
    acre_pinned *pinned = CONTAINER_OF(guard, acre_pinned, fork_guard);

    pinned->at_hand = host_arena_nothing;
    pinned->leaf_count = 0;
}

acre_status acre_pinned_create(acre_device *device, const acre_pinned_config *config,
                               acre_pinned **out)
{
    acre_pinned_config whole = {.struct_size = sizeof whole};
    acre_status status = pinned_check(device, out);

    if (status == ACRE_OK && config)
        status = STRUCT_TAKE("acre_pinned_create", acre_pinned_config, config, &whole);
    if (status != ACRE_OK)
        return status;
    acre_pinned *pinned = heap_zalloc(sizeof *pinned);
    if (!pinned)
        return ACRE_ERR_HOST_MEMORY;
    status = pinned_load(pinned, &whole);
    if (status == ACRE_OK)
        status = map_init(&pinned->map);
    if (status != ACRE_OK) {
        heap_free(pinned->conf_text);
        heap_free(pinned);
        return status;
    }
    quick_lock_init(&pinned->lock, RANK_CACHE, "pinned cache");
    pinned->device = device;
    atomic_init(&pinned->generation, fork_generation());
    host_arena_init(&pinned->shared, &pinned->map, pinned_is_torch(pinned));
    pinned->shared.use_count = 1;
    list_init(&pinned->pools);
    list_init(&pinned->doomed);
    event_store_init(&pinned->store);
    numa_load(&pinned->numa, NUMA_ROOT);
    poller_init(&pinned->poller, pinned_look, pinned);
    pinned_update_plain_locked(pinned);
    fork_guard_quick(&pinned->fork_guard, &pinned->lock, pinned_child);
    warn_of_thresholds(&pinned->conf);
    *out = pinned;
    return ACRE_OK;
}

/* Ends what a pool holds, live or not. In a child that the device does not work in, its memory
 * stays: it is the parent's. */
static void pool_fini(acre_pinned *pinned, struct host_pool *pool)
{
    bool is_forked = pinned_check_fork(pinned) != ACRE_OK;

    if (!is_forked)
        settle_collect_locked(pinned, pool, true);
    events_fini(&pinned->store, &pool->events);
    while (!list_empty(&pool->extents)) {
        struct extent *extent = CONTAINER_OF(pool->extents.next, struct extent, link);
        for (struct host_block *host_block = extent->first; host_block;
             host_block = host_block->next) {
            uses_forget(host_block, false);
            for (uint32_t i = 0; host_block->slab && i < host_block->slab->slot_count; i++)
                uses_forget(&host_block->slab->slots[i], false);
        }
        list_remove(&extent->link);
        if (!is_forked &&
            source_put(pinned->device, extent->method, extent->base, extent->bytes) != ACRE_OK)
            log_line(ACRE_LOG_ERROR, "host memory at %p could not be given back: %s",
                     (void *)extent->base, acre_last_error());
        host_extent_destroy(extent);
    }
}

/* What became free while it ended, and what the device did not take back before. */
static void doomed_fini(acre_pinned *pinned, bool is_forked)
{
    if (!is_forked) {
        quick_lock_take(&pinned->lock);
        pinned_offer_locked(pinned);
        pinned_leave(pinned);
    }
    while (!list_empty(&pinned->doomed)) {
        struct extent *extent = CONTAINER_OF(pinned->doomed.next, struct extent, link);

        if (!is_forked)
            log_line(ACRE_LOG_ERROR, "host memory at %p could not be given back",
                     (void *)extent->base);
        list_remove(&extent->link);
        host_extent_destroy(extent);
    }
}

void acre_pinned_destroy(acre_pinned *pinned)
{
    if (!pinned)
        return;
    fork_guard_end(&pinned->fork_guard);
    poller_fini(&pinned->poller);
    history_clear(&pinned->history);
    int64_t live = pinned_active_bytes(pinned) - (int64_t)pinned->captured_bytes -
                   (int64_t)pinned->waiting_bytes;
    bool is_forked = pinned_check_fork(pinned) != ACRE_OK;
    if (live > 0 && !is_forked)
        log_line(ACRE_LOG_WARN, "a pinned cache ends with %lld bytes allocated", (long long)live);
    pool_fini(pinned, &pinned->shared);
    LIST_FOR_EACH_SAFE(link, after, &pinned->pools) {
        struct host_pool *pool = CONTAINER_OF(link, struct host_pool, link);
        pool_fini(pinned, pool);
        list_remove(link);
        heap_free(pool);
    }
    doomed_fini(pinned, is_forked);
    if (pinned->reserve.base && !is_forked)
        source_put(pinned->device, pinned->reserve.method, pinned->reserve.base,
                   pinned->reserve.bytes);
    event_store_trim(&pinned->store);
    map_fini(&pinned->map);
    heap_free(pinned->conf_text);
    heap_free(pinned);
}

acre_policy pinned_policy(const acre_pinned *pinned)
{
    return pinned ? pinned->policy : ACRE_POLICY_DEFAULT;
}

/* ---- Levels --------------------------------------------------------------------------- */

int64_t pinned_active_bytes(const acre_pinned *pinned)
{
    int64_t sum = 0;

    for (int i = 0; i < ACRE_PINNED_BUCKETS; i++)
        sum += level_current(&pinned->active_bytes[i]);
    return sum;
}

uint64_t pinned_highest_bytes(const acre_pinned *pinned)
{
    uint64_t peak = (uint64_t)pinned->active_bytes[0].peak;

    return peak > pinned->highest_bytes ? peak : pinned->highest_bytes;
}

void pinned_update_plain_locked(acre_pinned *pinned)
{
    bool is_plain = !pinned_is_torch(pinned) && !pinned->history.is_on && !pinned->scope_count &&
                    pinned->conf.pinned_max_cached_bytes == UINT64_MAX;

    pinned->at_hand = is_plain ? pinned->shared.at_hand : host_arena_nothing;
    pinned->leaf_count = is_plain ? MAP_ROOT_COUNT : 0;
}

acre_status pinned_fork_refuse(acre_pinned *pinned)
{
    acre_status status = backend_check_fork(pinned->device->backend);

    if (status != ACRE_OK)
        return status;
    quick_lock_take(&pinned->lock);
    atomic_store(&pinned->generation, fork_generation());
    pinned_update_plain_locked(pinned);
    quick_lock_drop(&pinned->lock);
    return ACRE_OK;
}

/* ---- Options -------------------------------------------------------------------------- */

acre_status acre_pinned_conf_set(acre_pinned *pinned, const char *text)
{
    struct cache_conf conf;

    if (!pinned || !text)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_conf_set: an argument is NULL");
    REFUSE_FORKED_PINNED(pinned);
    char *copy = heap_strdup(text);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    quick_lock_take(&pinned->lock);
    acre_status status = cache_conf_read(&pinned->conf, "acre_pinned_conf_set", text, NULL);
    if (status == ACRE_OK) {
        char *old = pinned->conf_text;
        pinned->conf_text = copy;
        copy = old;
        pinned_update_plain_locked(pinned);
    }
    conf = pinned->conf;
    quick_lock_drop(&pinned->lock);
    heap_free(copy);
    if (status == ACRE_OK)
        warn_of_thresholds(&conf);
    return status;
}

int acre_pinned_conf_get(acre_pinned *pinned, char *buffer, size_t bytes)
{
    if (!pinned || (!buffer && bytes))
        return 0;
    quick_lock_take(&pinned->lock);
    int length = snprintf(buffer, bytes, "%s", pinned->conf_text);
    quick_lock_drop(&pinned->lock);
    return length;
}

/* ---- Giving back ---------------------------------------------------------------------- */

acre_status pinned_process(acre_pinned *pinned)
{
    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "pinned_process: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    quick_lock_take(&pinned->lock);
    acre_status first = settle_collect_locked(pinned, &pinned->shared, false);
    LIST_FOR_EACH(link, &pinned->pools) {
        struct host_pool *pool = CONTAINER_OF(link, struct host_pool, link);
        acre_status status = settle_collect_locked(pinned, pool, false);
        first = first == ACRE_OK ? status : first;
    }
    acre_status status = pinned_leave(pinned);
    return first == ACRE_OK ? status : first;
}

/* Dooms idle memory of a pool beyond keep; bytes, and an error of the device. */
static uint64_t give_back_locked(acre_pinned *pinned, struct host_pool *pool, uint64_t keep,
                                 acre_status *first)
{
    if (!pool->use_count)
        settle_captured_locked(pinned, pool); /* what was freed since its release */
    acre_status status = settle_collect_locked(pinned, pool, false);

    if (*first == ACRE_OK)
        *first = status;
    host_drain_locked(pinned, pool);
    return settle_release_locked(pinned, pool, keep);
}

acre_status acre_pinned_empty(acre_pinned *pinned)
{
    acre_status first = ACRE_OK;

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_empty: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    quick_lock_take(&pinned->lock);
    pinned_offer_locked(pinned);
    give_back_locked(pinned, &pinned->shared, 0, &first);
    LIST_FOR_EACH(link, &pinned->pools) {
        struct host_pool *pool = CONTAINER_OF(link, struct host_pool, link);
        if (!pool->use_count)
            give_back_locked(pinned, pool, 0, &first);
    }
    event_store_trim(&pinned->store);
    acre_status status = pinned_leave(pinned);
    quick_lock_take(&pinned->lock);
    host_sweep_locked(pinned);
    quick_lock_drop(&pinned->lock);
    return first == ACRE_OK ? status : first;
}

acre_status acre_pinned_trim(acre_pinned *pinned, uint64_t keep_bytes, uint64_t *out_bytes)
{
    acre_status first = ACRE_OK;

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_trim: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    quick_lock_take(&pinned->lock);
    pinned_offer_locked(pinned);
    uint64_t bytes = give_back_locked(pinned, &pinned->shared, keep_bytes, &first);
    acre_status status = pinned_leave(pinned);
    if (out_bytes)
        *out_bytes = bytes;
    return first == ACRE_OK ? status : first;
}

void acre_pinned_captured_release(acre_pinned *pinned)
{
    if (!pinned || pinned_check_fork(pinned) != ACRE_OK)
        return;
    quick_lock_take(&pinned->lock);
    settle_captured_locked(pinned, &pinned->shared);
    pinned_leave(pinned);
}
