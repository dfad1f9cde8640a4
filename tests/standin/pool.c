/* SPDX-License-Identifier: MIT */
/* Memory pools: memory in the order of streams.
 *
 * What is freed stays with its pool as a spare, usable on the stream that freed it
 * at once, elsewhere when that stream has got there. Waiting for a stream gives
 * spares back to the device down to the release threshold.
 */
#include "tests/standin/pool.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_BYTES 512

struct spare {
    struct list link;
    void *base;
    size_t bytes;
    void *stream;  /* that freed it, as the device knows it */
    void *event;   /* behind the free; NULL: has passed     */
};

struct pool {
    struct list link;       /* in pools                      */
    int device;
    int is_dead;            /* destroyed, but blocks live    */
    uint64_t block_count;   /* blocks out                    */
    uint64_t threshold;
    uint64_t amounts[4];    /* reserved, its peak, used, its peak */
    int reuse[3];
    struct list spares;
    struct list captured;   /* spares that a capture freed: its graph uses them for good */
};
enum { RESERVED, RESERVED_PEAK, USED, USED_PEAK };

struct pool_object {
    struct object object;
    struct pool *pool;
};

static struct list pools = LIST_INITIALIZER(pools);
static struct pool_object *defaults[64];

/* ---- Amounts and spares ---------------------------------------------------------------- */

static void amount_add(struct pool *pool, int which, int64_t bytes)
{
    pool->amounts[which] += (uint64_t)bytes;
    if (pool->amounts[which] > pool->amounts[which + 1])
        pool->amounts[which + 1] = pool->amounts[which];
}

static struct spare *spare_of(struct list *link)
{
    return CONTAINER_OF(link, struct spare, link);
}

static int spare_is_free_locked(struct pool *pool, struct spare *spare)
{
    if (spare->event &&
        standin.ops->event_query(standin.self, pool->device, spare->event) == ACRE_OK) {
        standin.ops->event_destroy(standin.self, pool->device, spare->event);
        spare->event = NULL;
    }
    return !spare->event;
}

/* Gives spares that are free back, while more than so much is reserved. */
static void pool_trim_locked(struct pool *pool, uint64_t keep)
{
    LIST_FOR_EACH_SAFE(it, after, &pool->spares) {
        struct spare *spare = spare_of(it);

        if (!spare_is_free_locked(pool, spare) || pool->amounts[RESERVED] <= keep)
            continue;
        standin.ops->free(standin.self, pool->device, spare->base);
        amount_add(pool, RESERVED, -(int64_t)spare->bytes);
        list_remove(it);
        free(spare);
    }
}

/* A dead pool gives back what captures freed. */
static void captured_end_locked(struct pool *pool)
{
    LIST_FOR_EACH_SAFE(it, after, &pool->captured) {
        list_remove(it);
        list_push_back(&pool->spares, it);
    }
}

void pools_settle(void)
{
    books_lock();
    LIST_FOR_EACH_SAFE(it, after, &pools) {
        struct pool *pool = CONTAINER_OF(it, struct pool, link);

        if (pool->is_dead)
            captured_end_locked(pool);
        pool_trim_locked(pool, pool->is_dead ? 0 : pool->threshold);
        if (pool->is_dead && pool->block_count == 0 && list_empty(&pool->spares)) {
            list_remove(it);
            free(pool);
        }
    }
    books_unlock();
}

void pools_end(void)
{
    books_lock();
    for (int i = 0; i < 64; i++) {
        if (!defaults[i])
            continue;
        defaults[i]->pool->is_dead = 1;
        object_destroy(defaults[i]);
        defaults[i] = NULL;
    }
    books_unlock();
    pools_settle();
}

/* ---- Life -------------------------------------------------------------------------------- */

static struct pool_object *pool_make_locked(int device)
{
    struct pool_object *object = object_create(KIND_POOL, sizeof *object, device);
    struct pool *pool = object ? calloc(1, sizeof *pool) : NULL;

    if (!pool) {
        if (object)
            object_destroy(object);
        return NULL;
    }
    pool->device = device;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    list_init(&pool->spares);
    list_init(&pool->captured);
    list_push_back(&pools, &pool->link);
    object->pool = pool;
    return object;
}

