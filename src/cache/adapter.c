/* SPDX-License-Identifier: MIT */
/* Caches as allocators.
 *
 * Data pointers are simple (data == context), so the deleter has nothing but the
 * address: it asks the address map of every cache that serves an allocator. The
 * list of those is guarded by a lock, so that a cache may go while pointers of
 * others are deleted. */
#include "alloc/allocator.h"
#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/cache.h"

struct adapter {
    struct list link;      /* in adapters                                     */
    acre_device_id first;  /* type of the devices; index of caches[0]         */
    bool is_single;        /* one cache, not owned; else one per device       */
    int cache_count;
    acre_cache *caches[];  /* by device index less first.index                */
};

static struct lock adapters_lock = LOCK_INITIALIZER(RANK_ALLOCATOR, "cache allocators");
static struct list adapters = LIST_INITIALIZER(adapters); /* by adapters_lock */

/* The cache of a device, or NULL. */
static acre_cache *cache_of(const struct adapter *adapter, int device)
{
    int index = device - adapter->first.index;

    return index >= 0 && index < adapter->cache_count ? adapter->caches[index] : NULL;
}

/* The cache that holds a block for an address, or NULL. */
static acre_cache *cache_of_pointer(const void *pointer)
{
    acre_cache *found = NULL;

    lock_take(&adapters_lock);
    LIST_FOR_EACH(link, &adapters) {
        const struct adapter *adapter = CONTAINER_OF(link, struct adapter, link);
        for (int i = 0; i < adapter->cache_count && !found; i++)
            if (map_find(&adapter->caches[i]->map, pointer))
                found = adapter->caches[i];
    }
    lock_drop(&adapters_lock);
    return found;
}

static void adapter_delete(void *pointer)
{
    acre_cache *cache = pointer ? cache_of_pointer(pointer) : NULL;
    struct status_saved before;

    if (!pointer)
        return;
    status_save(&before);
    if (!cache)
        log_line(ACRE_LOG_DEBUG, "free of %p, which no cache gave, was ignored", pointer);
    else if (acre_cache_free(cache, pointer) != ACRE_OK)
        log_line(ACRE_LOG_ERROR, "free of %p failed: %s", pointer, acre_last_error());
    status_restore(&before);
}

/* The thread's current native stream on the device of a cache; the default one
 * when the device is not the one that answers for its type. */
static acre_status current_stream(const acre_cache *cache, void **out)
{
    acre_device_id id = acre_device_id_of(cache->device);
    acre_device *shown;
    acre_stream stream;

    *out = NULL;
    if (!device_has(cache->device, ACRE_CAP_STREAMS) ||
        acre_device_get(id.type, id.index, &shown) != ACRE_OK || shown != cache->device)
        return ACRE_OK;
    acre_status status = acre_stream_current(id.type, id.index, &stream);
    return status == ACRE_OK ? acre_stream_native(stream, out) : status;
}

static acre_status adapter_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    const struct adapter *adapter = self;
    acre_cache *cache = adapter->caches[0];
    void *pointer, *stream;
    int index;

    if (!adapter->is_single) {
        acre_status status = acre_device_current(adapter->first.type, &index);
        if (status != ACRE_OK)
            return status;
        cache = cache_of(adapter, index);
        CHECK(cache);
    }
    acre_status status = current_stream(cache, &stream);
    if (status == ACRE_OK)
        status = acre_cache_alloc(cache, bytes, stream, &pointer);
    if (status == ACRE_OK)
        acre_data_ptr_make(out, pointer, pointer, adapter_delete,
                           acre_device_id_of(cache->device));
    return status;
}

static acre_status adapter_copy_data(void *self, void *dst, const void *src, size_t bytes)
{
    const struct adapter *adapter = self;

    if (bytes == 0)
        return ACRE_OK;
    return acre_copy(adapter->caches[0]->device, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE);
}

static acre_deleter adapter_raw_deleter(void *self)
{
    (void)self;
    return adapter_delete;
}

static bool adapter_is_initialized(void *self)
{
    (void)self;
    return true;
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

static acre_status adapter_record_stream(void *self, const acre_data_ptr *ptr,
                                         acre_stream stream)
{
    acre_cache *cache;
    void *native;

    (void)self;
    if (!ptr->data || ptr->deleter != adapter_delete)
        return ACRE_OK;
    cache = cache_of_pointer(ptr->data);
    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "invalid device pointer: no cache gave %p",
                           ptr->data);
    acre_status status = acre_stream_native(stream, &native);
    return status == ACRE_OK ? acre_cache_record_stream(cache, ptr->data, native) : status;
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

    lock_take(&adapters_lock);
    list_remove(&adapter->link);
    lock_drop(&adapters_lock);
    for (int i = 0; i < adapter->cache_count && !adapter->is_single; i++)
        acre_cache_destroy(adapter->caches[i]);
    heap_free(adapter);
}

static const acre_allocator_ops adapter_ops = {
    .struct_size = sizeof adapter_ops,
    .version = ACRE_ALLOCATOR_VERSION,
    .allocate = adapter_allocate,
    .copy_data = adapter_copy_data,
    .raw_deleter = adapter_raw_deleter,
    .is_initialized = adapter_is_initialized,
    .empty_cache = adapter_empty_cache,
    .record_stream = adapter_record_stream,
    .stats_get = adapter_stats_get,
    .stats_reset_accumulated = adapter_reset_accumulated,
    .stats_reset_peak = adapter_reset_peak,
};

/* Publishes an adapter; on failure it is gone. */
static acre_status adapter_finish(struct adapter *adapter, acre_allocator **out)
{
    acre_allocator_desc desc = {.struct_size = sizeof desc, .name = "cache",
                                .ops = &adapter_ops, .self = adapter,
                                .destroy = adapter_destroy};

    lock_take(&adapters_lock);
    list_push_back(&adapters, &adapter->link);
    lock_drop(&adapters_lock);
    acre_status status = acre_allocator_create(&desc, out);
    if (status != ACRE_OK)
        adapter_destroy(adapter);
    return status;
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
    struct adapter *adapter = heap_zalloc(sizeof *adapter +
                                          (size_t)count * sizeof adapter->caches[0]);
    if (!adapter)
        return ACRE_ERR_HOST_MEMORY;
    adapter->first = (acre_device_id){type, 0};
    list_init(&adapter->link);
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
