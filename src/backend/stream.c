/* SPDX-License-Identifier: MIT */
/* Streams as values: ids, pools, and the native streams behind them.
 *
 * An id is a small code for streams of the pools, or the address of a native
 * stream of somebody else (even, as addresses are):
 *
 *   reference codec   bit 0: 1 | bits 1-3: class, 6 default | bits 4-8: slot
 *   CUDA codec        bit 0: 1 | bits 1-4: class + 1        | bits 5-9: slot
 *                     0 is the default stream
 *
 * A class is a priority: 0 the lowest, counting towards the highest. A pool has
 * 32 slots per class, handed out in turn. A slot gets its native stream when it
 * is first used, so a program with one stream pays for one. In the reference
 * codec, and where a driver has no NULL stream, slot 0 of class 0 serves as the
 * default stream, and the two ids name one native stream.
 */
#include "backend/stream.h"

#include "backend/table.h"
#include "backend/thread.h"
#include "base/check.h"
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"

#include <stdio.h>

#define POOL_SLOTS        32
#define POOL_CLASSES      4 /* most that any codec has     */
#define REFERENCE_CLASSES 2
#define REFERENCE_DEFAULT 13

/* The pool of one device. */
struct stream_pool {
    uint32_t next[POOL_CLASSES]; /* requests so far; under the lock           */
    _Atomic(void *) native[POOL_CLASSES][POOL_SLOTS]; /* NULL: not yet made   */
};

struct stream_pools {
    struct lock lock; /* held while a native stream is made */
    struct fork_guard fork_guard;
    struct stream_pool pools[]; /* one per device                     */
};

/* What an id means. */
struct meaning {
    enum { IS_DEFAULT, IS_POOLED, IS_EXTERNAL } kind;
    int class;
    int slot;
};

/* ---- Pools ------------------------------------------------------------------- */

acre_status stream_pools_create(acre_backend *backend)
{
    size_t count = (size_t)backend->device_count;
    struct stream_pools *pools;

    if (!(backend->groups & ACRE_CAP_STREAMS))
        return ACRE_OK;
    pools = heap_zalloc(sizeof *pools + count * sizeof pools->pools[0]);
    if (!pools)
        return ACRE_ERR_HOST_MEMORY;
    lock_init(&pools->lock, RANK_RUNTIME, "stream pools");
    fork_guard_lock(&pools->fork_guard, &pools->lock);
    backend->pools = pools;
    return ACRE_OK;
}

static void pool_fini(acre_backend *backend, int index)
{
    struct stream_pool *pool = &backend->pools->pools[index];

    for (int i = 0; i < POOL_CLASSES * POOL_SLOTS; i++) {
        void *native = pool->native[i / POOL_SLOTS][i % POOL_SLOTS];

        if (native && backend->ops.stream_destroy(backend->self, index, native) != ACRE_OK)
            log_line(ACRE_LOG_WARN, "a stream of the pool of %s:%d could not be destroyed: %s",
                     backend->name, index, acre_last_error());
    }
}

void stream_pools_destroy(acre_backend *backend)
{
    if (!backend->pools)
        return;
    if (backend_check_fork(backend) == ACRE_OK)
        for (int i = 0; i < backend->device_count; i++)
            pool_fini(backend, i);
    fork_guard_end(&backend->pools->fork_guard);
    lock_fini(&backend->pools->lock);
    heap_free(backend->pools);
    backend->pools = NULL;
}

/* How many classes a device has, from its range of priorities. */
static int class_count(const acre_device *device)
{
    int most = device->backend->codec == ACRE_STREAM_CODEC_CUDA ? POOL_CLASSES : REFERENCE_CLASSES;
    int least = device->info.priority_least, greatest = device->info.priority_greatest;
    int range = least < greatest ? greatest - least : least - greatest;

    return range + 1 < most ? range + 1 : most;
}

