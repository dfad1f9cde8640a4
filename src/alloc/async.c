/* SPDX-License-Identifier: MIT */
/* Allocators of stream-ordered memory: a lane for each device. */
#include "alloc/async.h"

#include "alloc/allocator.h"
#include "alloc/async_lane.h"
#include "alloc/deleter.h"
#include "backend/backend.h"
#include "backend/device.h"
#include "backend/stream.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"

struct async {
    struct deleter_owner owner; /* first: see deleter_of_self */
    acre_device_type type;
    _Atomic(acre_allocator *) *place; /* see async_set_place, or NULL */
    acre_allocator *allocator;
    int lane_count;
    struct async_lane lanes[];
};

/* ---- Allocating and freeing ---------------------------------------------------------------- */

static acre_status async_free(struct async *async, void *pointer)
{
    acre_status status;

    for (int i = 0; i < async->lane_count; i++)
        if (async_lane_free(&async->lanes[i], pointer, &status))
            return status;
    return status_fail(ACRE_ERR_INVALID, "%p was not allocated here, or is freed already", pointer);
}

static void async_delete(struct deleter_owner *owner, void *pointer)
{
    struct status_saved saved;

    status_save(&saved);
    if (async_free(CONTAINER_OF(owner, struct async, owner), pointer) != ACRE_OK)
        log_line(ACRE_LOG_WARN, "free of %p failed: %s", pointer, acre_last_error());
    status_restore(&saved);
}

static acre_status lane_of(struct async *async, int device, struct async_lane **out)
{
    if (device < 0 || device >= async->lane_count)
        return status_fail(ACRE_ERR_RANGE, "there is no device %d; this allocator serves 0 to %d",
                           device, async->lane_count - 1);
    *out = &async->lanes[device];
    return backend_check_fork((*out)->device->backend);
}

static acre_status async_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    struct async *async = self;
    struct async_lane *lane = NULL;
    void *stream = NULL, *base = NULL;
    int device = 0;
    acre_status status = acre_device_current(async->type, &device);

    if (status == ACRE_OK)
        status = lane_of(async, device, &lane);
    if (status == ACRE_OK && bytes)
        status = stream_current_native(lane->device, &stream);
    if (status == ACRE_OK && bytes)
        status = async_lane_alloc(lane, bytes, stream, &base);
    if (status == ACRE_OK)
        acre_data_ptr_make(out, base, base, async->owner.deleter, acre_device_id_of(lane->device));
    return status;
}

/* ---- The table of an allocator ------------------------------------------------------------ */

static acre_status async_copy_data(void *self, void *dst, const void *src, size_t bytes)
{
    return allocator_copy(((const struct async *)self)->type, dst, src, bytes);
}

static acre_status async_empty_cache(void *self)
{
    struct async *async = self;
    acre_status first = ACRE_OK;

    for (int i = 0; i < async->lane_count; i++) {
        struct async_lane *lane = &async->lanes[i];
        acre_status status;

        async_lane_tidy(lane);
        status = lane->device->ops->async_trim(LANE, 0);
        if (first == ACRE_OK)
            first = status;
    }
    return first;
}

/* Errors: ACRE_ERR_HOST_MEMORY; out_known tells whether it is ours. */
static acre_status record_anywhere(struct async *async, void *pointer, void *stream,
                                   bool *out_known)
{
    acre_status status = ACRE_OK;

    *out_known = false;
    for (int i = 0; i < async->lane_count && !*out_known; i++)
        status = async_lane_record(&async->lanes[i], pointer, stream, out_known);
    return status;
}

static acre_status async_record_stream(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    struct async *async = self;
    bool is_known;
    void *native;
    acre_status status;

    if (!ptr->data || ptr->deleter != async->owner.deleter)
        return ACRE_OK;
    status = acre_stream_native(stream, &native);
    return status == ACRE_OK ? record_anywhere(async, ptr->data, native, &is_known) : status;
}

