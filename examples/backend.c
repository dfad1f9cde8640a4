/* SPDX-License-Identifier: MIT */
/* The smallest backend: Acre on a device that can allocate and free.
 *
 * Five entries are enough for everything above: the caching allocator, pools,
 * snapshots. The "device" here is a piece of host memory with a capacity. See
 * docs/BACKENDS.md for the optional groups.
 *
 *     cc backend.c $(pkg-config --cflags --libs acre) && ./a.out
 *
 * As a shared library it gives PyTorch a device (docs/PYTORCH.md):
 *
 *     cc -shared -fPIC backend.c -o libtoy.so $(pkg-config --cflags --libs acre)
 *     ACRE_TORCH_BACKEND=./libtoy.so python -c 'import torch; ...'
 */
#include <acre/acre.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY ((uint64_t)64 << 20)
#define GRANULARITY 512
#define BLOCKS_MAX 1024

/* The driver of the device: which blocks are out, and how much is left. */
struct toy {
    pthread_mutex_t mutex; /* calls come from any thread */
    uint64_t bytes_used;
    struct {
        void *base;
        size_t bytes;
    } blocks[BLOCKS_MAX];
};

static acre_status toy_device_count(void *self, int *out_count)
{
    (void)self;
    *out_count = 1;
    return ACRE_OK;
}

static acre_status toy_device_info(void *self, int device, acre_device_info *out_info)
{
    (void)self;
    (void)device;
    memset(out_info, 0, sizeof *out_info);
    snprintf(out_info->name, sizeof out_info->name, "toy device");
    out_info->total_bytes = CAPACITY;
    out_info->alloc_granularity = GRANULARITY;
    return ACRE_OK;
}

static acre_status toy_memory_info(void *self, int device, uint64_t *out_free,
                                   uint64_t *out_total)
{
    struct toy *toy = self;

    (void)device;
    pthread_mutex_lock(&toy->mutex);
    *out_free = CAPACITY - toy->bytes_used;
    pthread_mutex_unlock(&toy->mutex);
    *out_total = CAPACITY;
    return ACRE_OK;
}

/* The block with this base, or a free place for base NULL; -1 when none. */
static int toy_find(const struct toy *toy, const void *base)
{
    for (int i = 0; i < BLOCKS_MAX; i++)
        if (toy->blocks[i].base == base)
            return i;
    return -1;
}

static acre_status toy_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct toy *toy = self;
    /* "Out of memory" has a status of its own: the cache frees and tries again. */
    acre_status status = ACRE_ERR_DEVICE_MEMORY;
    int place;

    (void)device;
    pthread_mutex_lock(&toy->mutex);
    place = toy_find(toy, NULL);
    if (place >= 0 && bytes <= CAPACITY - toy->bytes_used) {
        void *base = aligned_alloc(GRANULARITY, bytes);

        if (base) {
            toy->blocks[place].base = base;
            toy->blocks[place].bytes = bytes;
            toy->bytes_used += bytes;
            *out_base = base;
            status = ACRE_OK;
        }
    }
    pthread_mutex_unlock(&toy->mutex);
    return status == ACRE_OK ? status : acre_error_set(status, 0, "the device has too little left");
}

static acre_status toy_free(void *self, int device, void *base)
{
    struct toy *toy = self;
    acre_status status = ACRE_ERR_INVALID; /* only an exact base is accepted */
    int place;

    (void)device;
    pthread_mutex_lock(&toy->mutex);
    place = toy_find(toy, base);
    if (base && place >= 0) {
        toy->bytes_used -= toy->blocks[place].bytes;
        toy->blocks[place].base = NULL;
        free(base);
        status = ACRE_OK;
    }
    pthread_mutex_unlock(&toy->mutex);
    /* A refusal says why: acre_last_error() gives the sentence to the user. */
    return status == ACRE_OK ? status : acre_error_set(status, 0, "not a base of this device");
}

static struct toy toy = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* What a shared library exports, so that acre_backend_load() finds the backend, and PyTorch
 * with ACRE_TORCH_BACKEND. */
ACRE_API acre_status acre_backend_describe(acre_backend_desc *out);

acre_status acre_backend_describe(acre_backend_desc *out)
{
    static const acre_backend_ops ops = {
        .struct_size = sizeof ops,
        .version = ACRE_BACKEND_VERSION,
        .device_count = toy_device_count,
        .device_info = toy_device_info,
        .memory_info = toy_memory_info,
        .alloc = toy_alloc,
        .free = toy_free,
    };

    out->name = "toy";
    out->type = ACRE_DEVICE_PRIVATE;
    out->ops = &ops; /* copied, like the name */
    out->self = &toy;
    return ACRE_OK;
}

/* Says what failed and why. */
static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, acre_last_error());
    return 1;
}

int main(void)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    acre_backend *backend;
    acre_device *device;
    acre_device_info info = {.struct_size = sizeof info};
    uint64_t bytes_free, bytes_total;
    void *memory;

    if (acre_backend_describe(&desc) != ACRE_OK ||
        acre_backend_register(&desc, &backend) != ACRE_OK)
        return failed("registering");
    if (acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) != ACRE_OK ||
        acre_device_info_get(device, &info) != ACRE_OK)
        return failed("finding the device");
    printf("%s: %llu MiB, capabilities 0x%x\n", info.name,
           (unsigned long long)(info.total_bytes >> 20), info.capabilities);

    if (acre_device_alloc(device, 1000, &memory) != ACRE_OK)
        return failed("allocating");
    if (acre_device_memory(device, &bytes_free, &bytes_total) != ACRE_OK)
        return failed("asking for free memory");
    printf("1000 bytes at %p, %llu bytes are left\n", memory, (unsigned long long)bytes_free);
    if (bytes_total - bytes_free != 1024) /* rounded up to the granularity */
        return failed("counting");

    /* What the table lacks is answered, not crashed on. */
    if (acre_virtual_reserve(device, 1 << 21, &memory) != ACRE_ERR_UNSUPPORTED)
        return failed("refusing virtual memory");
    printf("%s\n", acre_last_error());

    if (acre_device_free(device, toy.blocks[0].base) != ACRE_OK)
        return failed("freeing");
    acre_backend_unregister(backend);
    printf("done\n");
    return 0;
}
