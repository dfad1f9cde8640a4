/* SPDX-License-Identifier: MIT */
#include "tests/support/toy_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static acre_status toy_count(void *self, int *out)
{
    *out = ((struct toy_backend *)self)->device_count;
    return ACRE_OK;
}

static acre_status toy_info(void *self, int device, acre_device_info *out)
{
    (void)self;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "toy %d", device);
    out->total_bytes = (uint64_t)1 << 30;
    out->alloc_granularity = 512;
    return ACRE_OK;
}

static acre_status toy_memory(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    (void)self, (void)device;
    *out_free = *out_total = (uint64_t)1 << 30;
    return ACRE_OK;
}

static acre_status toy_alloc(void *self, int device, size_t bytes, void **out)
{
    struct toy_backend *toy = self;
    int slot = 0;

    toy->alloc_calls++;
    if (toy->alloc_fails || bytes % 512 || bytes > (size_t)1 << 30)
        return ACRE_ERR_DEVICE_MEMORY;
    while (slot < 64 && toy->bases[slot])
        slot++;
    if (slot == 64 || !(toy->bases[slot] = aligned_alloc(512, bytes)))
        return ACRE_ERR_DEVICE_MEMORY;
    toy->owners[slot] = device;
    toy->live[device]++;
    *out = toy->bases[slot];
    return ACRE_OK;
}

static acre_status toy_free(void *self, int device, void *base)
{
    struct toy_backend *toy = self;

    toy->free_calls++;
    if (toy->free_fails)
        return ACRE_ERR_DEVICE;
    for (int slot = 0; slot < 64; slot++)
        if (toy->bases[slot] == base && toy->owners[slot] == device) {
            free(base);
            toy->bases[slot] = NULL;
            toy->live[device]--;
            return ACRE_OK;
        }
    return ACRE_ERR_INVALID;
}

static acre_status toy_copy(void *self, void *dst, const void *src, size_t bytes,
                            acre_copy_kind kind)
{
    (void)self, (void)kind;
    memmove(dst, src, bytes);
    return ACRE_OK;
}

static acre_status toy_copy_async(void *self, int device, void *dst, const void *src,
                                  size_t bytes, acre_copy_kind kind, void *stream)
{
    (void)device, (void)stream;
    return toy_copy(self, dst, src, bytes, kind);
}

static acre_status toy_copy_peer(void *self, void *dst, int dst_device, const void *src,
                                 int src_device, size_t bytes, void *stream)
{
    (void)dst_device, (void)src_device, (void)stream;
    return toy_copy(self, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE);
}

static acre_status toy_fill(void *self, int device, void *dst, int value, size_t bytes,
                            void *stream)
{
    (void)self, (void)device, (void)stream;
    memset(dst, value, bytes);
    return ACRE_OK;
}

static acre_status toy_host_alloc(void *self, size_t bytes, void **out)
{
    struct toy_backend *toy = self;

    if (toy->alloc_fails || !(*out = malloc(bytes)))
        return ACRE_ERR_HOST_MEMORY;
    toy->live_host++;
    return ACRE_OK;
}

static acre_status toy_host_free(void *self, void *base)
{
    free(base);
    ((struct toy_backend *)self)->live_host--;
    return ACRE_OK;
}

static acre_status toy_host_register(void *self, void *base, size_t bytes)
{
    (void)self, (void)base, (void)bytes;
    return ACRE_OK;
}

static acre_status toy_host_unregister(void *self, void *base)
{
    (void)self, (void)base;
    return ACRE_OK;
}

acre_status toy_backend_start(struct toy_backend *toy, const char *name, acre_device_type type,
                              int device_count)
{
    static const acre_backend_ops ops = {
        .struct_size = sizeof ops,
        .version = ACRE_BACKEND_VERSION,
        .device_count = toy_count,
        .device_info = toy_info,
        .memory_info = toy_memory,
        .alloc = toy_alloc,
        .free = toy_free,
        .copy = toy_copy,
        .copy_async = toy_copy_async,
        .copy_peer_async = toy_copy_peer,
        .fill_async = toy_fill,
        .host_alloc = toy_host_alloc,
        .host_free = toy_host_free,
        .host_register = toy_host_register,
        .host_unregister = toy_host_unregister,
    };
    acre_backend_desc desc = {.struct_size = sizeof desc, .name = name, .type = type,
                              .ops = &ops, .self = toy};

    memset(toy, 0, sizeof *toy);
    toy->device_count = device_count;
    return acre_backend_register(&desc, &toy->backend);
}

void toy_backend_stop(struct toy_backend *toy)
{
    acre_backend_unregister(toy->backend);
    for (int slot = 0; slot < 64; slot++)
        free(toy->bases[slot]);
}
