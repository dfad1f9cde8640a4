/* SPDX-License-Identifier: MIT */
/* A pinned cache as an allocator. Data pointers are simple; the deleter of the adapter
 * leads to the cache (alloc/deleter.h). */
#include "alloc/allocator.h"
#include "alloc/deleter.h"
#include "backend/backend.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "pinned/pinned.h"

struct host_adapter {
    struct deleter_owner owner; /* first: see deleter_of_self */
    acre_pinned *pinned;
    bool is_owner; /* the cache ends with it */
};

/* Deleters cannot report. */
static void adapter_free(struct deleter_owner *owner, void *pointer)
{
    const struct host_adapter *adapter = CONTAINER_OF(owner, struct host_adapter, owner);

    if (UNLIKELY(pinned_free_surely(adapter->pinned, pointer) != ACRE_OK))
        log_line(ACRE_LOG_ERROR, "free of %p failed: %s", pointer, acre_last_error());
}

static acre_status adapter_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    const struct host_adapter *adapter = self;
    void *pointer;
    acre_status status = backend_check_fork(adapter->pinned->device->backend);

    if (LIKELY(status == ACRE_OK))
        status = acre_pinned_alloc(adapter->pinned, bytes, &pointer);
    if (LIKELY(status == ACRE_OK))
        acre_data_ptr_make(out, pointer, pointer, adapter->owner.deleter,
                           (acre_device_id){ACRE_DEVICE_CPU, -1});
    return status;
}

static acre_status adapter_empty_cache(void *self)
{
    return acre_pinned_empty(((const struct host_adapter *)self)->pinned);
}

static acre_status adapter_record_stream(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    const struct host_adapter *adapter = self;

    if (!ptr->data || ptr->deleter != adapter->owner.deleter)
        return ACRE_OK;
    return acre_pinned_record_event(adapter->pinned, ptr->data, ptr->context, stream, NULL);
}

/* Host memory is that of no device: each of them gives the same figures. */
static acre_status check_index(const struct host_adapter *adapter, int device)
{
    int count = adapter->pinned->device->backend->device_count;

    if (device >= 0 && device < count)
        return ACRE_OK;
    return status_fail(ACRE_ERR_RANGE, "Invalid device argument %d: valid are 0 to %d", device,
                       count - 1);
}

static acre_status adapter_stats_get(void *self, int device, acre_allocator_stats *stats)
{
    acre_pinned_stats all = {.struct_size = sizeof all};
    acre_status status = check_index(self, device);

    if (status == ACRE_OK)
        status = acre_pinned_stats_get(((const struct host_adapter *)self)->pinned, &all);
    if (status != ACRE_OK)
        return status;
    stats->allocated_bytes = all.active_bytes;
    stats->reserved_bytes = all.allocated_bytes;
    stats->num_device_alloc = all.num_host_alloc;
    stats->num_device_free = all.num_host_free;
    return ACRE_OK;
}

static acre_status adapter_reset_accumulated(void *self, int device)
{
    acre_status status = check_index(self, device);

    if (status == ACRE_OK)
        acre_pinned_stats_reset_accumulated(((const struct host_adapter *)self)->pinned);
    return status;
}

static acre_status adapter_reset_peak(void *self, int device)
{
    acre_status status = check_index(self, device);

    if (status == ACRE_OK)
        acre_pinned_stats_reset_peak(((const struct host_adapter *)self)->pinned);
    return status;
}

static void adapter_destroy(void *self)
{
    struct host_adapter *adapter = self;

    deleter_unbind(adapter->owner.deleter);
    if (adapter->is_owner)
        acre_pinned_destroy(adapter->pinned);
    heap_free(adapter);
}

static const acre_allocator_ops adapter_ops = {
    .struct_size = sizeof adapter_ops,
    .version = ACRE_ALLOCATOR_VERSION,
    .allocate = adapter_allocate,
    .copy_data = acre_copy_memory,
    .raw_deleter = deleter_of_self,
    .is_initialized = allocator_is_always_ready,
    .empty_cache = adapter_empty_cache,
    .record_stream = adapter_record_stream,
    .stats_get = adapter_stats_get,
    .stats_reset_accumulated = adapter_reset_accumulated,
    .stats_reset_peak = adapter_reset_peak,
};

acre_status acre_pinned_allocator(acre_pinned *pinned, acre_allocator **out)
{
    if (!pinned || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_allocator: an argument is NULL");
    struct host_adapter *adapter = heap_zalloc(sizeof *adapter);
    if (!adapter)
        return ACRE_ERR_HOST_MEMORY;
    adapter->pinned = pinned;
    adapter->owner.free = adapter_free;
    return deleter_allocator_create(&adapter->owner, "pinned", &adapter_ops, adapter_destroy, out);
}

acre_status acre_pinned_allocator_create(acre_device_type type, const acre_pinned_config *config,
                                         acre_allocator **out)
{
    acre_device *device;
    acre_pinned *pinned;
    acre_status status = acre_device_get(type, 0, &device);

    if (status == ACRE_OK)
        status = acre_pinned_create(device, config, &pinned);
    if (status != ACRE_OK)
        return status;
    status = acre_pinned_allocator(pinned, out);
    if (status != ACRE_OK)
        acre_pinned_destroy(pinned);
    else
        ((struct host_adapter *)(*out)->self)->is_owner = true;
    return status;
}

acre_pinned *pinned_of_allocator(const acre_allocator *allocator)
{
    if (!allocator || allocator->ops.allocate != adapter_allocate)
        return NULL;
    return ((const struct host_adapter *)allocator->self)->pinned;
}