static int class_of_priority(const acre_device *device, int priority)
{
    long long low = device->info.priority_least, high = device->info.priority_greatest;
    long long class = high < low ? low - priority : priority - low;

    /* CUDA counts downwards whatever the device does. */
    if (device->backend->codec == ACRE_STREAM_CODEC_CUDA)
        class = -(long long)priority;
    if (class < 0)
        return 0;
    return class < class_count(device) ? (int)class : class_count(device) - 1;
}

static int priority_of_class(const acre_device *device, int class)
{
    int least = device->info.priority_least;

    return device->info.priority_greatest < least ? least - class : least + class;
}

static acre_status native_make_locked(acre_device *device, int class, int slot, void **out)
{
    _Atomic(void *) *place = &device->backend->pools->pools[device->index].native[class][slot];
    acre_status status = ACRE_OK;
    void *native = atomic_load_explicit(place, memory_order_acquire);

    if (!native) {
        status = device->ops->stream_create(device->self, device->index, ACRE_STREAM_NON_BLOCKING,
                                            priority_of_class(device, class), &native);
        if (status == ACRE_OK)
            atomic_store_explicit(place, native, memory_order_release);
    }
    if (status == ACRE_OK)
        *out = native;
    return status;
}

static acre_status check_streams(const acre_device *device)
{
    if (device_has(device, ACRE_CAP_STREAMS))
        return ACRE_OK;
    return status_fail(ACRE_ERR_UNSUPPORTED, "device %s:%d has no %s", device->backend->name,
                       device->index, table_group_name(ACRE_CAP_STREAMS));
}

static acre_status pool_native(acre_device *device, int class, int slot, void **out)
{
    struct stream_pools *pools = device->backend->pools;
    acre_status status = check_streams(device);
    void *native;

    if (status != ACRE_OK)
        return status;
    native = atomic_load_explicit(&pools->pools[device->index].native[class][slot],
                                  memory_order_acquire);
    if (native) {
        *out = native;
        return ACRE_OK;
    }
    lock_take(&pools->lock);
    status = native_make_locked(device, class, slot, out);
    lock_drop(&pools->lock);
    return status;
}

/* ---- Ids ----------------------------------------------------------------------- */

int64_t stream_default_id(const acre_backend *backend)
{
    return backend->codec == ACRE_STREAM_CODEC_CUDA ? 0 : REFERENCE_DEFAULT;
}

static int64_t stream_encode(const acre_backend *backend, int class, int slot)
{
    if (backend->codec == ACRE_STREAM_CODEC_CUDA)
        return (int64_t)1 | (class + 1) << 1 | slot << 5;
    return (int64_t)1 | class << 1 | slot << 4;
}

static acre_status invalid_id(const acre_backend *backend, int64_t id, int type)
{
    return status_fail(ACRE_ERR_INVALID,
                       "stream id %lld of backend \"%s\" names nothing: its type field is %d",
                       (long long)id, backend->name, type);
}

/* classes is how many the device has; POOL_CLASSES when any will do. */
static acre_status stream_decode(const acre_backend *backend, int64_t id, int classes,
                                 struct meaning *out)
{
    int is_cuda = backend->codec == ACRE_STREAM_CODEC_CUDA;
    int type = (int)(id >> 1) & (is_cuda ? 15 : 7);

    out->class = out->slot = 0;
    if (id == stream_default_id(backend)) {
        out->kind = IS_DEFAULT;
        return ACRE_OK;
    }
    if ((id & 1) == 0) {
        out->kind = IS_EXTERNAL;
        return ACRE_OK;
    }
    out->kind = IS_POOLED;
    out->class = is_cuda ? type - 1 : type;
    out->slot = (int)(id >> (is_cuda ? 5 : 4)) & (POOL_SLOTS - 1);
    if (!is_cuda && classes > REFERENCE_CLASSES)
        classes = REFERENCE_CLASSES;
    if (out->class < 0 || out->class >= classes ||
        stream_encode(backend, out->class, out->slot) != id)
        return invalid_id(backend, id, type);
    return ACRE_OK;
}

