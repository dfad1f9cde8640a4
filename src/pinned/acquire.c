/* SPDX-License-Identifier: MIT */
/* Finding or obtaining memory for a request: what is free, else more from the system,
 * else, once pending uses were waited for and idle memory went back, the system again. */
#include "backend/backend.h"
#include "base/status.h"
#include "pinned/record.h"
#include "pinned/source.h"

#include <time.h>

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void time_add(acre_pinned_time *time, int64_t us)
{
    us = us > 0 ? us : 1; /* a minimum of 0 means that there was no call */
    time->total += us;
    time->count++;
    if (us > time->max)
        time->max = us;
    if (time->min == 0 || us < time->min)
        time->min = us;
}

/* Obtains memory; the lock is dropped meanwhile. */
static acre_status acquire_do_obtain(acre_pinned *pinned, size_t bytes,
                                     enum source_method *out_method, void **out)
{
    struct source_wish wish = {.method = pinned->conf.pinned_uses_register ? SOURCE_REGISTER
                                                                           : SOURCE_ALLOC,
                               .threads = pinned->conf.pinned_num_register_threads,
                               .node = numa_choose(&pinned->numa, pinned->conf.pinned_numa_node)};

    pinned_leave(pinned);
    int64_t begin = now_us();
    acre_status status = source_get(pinned->device, &wish, bytes, out);
    int64_t end = now_us();
    quick_lock_take(&pinned->lock);
    if (status != ACRE_OK)
        return status;
    time_add(&pinned->alloc_time, end - begin);
    *out_method = wish.method;
    return ACRE_OK;
}

/* The device did not take an extent back: it is offered again when the lock is left later. */
static void extent_stay_locked(acre_pinned *pinned, struct extent *extent)
{
    extent->pool = &pinned->shared; /* its own may end */
    extent->pause = extent->pause < PINNED_PAUSE_MAX ? 2 * extent->pause + 1 : PINNED_PAUSE_MAX;
    extent->pause_left = extent->pause;
    record_extent_locked(pinned, extent, ACRE_ACTION_SEGMENT_ALLOC);
    list_push_back(&pinned->doomed, &extent->link);
}

void pinned_offer_locked(acre_pinned *pinned)
{
    LIST_FOR_EACH(link, &pinned->doomed)
        CONTAINER_OF(link, struct extent, link)->pause_left = 0;
}

acre_status pinned_leave(acre_pinned *pinned)
{
    struct list doomed = LIST_INITIALIZER(doomed);
    acre_status first = ACRE_OK;

    LIST_FOR_EACH_SAFE(link, after, &pinned->doomed) {
        struct extent *extent = CONTAINER_OF(link, struct extent, link);
        if (extent->pause_left) {
            extent->pause_left--;
            continue;
        }
        list_remove(link);
        list_push_back(&doomed, link);
        level_down(&pinned->allocations, 1);
        level_down(&pinned->allocated_bytes, extent->bytes);
        record_extent_locked(pinned, extent, ACRE_ACTION_SEGMENT_FREE);
    }
    quick_lock_drop(&pinned->lock);
    while (!list_empty(&doomed)) {
        struct extent *extent = CONTAINER_OF(doomed.next, struct extent, link);
        int64_t begin = now_us();
        acre_status status =
            source_put(pinned->device, extent->method, extent->base, extent->bytes);
        int64_t us = now_us() - begin;
        if (first == ACRE_OK)
            first = status;
        list_remove(&extent->link);
        quick_lock_take(&pinned->lock);
        if (status != ACRE_OK) {
            level_undo_down(&pinned->allocations, 1);
            level_undo_down(&pinned->allocated_bytes, extent->bytes);
            extent_stay_locked(pinned, extent);
        } else if (extent->method != SOURCE_RESERVE)
            time_add(&pinned->free_time, us);
        quick_lock_drop(&pinned->lock);
        if (status == ACRE_OK)
            host_extent_destroy(extent);
    }
    return first;
}

/* ---- Finding -------------------------------------------------------------------------- */

static void collect_for(acre_pinned *pinned, struct host_pool *pool)
{
    struct status_saved before;
    bool is_polled = pool == &pinned->shared && poller_is_there(&pinned->poller) &&
                     pinned->conf.pinned_uses_background_threads;

    if (is_polled || (!pool->events.pending && list_empty(&pool->postponed)))
        return;
    status_save(&before); /* what cannot be told is asked again, and is nobody's failure */
    settle_collect_locked(pinned, pool, false);
    status_restore(&before);
}

static acre_status find_torch(acre_pinned *pinned, struct host_request *request, size_t *need)
{
    collect_for(pinned, request->pool);
    request->host_block = bucket_take(request->pool, request->rounded);
    *need = request->rounded;
    return request->host_block ? ACRE_OK : ACRE_ERR_NOT_FOUND;
}