static CUresult pools_check(void)
{
    return standin.lacks & LACK_POOLS ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult props_check(const CUmemPoolProps *props)
{
    static const unsigned char zero[sizeof props->reserved];

    if (!props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->win32SecurityAttributes ||
        props->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        memcmp(props->reserved, zero, sizeof zero) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return device_is_valid(props->location.id) ? pools_check() : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    ENTRY(cuMemPoolCreate);
    CUresult result = out ? props_check(props) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    books_lock();
    struct pool_object *object = pool_make_locked(props->location.id);
    if (object)
        *out = HANDLE(object);
    books_unlock();
    return object ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static int is_default(const struct pool_object *object)
{
    return defaults[object->object.device] == object;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMemPoolDestroy);
    books_lock();
    struct pool_object *object = object_find(KIND_POOL, handle);
    if (object && !is_default(object)) {
        object->pool->is_dead = 1;
        object_destroy(object);
        result = CUDA_SUCCESS;
    }
    books_unlock();
    pools_settle();
    return result;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    ENTRY(cuDeviceGetDefaultMemPool);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (pools_check())
        return CUDA_ERROR_NOT_SUPPORTED;
    books_lock();
    if (!defaults[device])
        defaults[device] = pool_make_locked(device);
    if (defaults[device])
        *out = HANDLE(defaults[device]);
    books_unlock();
    return defaults[device] ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void live_pool(void *object, void *arg)
{
    ((struct standin_live *)arg)->pools += !is_default(object);
}

void pool_live(struct standin_live *live)
{
    object_each(KIND_POOL, live_pool, live);
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* A spare of the right size that is free, or that the same stream freed. */
static void *spare_take_locked(struct pool *pool, size_t bytes, const void *stream)
{
    LIST_FOR_EACH_SAFE(it, after, &pool->spares) {
        struct spare *spare = spare_of(it);

        if (spare->bytes != bytes ||
            !(spare_is_free_locked(pool, spare) || spare->stream == stream))
            continue;
        void *base = spare->base;
        if (spare->event)
            standin.ops->event_destroy(standin.self, pool->device, spare->event);
        list_remove(it);
        free(spare);
        return base;
    }
    return NULL;
}

static CUresult take_locked(struct pool *pool, size_t bytes, const void *stream, void **out)
{
    CUresult result = CUDA_SUCCESS;

    *out = spare_take_locked(pool, bytes, stream);
    if (*out)
        return CUDA_SUCCESS;
    result = SIM(alloc, pool->device, bytes, out);
    if (result) {
        pool_trim_locked(pool, 0);
        result = SIM(alloc, pool->device, bytes, out);
    }
    if (!result)
        amount_add(pool, RESERVED, (int64_t)bytes);
    return result;
}

static CUresult alloc_locked(CUmemoryPool handle, size_t bytes, const struct place *at,
                             CUdeviceptr *out)
{
    struct pool_object *object = object_find(KIND_POOL, handle);
    void *base = NULL;

    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    struct pool *pool = object->pool;
    if (pool->device != at->device)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = take_locked(pool, bytes, at->sim, &base);
    if (result)
        return result;
    struct block *block = block_add(BLOCK_POOL, (uintptr_t)base, bytes, pool->device);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->pool = pool;
    pool->block_count++;
    amount_add(pool, USED, (int64_t)bytes);
    *out = (CUdeviceptr)(uintptr_t)base;
    return CUDA_SUCCESS;
}

/* The stream of a call on pools, and whether it is captured. */
static CUresult pool_place(CUstream stream, struct place *out, int *out_is_captured)
{
    acre_capture_info info = {.struct_size = sizeof info};
    CUresult result = stream_work_place(stream, out);

    if (!result)
        result = SIM(capture_info, out->device, out->sim, &info);
    if (!result && info.status == ACRE_CAPTURE_INVALIDATED)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *out_is_captured = info.status == ACRE_CAPTURE_ACTIVE;
    return result;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream)
{
    struct place at;
    int is_captured;

    ENTRY(cuMemAllocFromPoolAsync);
    if (!out || bytes == 0 || bytes > SIZE_MAX - ROUND_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = pool_place(stream, &at, &is_captured);
    if (result)
        return result;
    books_lock();
    result = alloc_locked(pool, (bytes + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES, &at, out);
    books_unlock();
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    CUmemoryPool pool = NULL;
    int device;

    ENTRY(cuMemAllocAsync);
    CUresult result = context_device(&device);
    if (!result)
        result = cuDeviceGetDefaultMemPool(&pool, device);
    return result ? result : cuMemAllocFromPoolAsync(out, bytes, pool, stream);
}

/* Makes a spare of a block; event is behind what used it, or NULL. */
static CUresult give_locked(uintptr_t base, void *stream, void *event)
{
    struct block *block = block_at(base);
    struct spare *spare = block && block->kind == BLOCK_POOL ? malloc(sizeof *spare) : NULL;

    if (!spare)
        return CUDA_ERROR_INVALID_VALUE;
    struct pool *pool = block->pool;
    *spare = (struct spare){.base = (void *)base, .bytes = block->bytes, .stream = stream,
                            .event = event};
    list_push_back(&pool->spares, &spare->link);
    pool->block_count--;
    amount_add(pool, USED, -(int64_t)block->bytes);
    block_remove(block);
    return CUDA_SUCCESS;
}

static void node_do(void *nothing)
{
    (void)nothing;
}

/* Inside a capture a free is a node, and each launch of the graph uses the memory again. */
static CUresult free_captured(uintptr_t base, const struct place *at)
{
    CUresult result = SIM(launch_host, at->device, at->sim, node_do, NULL);
    if (result)
        return result;
    books_lock();
    struct block *block = block_at(base);
    struct pool *pool = block && block->kind == BLOCK_POOL ? block->pool : NULL;
    result = pool ? give_locked(base, NULL, NULL) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        struct list *spare = pool->spares.prev;

        list_remove(spare);
        list_push_back(&pool->captured, spare);
    }
    books_unlock();
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr base, CUstream stream)
{
    struct place at;
    void *event = NULL;
    int is_captured = 0;

    ENTRY(cuMemFreeAsync);
    CUresult result = pool_place(stream, &at, &is_captured);
    if (!result && is_captured)
        return free_captured(base, &at);
    if (!result)
        result = SIM(event_create, at.device, 0, &event);
    if (result)
        return result;
    result = SIM(event_record, at.device, event, at.sim);
    books_lock();
    if (!result)
        result = give_locked(base, at.sim, event);
    books_unlock();
    if (result)
        standin.ops->event_destroy(standin.self, at.device, event);
    return result;
}

CUresult pool_free_now(uintptr_t base)
{
    books_lock();
    CUresult result = give_locked(base, NULL, NULL);
    books_unlock();
    pools_settle();
    return result;
}

/* ---- Attributes ---------------------------------------------------------------------------- */

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes_kept)
{
    ENTRY(cuMemPoolTrimTo);
    books_lock();
    struct pool_object *object = object_find(KIND_POOL, handle);
    if (object)
        pool_trim_locked(object->pool, bytes_kept);
    books_unlock();
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_locked(struct pool *pool, unsigned attribute, const void *value)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&pool->reuse[attribute - 1], value, sizeof(int));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&pool->threshold, value, sizeof pool->threshold);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        attribute -= CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        pool->amounts[attribute] = pool->amounts[attribute - 1];
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    ENTRY(cuMemPoolSetAttribute);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct pool_object *object = object_find(KIND_POOL, handle);
    CUresult result = object ? set_locked(object->pool, attribute, value)
                             : CUDA_ERROR_INVALID_VALUE;
    books_unlock();
    return result;
}

static CUresult get_locked(const struct pool *pool, unsigned attribute, void *value)
{
    if (attribute == 0 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        memcpy(value, &pool->reuse[attribute - 1], sizeof(int));
    else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        memcpy(value, &pool->threshold, sizeof pool->threshold);
    else
        memcpy(value, &pool->amounts[attribute - CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT],
               sizeof(cuuint64_t));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    ENTRY(cuMemPoolGetAttribute);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct pool_object *object = object_find(KIND_POOL, handle);
    CUresult result = object ? get_locked(object->pool, attribute, value)
                             : CUDA_ERROR_INVALID_VALUE;
    books_unlock();
    return result;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *desc, size_t count)
{
    ENTRY(cuMemPoolSetAccess);
    if (!desc || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            !device_is_valid(desc[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
    books_lock();
    struct pool_object *object = object_find(KIND_POOL, handle);
    books_unlock();
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