acre_status stream_check_id(const acre_backend *backend, int64_t id)
{
    struct meaning meaning;

    return stream_decode(backend, id, POOL_CLASSES, &meaning);
}

acre_status stream_device(acre_stream stream, acre_device **out)
{
    acre_device *device;
    acre_status status;

    if (stream.index < 0)
        return status_fail(ACRE_ERR_RANGE, "a stream cannot belong to device index %d",
                           stream.index);
    status = acre_device_get((acre_device_type)stream.type, stream.index, &device);
    if (status == ACRE_OK)
        status = stream_check_id(device->backend, stream.id);
    if (status == ACRE_OK)
        *out = device;
    return status;
}

/* Whether the default stream is the NULL stream of the driver. */
static int null_is_default(const acre_backend *backend)
{
    return backend->codec == ACRE_STREAM_CODEC_CUDA && (backend->flags & ACRE_BACKEND_NULL_STREAM);
}

/* The native stream of an id. */
static acre_status native_of(acre_device *device, int64_t id, void **out)
{
    const acre_backend *backend = device->backend;
    struct meaning meaning;
    acre_status status = stream_decode(backend, id, class_count(device), &meaning);

    if (status == ACRE_OK)
        status = check_streams(device);
    if (status != ACRE_OK)
        return status;
    if (meaning.kind == IS_POOLED)
        return pool_native(device, meaning.class, meaning.slot, out);
    if (meaning.kind == IS_EXTERNAL && id == 0)
        return status_fail(ACRE_ERR_INVALID,
                           "stream id 0 means an external NULL stream, which is none; the default "
                           "stream of backend \"%s\" has id %lld",
                           backend->name, (long long)stream_default_id(backend));
    if (meaning.kind == IS_DEFAULT && !null_is_default(backend))
        return pool_native(device, 0, 0, out);
    *out = (void *)(uintptr_t)(meaning.kind == IS_DEFAULT ? 0 : id);
    return ACRE_OK;
}

acre_status stream_current_native(acre_device *device, void **out)
{
    if (!device_has(device, ACRE_CAP_STREAMS)) {
        *out = NULL;
        return ACRE_OK;
    }
    return native_of(device, thread_stream(device->backend, device->index), out);
}

/* ---- Public ---------------------------------------------------------------------- */

static acre_stream stream_value(acre_device_type type, const acre_device *device, int64_t id)
{
    return (acre_stream){.id = id, .index = device->index, .type = (int32_t)type};
}

acre_status acre_stream_default(acre_device_type type, int index, acre_stream *out)
{
    acre_device *device;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_stream_default: out is NULL");
    status = acre_device_get(type, index, &device);
    if (status == ACRE_OK)
        *out = stream_value(type, device, stream_default_id(device->backend));
    return status;
}

acre_status acre_stream_current(acre_device_type type, int index, acre_stream *out)
{
    acre_device *device;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_stream_current: out is NULL");
    status = acre_device_get(type, index, &device);
    if (status == ACRE_OK)
        *out = stream_value(type, device, thread_stream(device->backend, device->index));
    return status;
}

acre_status acre_stream_set_current(acre_stream stream)
{
    acre_device *device = NULL;
    acre_status status = stream_device(stream, &device);

    return status != ACRE_OK ? status
                             : thread_set_stream(device->backend, device->index, stream.id);
}

/* Takes the next slot. The turn passes on only when the stream exists. */
static acre_status pool_take(acre_device *device, int class, int64_t *out_id)
{
    struct stream_pools *pools = device->backend->pools;
    acre_status status = check_streams(device);
    uint32_t *next;
    void *native;
    int slot;

    if (status != ACRE_OK)
        return status;
    lock_take(&pools->lock);
    next = &pools->pools[device->index].next[class];
    slot = (int)(*next % POOL_SLOTS);
    status = native_make_locked(device, class, slot, &native);
    if (status == ACRE_OK)
        ++*next;
    lock_drop(&pools->lock);
    if (status == ACRE_OK)
        *out_id = stream_encode(device->backend, class, slot);
    return status;
}

