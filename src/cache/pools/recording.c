/* SPDX-License-Identifier: MIT */
/* A graph and the memory it works on.
 *
 *        begin                end
 *   ──────────► CAPTURING ──────────► READY ──┐
 *                   │     end, failed         ├──► destroyed
 *                   └──────────────► BROKEN ──┘
 *
 * While CAPTURING it has a mark, an open scope and two uses of its pool: that of
 * the scope and its own. READY it keeps its own; BROKEN it has neither. */
#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/fork.h"
#include "cache/pools/capture.h"
#include "cache/pools/pools.h"
#include "cache/pools/sleep.h"

enum recording_state { CAPTURING, READY, BROKEN };

struct acre_recording {
    acre_cache *cache;
    struct private_pool *pool; /* used, unless BROKEN                          */
    acre_pool_id id;           /* of the pool                                  */
    void *stream;              /* that began the capture                       */
    uint64_t scope;            /* number of its scope, if that is still open   */
    void *graph;               /* READY only                                   */
    enum recording_state state;
};

/* Ends a capture and gives its graph up. A refusal is met with a second try: nobody else would
 * end it. */
static void recording_discard(acre_cache *cache, void *stream)
{
    struct acre_device *device = cache->device;
    const acre_backend_ops *ops = device->ops;
    void *graph;

    if (ops->capture_end(device->self, device->index, stream, &graph) != ACRE_OK &&
        ops->capture_end(device->self, device->index, stream, &graph) != ACRE_OK)
        return;
    if (ops->graph_destroy(device->self, device->index, graph) != ACRE_OK)
        ops->graph_destroy(device->self, device->index, graph);
}

/* Starts the capture and routes what takes part in it to the pool. */
static acre_status start_locked(acre_cache *cache, void *stream, struct private_pool *pool)
{
    struct acre_device *device = cache->device;
    acre_pool_filter filter = {.kind = ACRE_POOL_CAPTURE};
    struct status_saved failure;
    acre_status status = device->ops->capture_begin(device->self, device->index, stream);

    if (status != ACRE_OK)
        return status;
    status = mark_begin_locked(cache, stream, &filter.capture_id);
    if (status != ACRE_OK)
        goto discard;
    status = scope_open_locked(cache, pool, &filter);
    if (status != ACRE_OK)
        goto end_mark;
    pool->is_baked = true;
    return ACRE_OK;

end_mark:
    mark_end_locked(cache, stream);
discard:
    status_save(&failure);
    recording_discard(cache, stream);
    status_restore(&failure);
    return status;
}

static acre_status begin_locked(acre_recording *recording)
{
    acre_cache *cache = recording->cache;
    struct private_pool *pool;
    acre_status status = pools_use_locked(cache, recording->id, NULL, &pool);

    if (status != ACRE_OK)
        return status;
    if (pool->has_scope)
        status = status_fail(ACRE_ERR_STATE,
                             "already recording to mempool_id (%llu, %llu): end "
                             "that scope first",
                             (unsigned long long)recording->id.graph,
                             (unsigned long long)recording->id.user);
    else
        status = start_locked(cache, recording->stream, pool);
    if (status != ACRE_OK) {
        pools_unuse_locked(cache, pool);
        return status;
    }
    pool->use_count++; /* besides that of the scope */
    pool->kept_count++;
    recording->pool = pool;
    recording->scope = scope_find(&cache->scopes, pool)->number;
    return ACRE_OK;
}

