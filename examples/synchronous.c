/* SPDX-License-Identifier: MIT */
/* A whole device in ten entries, and everything that stands on it.
 *
 * Work of this device is finished when its call returns. So the table leaves out
 * streams, events and queued copies, sets ACRE_BACKEND_SYNCHRONOUS, and Acre has
 * them. The "device" is a piece of host memory with a capacity.
 *
 *     cc synchronous.c $(pkg-config --cflags --libs acre_tools) && ./a.out npu.pickle
 *     acre view npu.pickle -o npu.html
 *
 * As a shared library, for acre_backend_load(), "acre --backend" and PyTorch:
 *
 *     cc -shared -fPIC synchronous.c -o libnpu.so $(pkg-config --cflags --libs acre)
 *     acre --backend ./libnpu.so devices
 */
#include <acre/acre.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY ((uint64_t)256 << 20)
#define GRANULARITY 512
#define BLOCKS_MAX 1024

/* The driver of the device: which blocks are out, and how much is left. */
struct npu {
    pthread_mutex_t mutex; /* calls come from any thread */
    uint64_t bytes_used;
    struct {
        char *base;
        size_t bytes;
    } blocks[BLOCKS_MAX];
};

/* ---- 1 to 5: the required entries -------------------------------------------------- */

static acre_status npu_device_count(void *self, int *out_count)
{
    (void)self;
    *out_count = 1;
    return ACRE_OK;
}

static acre_status npu_device_info(void *self, int device, acre_device_info *out_info)
{
    (void)self;
    (void)device;
    memset(out_info, 0, sizeof *out_info);
    snprintf(out_info->name, sizeof out_info->name, "example NPU");
    out_info->total_bytes = CAPACITY;
    out_info->alloc_granularity = GRANULARITY;
    return ACRE_OK;
}

static acre_status npu_memory_info(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    struct npu *npu = self;

    (void)device;
    pthread_mutex_lock(&npu->mutex);
    *out_free = CAPACITY - npu->bytes_used;
    pthread_mutex_unlock(&npu->mutex);
    *out_total = CAPACITY;
    return ACRE_OK;
}

/* The block around an address, or a free place for NULL; -1 when none. */
static int npu_find(const struct npu *npu, const void *address)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        const char *base = npu->blocks[i].base;

        if (address ? base && (size_t)((const char *)address - base) < npu->blocks[i].bytes : !base)
            return i;
    }
    return -1;
}

static acre_status npu_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct npu *npu = self;
    acre_status status = ACRE_ERR_DEVICE_MEMORY; /* the cache frees and tries again */
    int place;

    (void)device;
    pthread_mutex_lock(&npu->mutex);
    place = npu_find(npu, NULL);
    if (place >= 0 && bytes <= CAPACITY - npu->bytes_used) {
        char *base = aligned_alloc(GRANULARITY, bytes);

        if (base) {
            npu->blocks[place].base = base;
            npu->blocks[place].bytes = bytes;
            npu->bytes_used += bytes;
            *out_base = base;
            status = ACRE_OK;
        }
    }
    pthread_mutex_unlock(&npu->mutex);
    return status == ACRE_OK ? status : acre_error_set(status, 0, "the device has too little left");
}

static acre_status npu_free(void *self, int device, void *base)
{
    struct npu *npu = self;
    acre_status status = ACRE_ERR_INVALID; /* only an exact base is accepted */
    int place;

    (void)device;
    pthread_mutex_lock(&npu->mutex);
    place = base ? npu_find(npu, base) : -1;
    if (place >= 0 && npu->blocks[place].base == base) {
        npu->bytes_used -= npu->blocks[place].bytes;
        npu->blocks[place].base = NULL;
        free(base);
        status = ACRE_OK;
    }
    pthread_mutex_unlock(&npu->mutex);
    /* A refusal says why: acre_last_error() gives the sentence to the user. */
    return status == ACRE_OK ? status : acre_error_set(status, 0, "not a base of this device");
}

/* ---- 6: what a pointer belongs to ---------------------------------------------------- */

static acre_status npu_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info)
{
    struct npu *npu = self;
    int place;

    out_info->kind = ACRE_MEMORY_UNMANAGED;
    out_info->device = -1;
    out_info->base = (void *)(uintptr_t)pointer;
    out_info->bytes = 0;
    pthread_mutex_lock(&npu->mutex);
    place = pointer ? npu_find(npu, pointer) : -1;
    if (place >= 0) {
        out_info->kind = ACRE_MEMORY_DEVICE;
        out_info->device = 0;
        out_info->base = npu->blocks[place].base;
        out_info->bytes = npu->blocks[place].bytes;
    }
    pthread_mutex_unlock(&npu->mutex);
    return ACRE_OK;
}

/* ---- 7 and 8: copies and fills -------------------------------------------------------- */

/* Whether a range is as the copy says: in one block of the device, or outside of it. */
static int npu_is_range(struct npu *npu, const void *at, size_t bytes, int is_device)
{
    acre_pointer_info info = {.struct_size = sizeof info};

    if (!at || npu_pointer_info(npu, at, &info) != ACRE_OK)
        return 0;
    if (!is_device)
        return info.kind != ACRE_MEMORY_DEVICE;
    return info.kind == ACRE_MEMORY_DEVICE &&
           bytes <= info.bytes - (size_t)((const char *)at - (const char *)info.base);
}

