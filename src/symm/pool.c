/* SPDX-License-Identifier: MIT */
/* A backend whose device memory is symmetric: a cache on it serves blocks, and what it hands
 * out can be rendezvoused at its offset. One pad per segment; whoever wants one per tensor
 * allocates blocks. */
#include "base/heap.h"
#include "base/status.h"

#include <acre/symm.h>

#include <stdio.h>
#include <sys/sysinfo.h>

static acre_status pool_device_count(void *self, int *out)
{
    (void)self;
    *out = 1;
    return ACRE_OK;
}

static acre_status pool_memory_info(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    struct sysinfo info;

    (void)self;
    (void)device;
    if (sysinfo(&info) != 0)
        return status_fail(ACRE_ERR_IO, "symmetric memory: the size of memory is not known");
    *out_free = (uint64_t)info.freeram * info.mem_unit;
    *out_total = (uint64_t)info.totalram * info.mem_unit;
    return ACRE_OK;
}

static acre_status pool_device_info(void *self, int device, acre_device_info *out)
{
    uint64_t bytes_free;

    *out = (acre_device_info){.alloc_granularity = 4096};
    snprintf(out->name, sizeof out->name, "symmetric memory");
    return pool_memory_info(self, device, &bytes_free, &out->total_bytes);
}

static acre_status pool_alloc(void *self, int device, size_t bytes, void **out)
{
    (void)self;
    (void)device;
    acre_status status = acre_symm_alloc(NULL, bytes, out);
    return status == ACRE_ERR_HOST_MEMORY ? ACRE_ERR_DEVICE_MEMORY : status;
}

static acre_status pool_free(void *self, int device, void *base)
{
    (void)self;
    (void)device;
    acre_symm_free(base);
    return ACRE_OK;
}

ACRE_API acre_status acre_symm_backend_create(const char *name, acre_backend **out)
{
    static const acre_backend_ops ops = {.struct_size = sizeof ops,
                                         .version = ACRE_BACKEND_VERSION,
                                         .device_count = pool_device_count,
                                         .device_info = pool_device_info,
                                         .memory_info = pool_memory_info,
                                         .alloc = pool_alloc,
                                         .free = pool_free};
    acre_backend_desc desc = {.struct_size = sizeof desc,
                              .name = name,
                              .type = ACRE_DEVICE_CPU,
                              .ops = &ops,
                              .flags = ACRE_BACKEND_FORK_SAFE};

    if (!name || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_backend_create: %s is NULL",
                           name ? "out" : "name");
    return acre_backend_register(&desc, out);
}
