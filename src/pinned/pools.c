/* SPDX-License-Identifier: MIT */
/* Private pools: each has its own memory and at most one open scope. */
#include "backend/backend.h"
#include "backend/stream.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/pools/scope.h"
#include "pinned/pinned.h"

static struct host_pool *find_locked(const acre_pinned *pinned, acre_pool_id id)
{
    LIST_FOR_EACH(link, &pinned->pools) {
        struct host_pool *pool = CONTAINER_OF(link, struct host_pool, link);
        if (pool_id_equal(pool->id, id))
            return pool;
    }
    return NULL;
}

/* The open scope next in order: by number, growing for policy torch; NULL: the last. */
static struct host_pool *next_scope_locked(const acre_pinned *pinned, uint64_t after)
{
    bool is_growing = pinned_is_torch(pinned);
    struct host_pool *next = NULL;

    LIST_FOR_EACH(link, &pinned->pools) {
        struct host_pool *pool = CONTAINER_OF(link, struct host_pool, link);
        if (!pool->has_scope)
            continue;
        if (is_growing ? pool->number > after && (!next || pool->number < next->number)
                       : pool->number < after && (!next || pool->number > next->number))
            next = pool;
    }
    return next;
}

/* Whether the calling thread, whose current stream is given, passes a filter. A function
 * of the user is called without the lock; the pool stays, its scope may not. */
static bool passes_locked(acre_pinned *pinned, struct host_pool *pool, void *stream)
{
    acre_pool_filter filter = pool->filter;
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};
    struct acre_device *device = pinned->device;

    switch (filter.kind) {
    case ACRE_POOL_THIS_THREAD:
        return pool->thread == thread_number();
    case ACRE_POOL_STREAM:
        return filter.stream == stream;
    case ACRE_POOL_CALLBACK:
        pool->busy_count++;
        quick_lock_drop(&pinned->lock);
        bool passes = filter.fn(filter.arg, stream);
        quick_lock_take(&pinned->lock);
        pool->busy_count--;
        return passes && pool->has_scope;
    case ACRE_POOL_CAPTURE:
        return device_has(device, ACRE_CAP_CAPTURE) &&
               device->ops->capture_info(device->self, device->index, stream, &info) == ACRE_OK &&
               info.status == ACRE_CAPTURE_ACTIVE && info.id == filter.capture_id;
    case ACRE_POOL_ANY:
        break;
    }
    return true;
}

struct host_pool *host_route_locked(acre_pinned *pinned)
{
    struct host_pool *found = &pinned->shared;
    void *stream = NULL;

    if (pinned->scope_count) {
        quick_lock_drop(&pinned->lock);
        if (stream_current_native(pinned->device, &stream) != ACRE_OK)
            stream = NULL;
        quick_lock_take(&pinned->lock);
        uint64_t after = pinned_is_torch(pinned) ? 0 : UINT64_MAX;
        for (struct host_pool *pool; (pool = next_scope_locked(pinned, after));) {
            after = pool->number;
            if (passes_locked(pinned, pool, stream)) {
                found = pool;
                break;
            }
        }
    }
    found->busy_count++;
    return found;
}

void host_sweep_locked(acre_pinned *pinned)
{
    LIST_FOR_EACH_SAFE(link, after, &pinned->pools) {
        struct host_pool *pool = CONTAINER_OF(link, struct host_pool, link);
        if (pool->use_count || pool->busy_count || !list_empty(&pool->extents))
            continue;
        list_remove(&pool->link);
        heap_free(pool);
    }
}

/* ---- The calls ------------------------------------------------------------------------ */

static acre_status filter_check(const acre_pool_filter *filter)
{
    if (filter->kind > ACRE_POOL_CAPTURE || (filter->kind == ACRE_POOL_CALLBACK && !filter->fn))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_pinned_pool_begin: kind %d of the filter is "
                           "none, or its function is missing",
                           (int)filter->kind);
    return ACRE_OK;
}