static acre_status npu_copy(void *self, void *dst, const void *src, size_t bytes,
                            acre_copy_kind kind)
{
    int is_dst = kind == ACRE_COPY_HOST_TO_DEVICE || kind == ACRE_COPY_DEVICE_TO_DEVICE;
    int is_src = kind == ACRE_COPY_DEVICE_TO_HOST || kind == ACRE_COPY_DEVICE_TO_DEVICE;

    if (!npu_is_range(self, dst, bytes, is_dst) || !npu_is_range(self, src, bytes, is_src))
        return acre_error_set(ACRE_ERR_INVALID, 0, "a side of the copy is not as its kind says");
    memmove(dst, src, bytes);
    return ACRE_OK;
}

/* The stream is one of Acre's names: there is nothing to queue on. */
static acre_status npu_fill(void *self, int device, void *dst, int value, size_t bytes,
                            void *stream)
{
    (void)device;
    (void)stream;
    if (!npu_is_range(self, dst, bytes, 1))
        return acre_error_set(ACRE_ERR_INVALID, 0, "not memory of this device");
    memset(dst, value, bytes);
    return ACRE_OK;
}

/* ---- 9: kernels that are C functions ---------------------------------------------------- */

struct npu_context {
    acre_kernel_context kernel; /* first, so that one address is both */
    struct npu *npu;
};

static void *npu_kernel_pointer(acre_kernel_context *context, const void *pointer, size_t bytes)
{
    struct npu *npu = ((struct npu_context *)context)->npu;

    return npu_is_range(npu, pointer, bytes, 1) ? (void *)(uintptr_t)pointer : NULL;
}

static acre_status npu_launch_kernel(void *self, int device, void *stream, acre_kernel_fn fn,
                                     const void *args, size_t args_bytes)
{
    struct npu_context context = {.kernel = {.device = device, .pointer = npu_kernel_pointer},
                                  .npu = self};
    void *copy = malloc(args_bytes ? args_bytes : 1);

    (void)stream;
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    if (args_bytes)
        memcpy(copy, args, args_bytes);
    fn(&context.kernel, copy);
    free(copy);
    return ACRE_OK;
}

/* ---- 10: the current device of a thread -------------------------------------------------- */

static acre_status npu_set_current(void *self, int device)
{
    (void)self;
    return device == 0 ? ACRE_OK : ACRE_ERR_INVALID;
}

static struct npu npu = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* What a shared library exports. */
ACRE_API acre_status acre_backend_describe(acre_backend_desc *out);

acre_status acre_backend_describe(acre_backend_desc *out)
{
    static const acre_backend_ops ops = {
        .struct_size = sizeof ops,
        .version = ACRE_BACKEND_VERSION,
        .device_count = npu_device_count,
        .device_info = npu_device_info,
        .memory_info = npu_memory_info,
        .alloc = npu_alloc,
        .free = npu_free,
        .pointer_info = npu_pointer_info,
        .copy = npu_copy,
        .fill_async = npu_fill,
        .launch_kernel = npu_launch_kernel,
        .set_current = npu_set_current,
    };

    out->name = "npu";
    out->type = ACRE_DEVICE_PRIVATE;
    out->ops = &ops;
    out->self = &npu;
    out->flags = ACRE_BACKEND_SYNCHRONOUS;
    return ACRE_OK;
}

#ifndef EXAMPLE_LIBRARY

/* Ends the program with the sentence of the last error. */
#define GO(call)                                                               \
    do {                                                                       \
        if ((call) != ACRE_OK) {                                               \
            fprintf(stderr, "%s: %s\n", #call, acre_last_error());             \
            return 1;                                                          \
        }                                                                      \
    } while (0)

int main(int argc, char **argv)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;
    void *stream, *event, *weights, *step;
    unsigned char byte = 0;

    GO(acre_backend_describe(&desc));
    GO(acre_backend_register(&desc, &backend));
    GO(acre_device_type_rename(ACRE_DEVICE_PRIVATE, "npu")); /* "npu:0" in all messages */
    GO(acre_backend_device(backend, 0, &device));
    printf("%s:%d\n", acre_device_type_name(acre_device_id_of(device).type), 0);

    /* Streams and events come from Acre. */
    GO(acre_stream_native_create(device, 0, 0, &stream));
    GO(acre_event_native_create(device, 0, &event));

    /* A cache, with a history, so that a snapshot shows more than the end. */
    GO(acre_cache_create(device, NULL, &cache));
    GO(acre_cache_history_start(cache, NULL));
    GO(acre_cache_alloc(cache, 40 << 20, stream, &weights));
    for (int i = 1; i <= 3; i++) {
        GO(acre_cache_alloc(cache, (size_t)i << 22, stream, &step));
        GO(acre_fill_async(device, step, i, (size_t)i << 22, stream));
        GO(acre_copy_async(device, weights, step, (size_t)i << 22, ACRE_COPY_DEVICE_TO_DEVICE,
                           stream));
        GO(acre_event_native_record(device, event, stream));
        GO(acre_event_native_synchronize(device, event));
        GO(acre_cache_free(cache, step));
    }
    GO(acre_copy(device, &byte, weights, 1, ACRE_COPY_DEVICE_TO_HOST));
    GO(acre_cache_stats_get(cache, &stats));
    printf("the last step wrote %d; %lld bytes are live, %lld reserved\n", byte,
           (long long)stats.allocated_bytes.all.current,
           (long long)stats.reserved_bytes.all.current);
    if (argc > 1)
        GO(acre_cache_snapshot_write(cache, argv[1]));

    GO(acre_cache_free(cache, weights));
    acre_cache_destroy(cache);
    GO(acre_event_native_destroy(device, event));
    GO(acre_stream_native_destroy(device, stream));
    acre_backend_unregister(backend);
    return byte == 3 ? 0 : 1;
}

#endif