static acre_status async_stats_get(void *self, int device, acre_allocator_stats *stats)
{
    acre_async_usage usage = {.struct_size = sizeof usage};
    struct async_lane *lane = NULL;
    acre_status status = lane_of(self, device, &lane);

    if (status == ACRE_OK)
        status = lane->device->ops->async_usage(LANE, &usage);
    if (status != ACRE_OK)
        return status;
    lock_take(&lane->lock);
    *stats = (acre_allocator_stats){
        .struct_size = sizeof *stats,
        .allocated_bytes = lane->allocated,
        .reserved_bytes = {.current = (int64_t)usage.reserved,
                           .peak = (int64_t)usage.reserved_peak},
        .num_device_alloc = lane->alloc_count,
        .num_device_free = lane->free_count,
    };
    lock_drop(&lane->lock);
    return ACRE_OK;
}

static acre_status async_reset_accumulated(void *self, int device)
{
    struct async_lane *lane = NULL;
    acre_status status = lane_of(self, device, &lane);

    if (status != ACRE_OK)
        return status;
    lock_take(&lane->lock);
    lane->allocated.allocated = lane->allocated.freed = 0;
    lane->alloc_count = lane->free_count = 0;
    lock_drop(&lane->lock);
    return ACRE_OK;
}

static acre_status async_reset_peak(void *self, int device)
{
    struct async_lane *lane = NULL;
    acre_status status = lane_of(self, device, &lane);

    if (status != ACRE_OK)
        return status;
    lock_take(&lane->lock);
    lane->allocated.peak = lane->allocated.current;
    lock_drop(&lane->lock);
    return lane->device->ops->async_reset_peak(LANE);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void async_destroy(void *self)
{
    struct async *async = self;
    acre_allocator *mine = async->allocator;

    if (async->place)
        atomic_compare_exchange_strong(async->place, &mine, NULL);
    deleter_unbind(async->owner.deleter);
    for (int i = 0; i < async->lane_count; i++)
        async_lane_fini(&async->lanes[i]);
    heap_free(async);
}

static const acre_allocator_ops async_ops = {
    .struct_size = sizeof async_ops,
    .version = ACRE_ALLOCATOR_VERSION,
    .allocate = async_allocate,
    .copy_data = async_copy_data,
    .raw_deleter = deleter_of_self,
    .is_initialized = allocator_is_always_ready,
    .empty_cache = async_empty_cache,
    .record_stream = async_record_stream,
    .stats_get = async_stats_get,
    .stats_reset_accumulated = async_reset_accumulated,
    .stats_reset_peak = async_reset_peak,
};

void async_set_place(acre_allocator *allocator, _Atomic(acre_allocator *) *place)
{
    struct async *async = allocator->self;

    async->allocator = allocator;
    async->place = place;
}

/* Finds the devices; each must have the group. */
static acre_status lanes_find(struct async *async)
{
    acre_status status = ACRE_OK;

    for (int i = 0; i < async->lane_count && status == ACRE_OK; i++) {
        struct async_lane *lane = &async->lanes[i];

        status = acre_device_get(async->type, i, &lane->device);
        if (status == ACRE_OK)
            status = device_check(lane->device, ACRE_CAP_ASYNC, "acre_async_allocator_create");
    }
    return status;
}

acre_status acre_async_allocator_create(acre_device_type type, acre_allocator **out)
{
    acre_allocator_desc desc = {
        .struct_size = sizeof desc, .name = "async", .ops = &async_ops, .destroy = async_destroy};
    acre_device *first;
    struct async *async = NULL;
    acre_status status;
    int count;

    NEED(out);
    status = acre_device_get(type, 0, &first);
    if (status != ACRE_OK)
        return status;
    count = acre_device_count(type);
    async = heap_zalloc(sizeof *async + (size_t)count * sizeof async->lanes[0]);
    if (!async)
        return ACRE_ERR_HOST_MEMORY;
    async->owner.free = async_delete;
    async->type = type;
    async->lane_count = count;
    status = lanes_find(async);
    if (status == ACRE_OK)
        status = deleter_bind(&async->owner);
    if (status != ACRE_OK)
        goto free_async;
    for (int i = 0; i < count; i++)
        async_lane_init(&async->lanes[i]);
    desc.self = async;
    status = acre_allocator_create(&desc, out);
    if (status == ACRE_OK)
        return status;
    deleter_unbind(async->owner.deleter);
free_async:
    heap_free(async);
    return status;
}

/* ---- Calls beyond those of every allocator -------------------------------------------------- */

static acre_status async_of(const char *call, const acre_allocator *allocator, struct async **out)
{
    if (!allocator || allocator->ops.allocate != async_allocate)
        return status_fail(ACRE_ERR_INVALID, "%s: not an allocator of stream-ordered memory", call);
    *out = allocator->self;
    return ACRE_OK;
}

acre_status acre_async_alloc(acre_allocator *allocator, size_t bytes, int device, void *stream,
                             void **out)
{
    struct async *async = NULL;
    struct async_lane *lane = NULL;
    acre_status status = async_of(__func__, allocator, &async);

    if (status == ACRE_OK && (!out || bytes == 0))
        status =
            status_fail(ACRE_ERR_INVALID, "acre_async_alloc: %s", out ? "0 bytes" : "out is NULL");
    if (status == ACRE_OK)
        status = lane_of(async, device, &lane);
    return status == ACRE_OK ? async_lane_alloc(lane, bytes, stream, out) : status;
}

acre_status acre_async_free(acre_allocator *allocator, void *pointer)
{
    struct async *async = NULL;
    acre_status status = async_of(__func__, allocator, &async);

    if (status != ACRE_OK || !pointer)
        return status;
    return async_free(async, pointer);
}

acre_status acre_async_record_stream(acre_allocator *allocator, void *pointer, void *stream)
{
    struct async *async = NULL;
    bool is_known = false;
    acre_status status = async_of(__func__, allocator, &async);

    if (status == ACRE_OK)
        status = record_anywhere(async, pointer, stream, &is_known);
    if (status == ACRE_OK && !is_known)
        status = status_fail(ACRE_ERR_INVALID,
                             "acre_async_record_stream: %p was not allocated "
                             "here",
                             pointer);
    return status;
}

acre_status acre_async_memory_fraction_set(acre_allocator *allocator, int device, double fraction)
{
    struct async *async = NULL;
    struct async_lane *lane = NULL;
    acre_status status = async_of(__func__, allocator, &async);

    if (status == ACRE_OK)
        status = lane_of(async, device, &lane);
    if (status == ACRE_OK && !(fraction > 0 && fraction <= 1))
        status = status_fail(ACRE_ERR_INVALID,
                             "acre_async_memory_fraction_set: %g is not above "
                             "0 and at most 1",
                             fraction);
    if (status != ACRE_OK)
        return status;
    lock_take(&lane->lock);
    lane->limit = (uint64_t)(fraction * (double)lane->device->info.total_bytes);
    lock_drop(&lane->lock);
    return ACRE_OK;
}

acre_status acre_async_info(acre_allocator *allocator, int device, uint64_t *largest)
{
    struct async *async = NULL;
    struct async_lane *lane = NULL;
    uint64_t guess, total;
    void *trial;
    acre_status status = async_of(__func__, allocator, &async);

    if (status == ACRE_OK)
        status = lane_of(async, device, &lane);
    NEED(largest);
    guess = *largest;
    if (status == ACRE_OK && guess == 0)
        status = lane->device->ops->memory_info(LANE, &guess, &total);
    if (status != ACRE_OK)
        return status;
    for (; guess > 0; guess /= 2)
        if (async_lane_alloc(lane, guess, NULL, &trial) == ACRE_OK) {
            async_free(async, trial);
            break;
        }
    *largest = guess;
    return ACRE_OK;
}
