/* SPDX-License-Identifier: MIT */
/* Allocating and freeing. The hot path is policy acre's: a size by arithmetic, the piece
 * freed last of that size, three levels, all under one uncontended lock. Host memory is
 * allocated by few threads, so what thread caches cost (idle memory in each, and stopping
 * them for exact statistics) is not worth it here. */
#include "backend/backend.h"
#include "backend/stream.h"
#include "base/log.h"
#include "base/status.h"
#include "pinned/record.h"

/* ---- Slow paths ----------------------------------------------------------------------- */

/* Accounts for a piece that is handed out. */
static inline __attribute__((always_inline)) void commit_locked(acre_pinned *pinned,
                                                                struct host_block *host_block,
                                                                size_t bytes, unsigned bucket)
{
    host_block->state = PIECE_LIVE;
    host_block->requested = bytes;
    level_up(&pinned->active_requests[bucket], 1);
    level_up(&pinned->active_bytes[bucket], host_block->bytes);
    level_up(&pinned->requested_bytes, bytes);
}

/* Size of the block for a request; 0: there is none so large. */
static size_t round_locked(const acre_pinned *pinned, size_t bytes)
{
    const struct cache_conf *conf = &pinned->conf;

    if (bytes > SIZE_MAX / 4)
        return 0;
    if (!pinned_is_torch(pinned))
        return host_arena_round(bytes);
    if (bytes > conf->pinned_max_round_threshold_bytes || bytes > conf->pinned_max_cached_bytes)
        return bytes;
    return (size_t)1 << bucket_of(bytes);
}

/* Whether the thread's current stream is being captured. */
static bool is_in_capture(acre_pinned *pinned)
{
    void *stream;

    return device_has(pinned->device, ACRE_CAP_CAPTURE) &&
           stream_current_native(pinned->device, &stream) == ACRE_OK &&
           stream_is_captured(pinned->device, stream);
}

/* PyTorch's warning, once per process. */
static void warn_of_private_pool(void)
{
    static atomic_flag is_told = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&is_told))
        log_line(ACRE_LOG_WARN, "a private pool of host memory serves while nothing is captured");
}