static acre_status begin_locked(acre_pinned *pinned, acre_pool_id id,
                                const acre_pool_filter *filter)
{
    struct host_pool *pool = find_locked(pinned, id);

    if (pool && pool->has_scope)
        return status_fail(ACRE_ERR_EXISTS,
                           "already recording to mempool_id (%llu, %llu): end "
                           "that scope first",
                           (unsigned long long)id.graph, (unsigned long long)id.user);
    if (pool && !pool->use_count)
        return status_fail(ACRE_ERR_STATE,
                           "pool (%llu, %llu) was released and has not ended yet; "
                           "take a new id",
                           (unsigned long long)id.graph, (unsigned long long)id.user);
    if (!pool) {
        pool = heap_alloc(sizeof *pool);
        if (!pool)
            return ACRE_ERR_HOST_MEMORY;
        host_arena_init(pool, &pinned->map, pinned_is_torch(pinned));
        pool->id = id;
        list_push_back(&pinned->pools, &pool->link);
    }
    pool->use_count++;
    pool->has_scope = true;
    pool->filter = *filter;
    pool->thread = thread_number();
    pool->number = ++pinned->scope_number;
    pinned->scope_count++;
    pinned_update_plain_locked(pinned);
    return ACRE_OK;
}

acre_status acre_pinned_pool_begin(acre_pinned *pinned, acre_pool_id id,
                                   const acre_pool_filter *filter)
{
    const acre_pool_filter mine = {.kind = ACRE_POOL_THIS_THREAD};

    if (!pinned || !id.graph == !id.user)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_pool_begin: a cache and the id of a "
                                             "private pool are needed");
    REFUSE_FORKED_PINNED(pinned);
    filter = filter ? filter : &mine;
    acre_status status = filter_check(filter);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&pinned->lock);
    status = begin_locked(pinned, id, filter);
    quick_lock_drop(&pinned->lock);
    return status;
}

static acre_status pools_unknown(acre_pool_id id)
{
    return status_fail(ACRE_ERR_NOT_FOUND, "there is no pool (%llu, %llu) of host memory",
                       (unsigned long long)id.graph, (unsigned long long)id.user);
}

acre_status acre_pinned_pool_end(acre_pinned *pinned, acre_pool_id id)
{
    acre_status status = ACRE_OK;

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_pool_end: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    quick_lock_take(&pinned->lock);
    struct host_pool *pool = find_locked(pinned, id);
    if (!pool)
        status = pools_unknown(id);
    else if (!pool->has_scope)
        status = status_fail(ACRE_ERR_STATE, "not currently recording to mempool_id (%llu, %llu)",
                             (unsigned long long)id.graph, (unsigned long long)id.user);
    if (status == ACRE_OK) {
        pool->has_scope = false;
        pinned->scope_count--;
        pinned_update_plain_locked(pinned);
    }
    quick_lock_drop(&pinned->lock);
    return status;
}

acre_status acre_pinned_pool_release(acre_pinned *pinned, acre_pool_id id)
{
    acre_status status = ACRE_OK;

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_pool_release: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    quick_lock_take(&pinned->lock);
    struct host_pool *pool = find_locked(pinned, id);
    if (!pool)
        status = pools_unknown(id);
    else if (!pool->use_count || (pool->has_scope && pool->use_count == 1))
        status = status_fail(ACRE_ERR_STATE,
                             "pool (%llu, %llu) is released already, or only its "
                             "open scope uses it",
                             (unsigned long long)id.graph, (unsigned long long)id.user);
    else if (--pool->use_count == 0)
        settle_captured_locked(pinned, pool);
    pinned_leave(pinned);
    return status;
}

acre_status acre_pinned_pool_use_count(acre_pinned *pinned, acre_pool_id id, uint64_t *out_count)
{
    acre_status status = ACRE_OK;

    if (!pinned || !out_count)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_pool_use_count: an argument is NULL");
    quick_lock_take(&pinned->lock);
    const struct host_pool *pool = find_locked(pinned, id);
    if (pool)
        *out_count = pool->use_count;
    else
        status = pools_unknown(id);
    quick_lock_drop(&pinned->lock);
    return status;
}
