/* SPDX-License-Identifier: MIT */
/* Caches as allocators.
 *
 * Data pointers are simple (data == context), so a deleter has nothing but the
 * address. Each allocator has a deleter of its own (alloc/deleter.h), which leads to
 * the adapter; the address maps of its caches tell which of them holds the
 * block. Caches and their order never change while the adapter lives, and maps
 * are read without a lock, so neither allocating nor freeing takes one here.
 *
 * An entry in a map means that the cache holds that memory from its device, and
 * no other cache of this device or of another one of the backend can. What the
 * entry leads to is left to acre_cache_free, which refuses dead pointers. */
#include "cache/allocator/adapter.h"

#include "alloc/allocator.h"
#include "alloc/deleter.h"
#include "backend/backend.h"
#include "backend/stream.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/cache.h"

struct adapter {
    struct deleter_owner owner;       /* first: see deleter_of_self */
    acre_device_id first;             /* type of the devices; index of caches[0]         */
    bool is_single;                   /* one cache, not owned; else one per device       */
    acre_allocator *allocator;        /* of this adapter; with place only */
    _Atomic(acre_allocator *) *place; /* see adapter_set_place, or NULL   */
    int cache_count;
    acre_cache *caches[]; /* by device index less first.index                */
};

/* The cache of a device, or NULL. */
static acre_cache *cache_of(const struct adapter *adapter, int device)
{
    int index = device - adapter->first.index;

    return index >= 0 && index < adapter->cache_count ? adapter->caches[index] : NULL;
}

/* The cache that would know a block at an address, or NULL. */
static inline acre_cache *cache_of_pointer(const struct adapter *adapter, const void *pointer)
{
    if (adapter->cache_count == 1)
        return adapter->caches[0];
    for (int i = 0; i < adapter->cache_count; i++)
        if (map_find(&adapter->caches[i]->map, pointer))
            return adapter->caches[i];
    return NULL;
}

/* Deleters cannot report. The last error, which may be why the caller clears up, is
 * not put aside: that would cost more than the free, and only a refusal changes it. */
static void adapter_free(struct deleter_owner *owner, void *pointer)
{
    const struct adapter *adapter = CONTAINER_OF(owner, struct adapter, owner);
    acre_cache *cache = cache_of_pointer(adapter, pointer);
    acre_status status;

    if (UNLIKELY(!cache))
        log_line(ACRE_LOG_ERROR,
                 "free of %p failed: invalid device pointer, no cache of this "
                 "allocator gave it",
                 pointer);
    else if (UNLIKELY((status = acre_cache_free(cache, pointer)) != ACRE_OK) &&
             late_free(cache, pointer, status) != ACRE_OK)
        log_line(ACRE_LOG_ERROR, "free of %p failed: %s", pointer, acre_last_error());
}

/* The cache that serves the calling thread now. */
static acre_status current_cache(const struct adapter *adapter, acre_cache **out)
{
    acre_device *device;

    if (adapter->is_single) {
        *out = adapter->caches[0];
        return backend_check_fork((*out)->device->backend);
    }
    acre_status status = acre_device_get(adapter->first.type, -1, &device);
    if (UNLIKELY(status != ACRE_OK))
        return status;
    acre_cache *cache = cache_of(adapter, device->index);
    if (UNLIKELY(!cache || cache->device != device))
        return status_fail(ACRE_ERR_STATE,
                           "backend \"%s\" answers for device type %s since this allocator was "
                           "made; create one anew for its devices",
                           device->backend->name, acre_device_type_name(adapter->first.type));
    *out = cache;
    return ACRE_OK;
}

static acre_status adapter_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    const struct adapter *adapter = self;
    acre_cache *cache;
    void *pointer, *stream;
    acre_status status = current_cache(adapter, &cache);

    if (LIKELY(status == ACRE_OK))
        status = stream_current_native(cache->device, &stream);
    if (LIKELY(status == ACRE_OK))
        status = acre_cache_alloc(cache, bytes, stream, &pointer);
    if (LIKELY(status == ACRE_OK))
        acre_data_ptr_make(out, pointer, pointer, adapter->owner.deleter,
                           acre_device_id_of(cache->device));
    return status;
}

static acre_status adapter_copy_data(void *self, void *dst, const void *src, size_t bytes)
{
    acre_cache *cache;

    if (bytes == 0)
        return ACRE_OK;
    acre_status status = current_cache(self, &cache);
    if (status != ACRE_OK)
        return status;
    return acre_copy(cache->device, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE);
}

static acre_status adapter_empty_cache(void *self)
{
    const struct adapter *adapter = self;
    acre_status first = ACRE_OK;

    for (int i = 0; i < adapter->cache_count; i++) {
        acre_status status = acre_cache_empty(adapter->caches[i]);
        if (first == ACRE_OK)
            first = status;
    }
    return first;
}

/* A pointer of any adapter will do: two of them may serve one cache. */
static acre_status adapter_record_stream(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    struct deleter_owner *owner = deleter_owner_of(ptr->deleter);
    acre_device *device;
    void *native;

    (void)self;
    if (!ptr->data || !owner || owner->free != adapter_free)
        return ACRE_OK;
    acre_cache *cache = cache_of_pointer(CONTAINER_OF(owner, struct adapter, owner), ptr->data);
    if (!cache || !map_find(&cache->map, ptr->data))
        return status_fail(ACRE_ERR_INVALID,
                           "invalid device pointer: no cache of its allocator "
                           "gave %p",
                           ptr->data);
    acre_status status = stream_resolve(stream, &device, &native);
    if (status != ACRE_OK)
        return status;
    if (device != cache->device)
        return stream_refuse_other(cache->device->index, device->index);
    return acre_cache_record_stream(cache, ptr->data, native);
}