/* What was not freed since is not at hand either, so several misses in a row look once. */
void host_drain_locked(acre_pinned *pinned, struct host_pool *pool)
{
    int64_t freed = level_freed(&pinned->active_requests[0]);

    if (pool->drained_at == freed)
        return;
    pool->drained_at = freed;
    host_arena_drain(pool);
}

static acre_status find_acre(acre_pinned *pinned, struct host_request *request, size_t *need)
{
    struct host_pool *pool = request->pool;
    struct host_block **top = &pool->at_hand[host_arena_stack(request->rounded)],
                      *host_block = *top;

    if (host_block->bytes == request->rounded) {
        *top = host_block->below;
        host_block->state = PIECE_LIVE;
        request->host_block = host_block;
        return ACRE_OK;
    }
    collect_for(pinned, pool);
    host_drain_locked(pinned, pool);
    return host_arena_take(pool, request->rounded, &request->host_block, need);
}

/* ---- Growing -------------------------------------------------------------------------- */

/* How large an extent to take for a piece that needs so much; idle ones are doomed as
 * far as the bound asks for it. */
static size_t extent_bytes(acre_pinned *pinned, const struct host_request *request, size_t need)
{
    struct host_pool *shared = &pinned->shared;
    uint64_t held = (uint64_t)level_current(&pinned->allocated_bytes);
    uint64_t active = (uint64_t)pinned_active_bytes(pinned) + need;
    uint64_t highest = pinned_highest_bytes(pinned), step = held / PINNED_STEP;

    if (pinned_is_torch(pinned) || need > pinned->conf.pinned_max_cached_bytes)
        return need;
    step = step < PINNED_STEP_MIN   ? PINNED_STEP_MIN
           : step > PINNED_STEP_MAX ? PINNED_STEP_MAX
                                    : step;
    step = round_down(step, HOST_ARENA_PAGE);
    uint64_t wanted = need < step ? step : need;
    uint64_t bound = highest > active ? highest : active;
    bound += bound / PINNED_SLACK;
    if (held + wanted > bound && request->pool == shared) {
        uint64_t idle = 0, excess = held + wanted - bound;
        LIST_FOR_EACH(link, &shared->idle)
            idle += CONTAINER_OF(link, struct extent, idle_link)->bytes;
        held -= settle_release_locked(pinned, shared, idle > excess ? idle - excess : 0);
    }
    if (held + wanted <= bound)
        return wanted;
    return need >= PINNED_STEP_MIN ? need : PINNED_STEP_MIN;
}

/* Obtains the reserve, once. Without one, memory is obtained as it is needed. */
static void reserve_open(acre_pinned *pinned)
{
    struct reserve *reserve = &pinned->reserve;
    size_t bytes = pinned->conf.pinned_reserve_segment_bytes;
    struct status_saved before;
    void *base;

    if (reserve->is_asked || !bytes)
        return;
    reserve->is_asked = true;
    status_save(&before);
    if (acquire_do_obtain(pinned, bytes, &reserve->method, &base) == ACRE_OK) {
        reserve->base = base;
        reserve->bytes = bytes;
    }
    status_restore(&before);
}

/* Cuts memory off the reserve: policy acre takes all of it at once. */
static bool reserve_take(acre_pinned *pinned, size_t *bytes, void **out)
{
    struct reserve *reserve = &pinned->reserve;
    size_t left = reserve->bytes - reserve->used, whole = round_up(*bytes, HOST_ARENA_PAGE);

    if (!whole || whole > left)
        return false;
    if (!pinned_is_torch(pinned))
        *bytes = whole = left;
    *out = reserve->base + reserve->used;
    reserve->used += whole;
    return true;
}

/* Gives back memory that was obtained, or cut off the reserve, in vain. The lock was held since.
 * What the device does not take back is offered again when the lock is next left. */
static void memory_return(acre_pinned *pinned, struct extent *extent, char *base, size_t bytes)
{
    struct status_saved why;

    if (extent->method == SOURCE_RESERVE)
        pinned->reserve.used = (size_t)(base - pinned->reserve.base);
    status_save(&why);
    if (source_put(pinned->device, extent->method, base, bytes) == ACRE_OK) {
        host_extent_destroy(extent);
    } else {
        extent->base = base;
        extent->bytes = bytes;
        level_up(&pinned->allocations, 1);
        level_up(&pinned->allocated_bytes, bytes);
        extent_stay_locked(pinned, extent);
    }
    status_restore(&why);
}

