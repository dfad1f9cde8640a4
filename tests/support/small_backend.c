/* SPDX-License-Identifier: MIT */
#include "tests/support/small_backend.h"

#include "base/status.h"

#include <stdatomic.h>

static acre_status small_device_count(void *self, int *out_count)
{
    struct small *small = self;

    if (small->count_status != ACRE_OK)
        return status_fail(small->count_status, "the small backend does not count");
    *out_count = small->device_count;
    return ACRE_OK;
}

static acre_status small_device_info(void *self, int device, acre_device_info *out_info)
{
    struct small *small = self;

    (void)device;
    if (small->info_status != ACRE_OK)
        return status_fail(small->info_status, "the small backend does not tell");
    *out_info = small->info;
    return ACRE_OK;
}

static acre_status small_memory_info(void *self, int device, uint64_t *out_free,
                                     uint64_t *out_total)
{
    struct small *small = self;

    (void)device;
    *out_free = *out_total = small->info.total_bytes;
    return ACRE_OK;
}

static acre_status small_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct small *small = self;

    (void)device;
    if (bytes > small->info.total_bytes)
        return status_fail(ACRE_ERR_DEVICE_MEMORY, "%zu bytes are too many", bytes);
    *out_base = (void *)(uintptr_t)atomic_fetch_add(&small->next, (bytes + 511) & ~(size_t)511);
    return ACRE_OK;
}

static acre_status small_free(void *self, int device, void *base)
{
    (void)self;
    (void)device;
    (void)base;
    return ACRE_OK;
}

static void small_destroy(void *self)
{
    struct small *small = self;

    atomic_fetch_add(&small->destroyed, 1);
}

const acre_backend_ops small_ops = {
    .struct_size = sizeof small_ops,
    .version = ACRE_BACKEND_VERSION,
    .device_count = small_device_count,
    .device_info = small_device_info,
    .memory_info = small_memory_info,
    .alloc = small_alloc,
    .free = small_free,
};

acre_backend_desc small_desc(const char *name, acre_device_type type, struct small *small)
{
    return (acre_backend_desc){
        .struct_size = sizeof(acre_backend_desc),
        .name = name,
        .type = type,
        .ops = &small_ops,
        .self = small,
        .destroy = small_destroy,
    };
}

acre_status small_register(const char *name, acre_device_type type, struct small *small,
                           acre_backend **out)
{
    acre_backend_desc desc = small_desc(name, type, small);

    return acre_backend_register(&desc, out);
}