/* The cache of a device, or a failure that names it. */
static acre_status find_cache(void *self, int device, acre_cache **out)
{
    const struct adapter *adapter = self;

    *out = cache_of(adapter, device);
    if (*out)
        return ACRE_OK;
    return status_fail(ACRE_ERR_RANGE, "Invalid device argument %d: valid are %d to %d", device,
                       adapter->first.index, adapter->first.index + adapter->cache_count - 1);
}

static acre_status adapter_stats_get(void *self, int device, acre_allocator_stats *stats)
{
    acre_cache_stats all = {.struct_size = sizeof all};
    acre_cache *cache;
    acre_status status = find_cache(self, device, &cache);

    if (status == ACRE_OK)
        status = acre_cache_stats_get(cache, &all);
    if (status != ACRE_OK)
        return status;
    stats->allocated_bytes = all.allocated_bytes.all;
    stats->reserved_bytes = all.reserved_bytes.all;
    stats->num_device_alloc = all.num_device_alloc;
    stats->num_device_free = all.num_device_free;
    return ACRE_OK;
}

static acre_status adapter_reset_accumulated(void *self, int device)
{
    acre_cache *cache;
    acre_status status = find_cache(self, device, &cache);

    if (status == ACRE_OK)
        acre_cache_stats_reset_accumulated(cache);
    return status;
}

static acre_status adapter_reset_peak(void *self, int device)
{
    acre_cache *cache;
    acre_status status = find_cache(self, device, &cache);

    if (status == ACRE_OK)
        acre_cache_stats_reset_peak(cache);
    return status;
}

static void adapter_destroy(void *self)
{
    struct adapter *adapter = self;
    acre_allocator *allocator = adapter->allocator;

    if (adapter->place)
        atomic_compare_exchange_strong(adapter->place, &allocator, NULL);
    deleter_unbind(adapter->owner.deleter);
    for (int i = 0; i < adapter->cache_count && !adapter->is_single; i++)
        acre_cache_destroy(adapter->caches[i]);
    heap_free(adapter);
}

void adapter_set_place(acre_allocator *allocator, _Atomic(acre_allocator *) *place)
{
    struct adapter *adapter = allocator->self;

    CHECK(allocator->ops.allocate == adapter_allocate);
    adapter->allocator = allocator;
    adapter->place = place;
}

static const acre_allocator_ops adapter_ops = {
    .struct_size = sizeof adapter_ops,
    .version = ACRE_ALLOCATOR_VERSION,
    .allocate = adapter_allocate,
    .copy_data = adapter_copy_data,
    .raw_deleter = deleter_of_self,
    .is_initialized = allocator_is_always_ready,
    .empty_cache = adapter_empty_cache,
    .record_stream = adapter_record_stream,
    .stats_get = adapter_stats_get,
    .stats_reset_accumulated = adapter_reset_accumulated,
    .stats_reset_peak = adapter_reset_peak,
};

/* Makes an allocator of an adapter; on failure it is gone. */
static acre_status adapter_finish(struct adapter *adapter, acre_allocator **out)
{
    adapter->owner.free = adapter_free;
    return deleter_allocator_create(&adapter->owner, "cache", &adapter_ops, adapter_destroy, out);
}

acre_status acre_cache_allocator(acre_cache *cache, acre_allocator **out)
{
    struct adapter *adapter;

    if (!cache || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_allocator: an argument is NULL");
    adapter = heap_zalloc(sizeof *adapter + sizeof adapter->caches[0]);
    if (!adapter)
        return ACRE_ERR_HOST_MEMORY;
    adapter->first = acre_device_id_of(cache->device);
    adapter->is_single = true;
    adapter->cache_count = 1;
    adapter->caches[0] = cache;
    return adapter_finish(adapter, out);
}

acre_status acre_cache_allocator_create(acre_device_type type, const acre_cache_config *config,
                                        acre_allocator **out)
{
    acre_device *device;
    int count;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_allocator_create: out is needed");
    acre_status status = acre_device_get(type, 0, &device);
    if (status != ACRE_OK)
        return status;
    count = acre_device_count(type);
    struct adapter *adapter =
        heap_zalloc(sizeof *adapter + (size_t)count * sizeof adapter->caches[0]);
    if (!adapter)
        return ACRE_ERR_HOST_MEMORY;
    adapter->first = (acre_device_id){type, 0};
    while (status == ACRE_OK && adapter->cache_count < count) {
        status = acre_device_get(type, adapter->cache_count, &device);
        if (status == ACRE_OK)
            status = acre_cache_create(device, config, &adapter->caches[adapter->cache_count]);
        if (status == ACRE_OK)
            adapter->cache_count++;
    }
    if (status == ACRE_OK)
        return adapter_finish(adapter, out);
    adapter_destroy(adapter);
    return status;
}

acre_cache *acre_cache_of_allocator(const acre_allocator *allocator, int device)
{
    if (!allocator || allocator->ops.allocate != adapter_allocate)
        return NULL;
    return cache_of(allocator->self, device);
}

acre_status acre_cache_allocator_free(acre_allocator *allocator, void *pointer)
{
    if (!allocator || allocator->ops.allocate != adapter_allocate)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_allocator_free: the allocator is %s",
                           allocator ? "not one of caches" : "NULL");
    if (!pointer)
        return ACRE_OK;
    acre_cache *cache = cache_of_pointer(allocator->self, pointer);
    if (!cache)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_cache_allocator_free: invalid device pointer: no cache of this "
                           "allocator gave %p",
                           pointer);
    return acre_cache_free(cache, pointer);
}