acre_status acre_recording_begin(acre_cache *cache, void *stream, const acre_pool_id *pool,
                                 acre_recording **out)
{
    if (!cache || !out || (pool && !pool->graph == !pool->user))
        return status_fail(ACRE_ERR_INVALID, "acre_recording_begin: cache and out are needed, and "
                                             "pool, when given, is the id of a private pool");
    if (!device_has(cache->device, ACRE_CAP_CAPTURE))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "acre_recording_begin: device %d (%s) has no "
                           "captures",
                           cache->device->index, cache->device->info.name);
    REFUSE_FORKED(cache);
    acre_recording *recording = heap_zalloc(sizeof *recording);
    if (!recording)
        return ACRE_ERR_HOST_MEMORY;
    recording->cache = cache;
    recording->stream = stream;
    recording->id = pool ? *pool : acre_pool_id_next_graph();
    quick_lock_take(&cache->lock);
    acre_status status = begin_locked(recording);
    quick_lock_drop(&cache->lock);
    if (status == ACRE_OK)
        *out = recording;
    else
        heap_free(recording);
    return status;
}

/* Ends mark and scope, whatever became of the capture. */
static void stop_locked(acre_recording *recording)
{
    acre_cache *cache = recording->cache;
    struct private_pool *pool = recording->pool;
    struct status_saved before;

    status_save(&before);
    if (mark_end_locked(cache, recording->stream) != ACRE_OK)
        status_restore(&before); /* the user did so */
    const struct scope *scope = scope_find(&cache->scopes, pool);
    if (!scope || scope->number != recording->scope)
        return; /* here too */
    scope_close_locked(cache, pool);
}

static void unuse_locked(struct private_pool *pool)
{
    CHECK(pool->use_count > 0 && pool->kept_count > 0);
    pool->use_count--;
    pool->kept_count--;
}

acre_status acre_recording_end(acre_recording *recording)
{
    if (!recording || recording->state != CAPTURING)
        return status_fail(ACRE_ERR_STATE, "acre_recording_end: the recording does not capture");
    acre_cache *cache = recording->cache;
    struct acre_device *device = cache->device;
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    acre_status status =
        device->ops->capture_end(device->self, device->index, recording->stream, &recording->graph);
    stop_locked(recording);
    recording->state = status == ACRE_OK ? READY : BROKEN;
    if (status != ACRE_OK) {
        struct status_saved failure;

        status_save(&failure);
        recording_discard(cache, recording->stream); /* when it was not ended at all */
        status_restore(&failure);
        unuse_locked(recording->pool);
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status;
}

/* A graph whose pool sleeps would work on addresses without memory, so the pool stays awake until
 * the graph is queued; from then on going to sleep waits for it. */
static acre_status launch_begin_locked(struct private_pool *pool)
{
    if (pool->sleep)
        return sleep_refuse(pool, "acre_recording_launch");
    pool->busy_count++;
    return ACRE_OK;
}

acre_status acre_recording_launch(acre_recording *recording, void *stream)
{
    if (!recording || recording->state != READY)
        return status_fail(ACRE_ERR_STATE, "acre_recording_launch: there is no graph yet, or the "
                                           "capture failed");
    acre_cache *cache = recording->cache;
    struct acre_device *device = cache->device;
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    acre_status status = launch_begin_locked(recording->pool);
    quick_lock_drop(&cache->lock);
    if (status != ACRE_OK)
        return status;
    status = device->ops->graph_launch(device->self, device->index, recording->graph, stream);
    quick_lock_take(&cache->lock);
    recording->pool->busy_count--;
    quick_lock_drop(&cache->lock);
    return status;
}

acre_pool_id acre_recording_pool(const acre_recording *recording)
{
    return recording ? recording->id : (acre_pool_id){0};
}

void acre_recording_destroy(acre_recording *recording)
{
    struct status_saved before;

    if (!recording)
        return;
    status_save(&before);
    if (recording->state == CAPTURING)
        acre_recording_end(recording);
    if (recording->state == READY) {
        acre_cache *cache = recording->cache;
        struct acre_device *device = cache->device;
        if (device->ops->graph_destroy(device->self, device->index, recording->graph) != ACRE_OK)
            log_line(ACRE_LOG_ERROR, "a graph could not be dropped: %s", acre_last_error());
        quick_lock_take(&cache->lock);
        unuse_locked(recording->pool);
        quick_lock_drop(&cache->lock);
    }
    heap_free(recording);
    status_restore(&before);
}
