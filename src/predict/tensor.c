/* SPDX-License-Identifier: MIT */
#include "predict/tensor.h"

#include "predict/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A block of a cache and the DLPack tensor over it, in one allocation. */
struct dry_tensor {
    acre_dl_managed managed; /* first: PyTorch holds a pointer to it         */
    acre_cache *cache;
    int device;
    void *block; /* NULL: resized to nothing, or empty           */
    uint64_t bytes;
    int64_t dims[]; /* sizes, then strides                          */
};

/* Data pointers carry this bit, so that a kernel that touches one faults. */
#define HANDLE_BIT ((uintptr_t)1 << 62)

/* One allocation, so that PyTorch's checks of alignment pass. */
enum { HANDLE_ALIGNMENT = 256 };

/* Memory of all devices together: more than any GPU has, and half of the addresses that
 * dry devices share, so that replays find some. */
#define MEMORY_BYTES ((uint64_t)1 << 41)

static acre_cache *caches[PREDICT_DEVICES_MAX];
static void *streams[PREDICT_DEVICES_MAX][PREDICT_STREAMS_MAX]; /* streams_lock */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static acre_context_source source;

static size_t frames_gather(void *arg, uint64_t *frames, size_t capacity)
{
    const struct thread_state *self = thread_self();
    size_t count = self->frame_count < capacity ? self->frame_count : capacity;

    (void)arg;
    memcpy(frames, self->frames, count * sizeof *frames);
    return count;
}

void acre_predict_frames_set(const uint64_t *frames, uint64_t count)
{
    struct thread_state *self = thread_self();

    self->frame_count = count < ACRE_STACK_MAX ? count : ACRE_STACK_MAX;
    memcpy(self->frames, frames, self->frame_count * sizeof *frames);
}

static acre_status cache_open(acre_backend *backend, int index, const char *conf)
{
    acre_cache_config config = {.struct_size = sizeof config,
                                .policy = ACRE_POLICY_TORCH,
                                .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_history_config history = {.struct_size = sizeof history,
                                   .level = ACRE_CONTEXT_ALLOC,
                                   .max_entries = ACRE_HISTORY_UNBOUNDED,
                                   .source = &source};
    acre_device *device;
    acre_status status = acre_backend_device(backend, index, &device);

    if (status == ACRE_OK)
        status = acre_cache_create(device, &config, &caches[index]);
    if (status == ACRE_OK)
        status = acre_cache_history_start(caches[index], &history);
    return status;
}

acre_status acre_predict_open(int device_count, const char *conf,
                              void (*resolve)(void *, uint64_t, acre_frame *))
{
    uint32_t devices = device_count > 0 ? (uint32_t)device_count : 1;
    acre_sim_config sim = {.struct_size = sizeof sim,
                           .devices = devices,
                           .memory_bytes = MEMORY_BYTES / devices,
                           .page_bytes = (uint64_t)2 << 20,
                           .dry = 1,
                           .name = "predict"};
    acre_backend *backend;
    acre_status status = acre_sim_create(&sim, &backend);

    source = (acre_context_source){.gather = frames_gather, .resolve = resolve};
    for (int i = 0; i < device_count && status == ACRE_OK; i++)
        status = cache_open(backend, i, conf);
    return status;
}

acre_cache *acre_predict_cache(int device)
{
    return device >= 0 && device < PREDICT_DEVICES_MAX ? caches[device] : NULL;
}

/* The native stream behind a stream of a device. */
static void *stream_native(int device, int64_t id)
{
    void *native = NULL;

    if (id <= 0 || id >= PREDICT_STREAMS_MAX)
        return NULL;
    pthread_mutex_lock(&streams_lock);
    if (!streams[device][id])
        (void)acre_stream_native_create(acre_cache_device(caches[device]), 0, 0,
                                        &streams[device][id]);
    native = streams[device][id];
    pthread_mutex_unlock(&streams_lock);
    return native;
}

void *acre_predict_alloc(int device, uint64_t bytes)
{
    acre_cache *cache = acre_predict_cache(device);
    void *block = NULL;

    if (!cache || acre_cache_alloc(cache, bytes, stream_native(device, acre_predict_stream(device)),
                                   &block) != ACRE_OK)
        return NULL;
    return block;
}

void acre_predict_free(int device, void *block)
{
    acre_cache *cache = acre_predict_cache(device);

    if (cache && block)
        (void)acre_cache_free(cache, block);
}

static void tensor_delete(acre_dl_managed *managed)
{
    struct dry_tensor *tensor = (struct dry_tensor *)managed;

    if (tensor->block)
        (void)acre_cache_free(tensor->cache, tensor->block);
    free(tensor);
}

/* The tensor behind a data pointer. */
static struct dry_tensor *tensor_of(const void *data)
{
    return (struct dry_tensor *)((uintptr_t)data & ~HANDLE_BIT);
}

void *acre_predict_tensor(int device, uint64_t bytes, int code, int bits, int ndim,
                          const int64_t *dims)
{
    if (ndim < 0 || ndim > PREDICT_DIMS_MAX || !acre_predict_cache(device))
        return NULL;
    size_t extent = sizeof(struct dry_tensor) + 2 * (size_t)ndim * sizeof(int64_t);
    struct dry_tensor *tensor;
    if (posix_memalign((void **)&tensor, HANDLE_ALIGNMENT, extent) != 0)
        return NULL;
    memset(tensor, 0, sizeof *tensor);
    memcpy(tensor->dims, dims, 2 * (size_t)ndim * sizeof(int64_t));
    tensor->cache = caches[device];
    tensor->device = device;
    tensor->bytes = bytes;
    tensor->block = bytes ? acre_predict_alloc(device, bytes) : NULL;
    if (bytes && !tensor->block) {
        free(tensor);
        return NULL;
    }
    tensor->managed.tensor = (acre_dl_tensor){
        .data = bytes ? (void *)((uintptr_t)tensor | HANDLE_BIT) : NULL,
        .device = {.type = 2 /* kDLCUDA */, .index = device},
        .ndim = ndim,
        .dtype = {.code = (uint8_t)code, .bits = (uint8_t)bits, .lanes = 1},
        .shape = tensor->dims,
        .strides = tensor->dims + ndim,
    };
    tensor->managed.deleter = tensor_delete;
    return tensor;
}

int acre_predict_resize(void *data, uint64_t bytes)
{
    struct dry_tensor *tensor = tensor_of(data);
    void *block = bytes ? acre_predict_alloc(tensor->device, bytes) : NULL;

    if (bytes && !block)
        return -1;
    if (tensor->block)
        (void)acre_cache_free(tensor->cache, tensor->block);
    tensor->block = block;
    tensor->bytes = bytes;
    return 0;
}

int acre_predict_record(void *data, int64_t stream)
{
    struct dry_tensor *tensor = tensor_of(data);

    if (!((uintptr_t)data & HANDLE_BIT) || !tensor->block)
        return 0;
    return acre_cache_record_stream(tensor->cache, tensor->block,
                                    stream_native(tensor->device, stream)) == ACRE_OK
               ? 0
               : -1;
}

uint64_t acre_predict_bytes(const void *data)
{
    return data ? tensor_of(data)->bytes : 0;
}

void *acre_predict_block(const void *data)
{
    return data ? tensor_of(data)->block : NULL;
}