static __attribute__((noinline)) acre_status alloc_slow(acre_pinned *pinned, size_t bytes,
                                                        void **out)
{
    struct host_request request = {.bytes = bytes};

    if (!pinned || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_alloc: an argument is NULL");
    REFUSE_FORKED_PINNED(pinned);
    if (bytes == 0) {
        *out = NULL;
        return ACRE_OK;
    }
    host_gather(pinned, ACRE_CONTEXT_STATE);
    if (pinned_is_torch(pinned))
        request.is_from_capture = is_in_capture(pinned);
    quick_lock_take(&pinned->lock);
    request.pool = host_route_locked(pinned);
    request.rounded = round_locked(pinned, bytes);
    acre_status status = request.rounded ? host_acquire_locked(pinned, &request)
                                         : status_fail(ACRE_ERR_HOST_MEMORY,
                                                       "acre_pinned_alloc: "
                                                       "%zu bytes are more than there can be",
                                                       bytes);
    request.pool->busy_count--;
    if (status == ACRE_OK) {
        struct host_block *host_block = request.host_block;
        host_block->bucket = pinned_is_torch(pinned) ? (uint8_t)bucket_of(host_block->bytes) : 0;
        host_block->is_from_capture = request.is_from_capture;
        commit_locked(pinned, host_block, bytes, host_block->bucket);
        record_block_locked(pinned, host_block, ACRE_ACTION_ALLOC);
        *out = host_block->base;
    }
    bool is_private = request.pool != &pinned->shared;
    pinned_leave(pinned);
    if (is_private && pinned_is_torch(pinned) && !request.is_from_capture)
        warn_of_private_pool();
    return status;
}

static struct host_block *find_live_locked(const acre_pinned *pinned, const void *pointer)
{
    struct host_block *host_block = host_arena_find(&pinned->map, pointer);

    return host_block && host_block_is_live(host_block) ? host_block : NULL;
}

static acre_status refuse_pointer(const char *call, const void *pointer)
{
    return status_fail(ACRE_ERR_INVALID,
                       "%s: invalid host pointer %p: not the first byte of a "
                       "live allocation of this cache (freed already, interior, foreign)",
                       call, pointer);
}

static __attribute__((noinline)) acre_status free_slow(acre_pinned *pinned, void *pointer)
{
    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_free: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    if (!pointer)
        return ACRE_OK;
    host_gather(pinned, ACRE_CONTEXT_ALL);
    quick_lock_take(&pinned->lock);
    struct host_block *host_block = find_live_locked(pinned, pointer);
    acre_status status = host_block ? settle_free_locked(pinned, host_block) : ACRE_OK;
    bool is_caught = status != ACRE_OK && pinned->conf.pinned_catches_all;
    acre_status left = pinned_leave(pinned);
    if (!host_block)
        return refuse_pointer("acre_pinned_free", pointer);
    if (is_caught)
        log_line(ACRE_LOG_WARN, "free of host memory at %p: %s; it is kept", pointer,
                 acre_last_error());
    if (left != ACRE_OK)
        log_line(ACRE_LOG_WARN, "host memory could not be given back: %s", acre_last_error());
    return is_caught ? ACRE_OK : status;
}

acre_status pinned_free_surely(acre_pinned *pinned, void *pointer)
{
    acre_status status = acre_pinned_free(pinned, pointer);

    if (LIKELY(status == ACRE_OK) || pinned_check_fork(pinned) != ACRE_OK)
        return status;
    quick_lock_take(&pinned->lock);
    struct host_block *host_block = find_live_locked(pinned, pointer);
    if (host_block && host_block->uses) {
        settle_postpone_locked(pinned, host_block);
        status = ACRE_OK;
    }
    quick_lock_drop(&pinned->lock);
    return status;
}

/* The lock is held, and what is at hand does not do. */
static __attribute__((noinline)) acre_status alloc_miss(acre_pinned *pinned, size_t bytes,
                                                        void **out)
{
    quick_lock_drop(&pinned->lock);
    return alloc_slow(pinned, bytes, out);
}

static __attribute__((noinline)) acre_status free_miss(acre_pinned *pinned, void *pointer)
{
    quick_lock_drop(&pinned->lock);
    return free_slow(pinned, pointer);
}

/* The lock was dropped, and somebody waits for it. */
static __attribute__((noinline)) acre_status serve_wake(acre_pinned *pinned)
{
    quick_lock_wake(&pinned->lock);
    return ACRE_OK;
}

/* ---- The hot path --------------------------------------------------------------------- */

/* A piece was taken that makes for a new peak: what it takes was subtracted from the room of
 * the levels up to number done, which is below zero now. */
static __attribute__((noinline)) acre_status alloc_peak(acre_pinned *pinned,
                                                        struct host_block *host_block, void **out,
                                                        int done)
{
    pinned->active_requests[0].room += 1;
    if (done > 0)
        pinned->active_bytes[0].room += (int64_t)host_block->bytes;
    if (done > 1)
        pinned->requested_bytes.room += (int64_t)host_block->requested;
    commit_locked(pinned, host_block, host_block->requested, 0);
    *out = host_block->base;
    if (UNLIKELY(quick_lock_drop_quietly(&pinned->lock)))
        return serve_wake(pinned);
    return ACRE_OK;
}

acre_status acre_pinned_alloc(acre_pinned *pinned, size_t bytes, void **out)
{
    size_t rounded;

    if (UNLIKELY(!pinned || !out))
        return alloc_slow(pinned, bytes, out);
    size_t place = host_arena_place(bytes, &rounded);
    if (UNLIKELY(!quick_lock_try(&pinned->lock)))
        return alloc_slow(pinned, bytes, out);
    struct host_block **top = &pinned->at_hand[place], *host_block = *top;
    if (UNLIKELY(host_block->bytes != rounded))
        return alloc_miss(pinned, bytes, out);
    *top = host_block->below;
    host_block->requested = bytes;
    if (UNLIKELY((pinned->active_requests[0].room -= 1) < 0))
        return alloc_peak(pinned, host_block, out, 0);
    if (UNLIKELY((pinned->active_bytes[0].room -= (int64_t)rounded) < 0))
        return alloc_peak(pinned, host_block, out, 1);
    if (UNLIKELY((pinned->requested_bytes.room -= (int64_t)bytes) < 0))
        return alloc_peak(pinned, host_block, out, 2);
    pinned->active_requests[0].allocated += 1;
    pinned->active_bytes[0].allocated += (int64_t)rounded;
    pinned->requested_bytes.allocated += (int64_t)bytes;
    host_block->state = PIECE_LIVE;
    *out = host_block->base;
    if (UNLIKELY(quick_lock_drop_quietly(&pinned->lock)))
        return serve_wake(pinned);
    return ACRE_OK;
}

acre_status acre_pinned_free(acre_pinned *pinned, void *pointer)
{
    if (UNLIKELY(!pinned))
        return free_slow(pinned, pointer);
    if (UNLIKELY(!quick_lock_try(&pinned->lock)))
        return free_slow(pinned, pointer);
    struct host_block *host_block =
        (struct host_block *)(void *)map_find_below(&pinned->map, pointer, pinned->leaf_count);
    if (UNLIKELY(!host_block))
        return free_miss(pinned, pointer);
    if (host_block->state != PIECE_LIVE) {
        host_block = host_block->state == PIECE_BODY ? slab_slot(host_block->slab, pointer) : NULL;
        if (UNLIKELY(!host_block || host_block->state != PIECE_LIVE))
            return free_miss(pinned, pointer);
    }
    if (UNLIKELY(host_block->base != pointer))
        return free_miss(pinned, pointer);
    level_down(&pinned->active_requests[0], 1);
    level_down(&pinned->active_bytes[0], host_block->bytes);
    level_down(&pinned->requested_bytes, host_block->requested);
    host_arena_keep(host_block);
    if (UNLIKELY(quick_lock_drop_quietly(&pinned->lock)))
        return serve_wake(pinned);
    return ACRE_OK;
}

/* ---- Uses ----------------------------------------------------------------------------- */

acre_status acre_pinned_record_stream(acre_pinned *pinned, void *pointer, acre_device *device,
                                      void *stream)
{
    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_record_stream: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    device = device ? device : pinned->device;
    if (device->backend != pinned->device->backend)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_pinned_record_stream: the device is one of "
                           "backend \"%s\", this memory is of \"%s\"",
                           device->backend->name, pinned->device->backend->name);
    if (!pointer || !device_has(device, ACRE_CAP_STREAMS))
        return ACRE_OK;
    bool is_captured = stream_is_captured(device, stream);
    quick_lock_take(&pinned->lock);
    struct host_block *host_block = find_live_locked(pinned, pointer);
    acre_status status = host_block ? use_add(host_block, device, stream, is_captured) : ACRE_OK;
    quick_lock_drop(&pinned->lock);
    return host_block ? status : refuse_pointer("acre_pinned_record_stream", pointer);
}