/* Memory is there: it becomes part of the pool, or goes back. */
static acre_status acquire_admit(acre_pinned *pinned, struct host_request *request,
                                 struct extent *extent, void *base, size_t bytes)
{
    acre_status status = (uintptr_t)base % HOST_ARENA_PAGE
                             ? status_fail(ACRE_ERR_DEVICE,
                                           "backend \"%s\" gave host memory at "
                                           "%p, which does not begin a page",
                                           pinned->device->backend->name, base)
                             : host_arena_add(request->pool, extent, base, bytes);

    if (status != ACRE_OK) {
        memory_return(pinned, extent, base, bytes);
        return status;
    }
    level_up(&pinned->allocations, 1);
    level_up(&pinned->allocated_bytes, bytes);
    pinned->bucket_allocation[bucket_of(bytes)]++;
    record_extent_locked(pinned, extent, ACRE_ACTION_SEGMENT_ALLOC);
    if (!pinned_is_torch(pinned)) {
        host_arena_open(extent);
        return ACRE_OK;
    }
    extent->first->state = PIECE_LIVE;
    bucket_put(extent->first);
    request->host_block = bucket_take(request->pool, bytes);
    return ACRE_OK;
}

/* Obtains an extent for a request; the lock is dropped meanwhile. */
static acre_status acquire_grow(acre_pinned *pinned, struct host_request *request, size_t need)
{
    struct extent *extent = host_extent_create();
    size_t bytes = extent_bytes(pinned, request, need);
    acre_status status = ACRE_OK;
    void *base;

    if (!extent)
        return ACRE_ERR_HOST_MEMORY;
    if (pinned->conf.pinned_uses_background_threads)
        poller_start(&pinned->poller);
    request->pool->busy_count++;
    reserve_open(pinned);
    size_t part = need;
    if (reserve_take(pinned, &part, &base)) {
        extent->method = SOURCE_RESERVE;
        bytes = part;
    } else {
        status = acquire_do_obtain(pinned, bytes, &extent->method, &base);
    }
    request->pool->busy_count--;
    if (status == ACRE_OK)
        return acquire_admit(pinned, request, extent, base, bytes);
    host_extent_destroy(extent);
    return status;
}

/* ---- The ladder ----------------------------------------------------------------------- */

static bool is_shortage(acre_status status)
{
    return status == ACRE_ERR_HOST_MEMORY || status == ACRE_ERR_DEVICE_MEMORY ||
           status == ACRE_ERR_LIMIT;
}

/* Waits for pending uses and dooms all idle memory. */
static void acquire_press(acre_pinned *pinned)
{
    pinned_offer_locked(pinned);
    settle_collect_locked(pinned, &pinned->shared, true);
    host_drain_locked(pinned, &pinned->shared);
    settle_release_locked(pinned, &pinned->shared, 0);
    LIST_FOR_EACH(link, &pinned->pools) {
        struct host_pool *pool = CONTAINER_OF(link, struct host_pool, link);
        if (pool->use_count)
            continue;
        settle_captured_locked(pinned, pool);
        settle_collect_locked(pinned, pool, true);
        host_drain_locked(pinned, pool);
        settle_release_locked(pinned, pool, 0);
    }
}

/* Says what was asked for, why there is none, and what is held. */
static acre_status acquire_refuse(acre_pinned *pinned, const struct host_request *request,
                                  acre_status status)
{
    struct status_saved why;

    status_save(&why);
    host_record_oom(pinned, request);
    return status_fail(
        status == ACRE_ERR_HOST_MEMORY || !is_shortage(status) ? status : ACRE_ERR_HOST_MEMORY,
        "no page-locked memory for %zu bytes (a block of %zu): %.300s. Held are %lld bytes, of "
        "these %lld in use, %llu waiting for streams and %llu kept by captures; free some, raise "
        "the limit on locked memory (ulimit -l), or set pinned_max_cached_size_mb",
        request->bytes, request->rounded, why.text,
        (long long)level_current(&pinned->allocated_bytes), (long long)pinned_active_bytes(pinned),
        (unsigned long long)pinned->waiting_bytes, (unsigned long long)pinned->captured_bytes);
}

acre_status host_acquire_locked(acre_pinned *pinned, struct host_request *request)
{
    bool is_torch = pinned_is_torch(pinned), has_pressed = false;
    struct status_saved why;
    size_t need = 0;

    for (;;) {
        acre_status status =
            is_torch ? find_torch(pinned, request, &need) : find_acre(pinned, request, &need);
        if (status == ACRE_ERR_NOT_FOUND)
            status = acquire_grow(pinned, request, need);
        if (status == ACRE_OK && request->host_block)
            return ACRE_OK;
        if (status == ACRE_OK)
            continue;
        if (has_pressed || !is_shortage(status))
            return acquire_refuse(pinned, request, status);
        has_pressed = true;
        status_save(&why);
        acquire_press(pinned);
        status_restore(&why);
    }
}