static acre_status take_of_class(acre_device_type type, acre_device *device, int class,
                                 acre_stream *out)
{
    int64_t id;
    acre_status status = pool_take(device, class, &id);

    if (status == ACRE_OK)
        *out = stream_value(type, device, id);
    return status;
}

acre_status acre_stream_from_pool(acre_device_type type, int index, int priority, acre_stream *out)
{
    acre_device *device = NULL;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_stream_from_pool: out is NULL");
    status = acre_device_get(type, index, &device);
    if (status != ACRE_OK)
        return status;
    return take_of_class(type, device, class_of_priority(device, priority), out);
}

acre_status acre_stream_from_pool_high(acre_device_type type, int index, bool high,
                                       acre_stream *out)
{
    acre_device *device = NULL;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_stream_from_pool_high: out is NULL");
    status = acre_device_get(type, index, &device);
    if (status != ACRE_OK)
        return status;
    return take_of_class(type, device, high ? class_count(device) - 1 : 0, out);
}

acre_status acre_stream_external(acre_device_type type, int index, void *native, acre_stream *out)
{
    acre_device *device = NULL;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_stream_external: out is NULL");
    status = acre_device_get(type, index, &device);
    if (status != ACRE_OK)
        return status;
    if ((uintptr_t)native & 1)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_stream_external: %p is odd, so it cannot be told from a stream "
                           "of the pool",
                           native);
    if (!native && !null_is_default(device->backend))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_stream_external: native is NULL, and id 0 is not the default "
                           "stream of backend \"%s\"",
                           device->backend->name);
    *out = stream_value(type, device, (int64_t)(uintptr_t)native);
    return ACRE_OK;
}

acre_status stream_resolve(acre_stream stream, acre_device **out_device, void **out_native)
{
    acre_status status = stream_device(stream, out_device);

    return status != ACRE_OK ? status : native_of(*out_device, stream.id, out_native);
}

acre_status stream_refuse_other(int memory_index, int stream_index)
{
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "memory of device %d cannot follow a stream of device %d: let a stream "
                       "of its own device wait for an event there",
                       memory_index, stream_index);
}

acre_status acre_stream_native(acre_stream stream, void **out)
{
    acre_device *device = NULL;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_stream_native: out is NULL");
    return stream_resolve(stream, &device, out);
}

bool acre_stream_query(acre_stream stream)
{
    acre_device *device = NULL;
    void *native;

    return stream_resolve(stream, &device, &native) == ACRE_OK &&
           device->ops->stream_query(device->self, device->index, native) == ACRE_OK;
}

acre_status acre_stream_synchronize(acre_stream stream)
{
    acre_device *device = NULL;
    void *native;
    acre_status status = stream_resolve(stream, &device, &native);

    if (status == ACRE_OK)
        status = device->ops->stream_synchronize(device->self, device->index, native);
    return status;
}

acre_status acre_stream_priority(acre_stream stream, int *out)
{
    acre_device *device = NULL;
    acre_status status;
    void *native;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_stream_priority: out is NULL");
    status = stream_resolve(stream, &device, &native);
    if (status == ACRE_OK)
        status = device->ops->stream_priority(device->self, device->index, native, out);
    return status;
}

uint64_t acre_stream_hash(acre_stream stream)
{
    return (uint64_t)(uint8_t)stream.type << 56 | (uint64_t)(uint8_t)stream.index << 48 |
           ((uint64_t)stream.id & (((uint64_t)1 << 48) - 1));
}

int acre_stream_text(acre_stream stream, char *buffer, size_t bytes)
{
    return snprintf(buffer, buffer ? bytes : 0, "stream %lld on device %s:%d", (long long)stream.id,
                    acre_device_type_name((acre_device_type)stream.type), stream.index);
}