acre_status acre_pinned_record_event(acre_pinned *pinned, void *pointer, void *context,
                                     acre_stream stream, bool *out_known)
{
    acre_device *device;
    void *native, *known = NULL;

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_record_event: a cache is needed");
    REFUSE_FORKED_PINNED(pinned);
    quick_lock_take(&pinned->lock);
    if (find_live_locked(pinned, context))
        known = context;
    else if (find_live_locked(pinned, pointer))
        known = pointer;
    quick_lock_drop(&pinned->lock);
    if (out_known)
        *out_known = known != NULL;
    if (!known)
        return ACRE_OK;
    acre_status status = stream_resolve(stream, &device, &native);
    if (status != ACRE_OK)
        return status;
    return acre_pinned_record_stream(pinned, known, device, native);
}

acre_status pinned_block_bytes(acre_pinned *pinned, void *pointer, uint64_t *out_bytes)
{
    if (!pinned || !out_bytes)
        return status_fail(ACRE_ERR_INVALID, "pinned_block_bytes: an argument is NULL");
    quick_lock_take(&pinned->lock);
    const struct host_block *host_block = find_live_locked(pinned, pointer);
    uint64_t bytes = host_block ? host_block->bytes : 0;
    quick_lock_drop(&pinned->lock);
    if (!host_block)
        return refuse_pointer("pinned_block_bytes", pointer);
    *out_bytes = bytes;
    return ACRE_OK;
}
