/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by one cache on a backend of one device. */
#include "tests/conform/allocator_suite.h"

static acre_backend *backend;
static acre_cache *cache;

static acre_status open_single(acre_allocator **out)
{
    acre_sim_config config = {.struct_size = sizeof config, .devices = 1,
                              .type = ACRE_DEVICE_OPENCL};
    acre_device *device;
    acre_status status = acre_sim_create(&config, &backend);

    if (status == ACRE_OK)
        status = acre_backend_device(backend, 0, &device);
    if (status == ACRE_OK)
        status = acre_cache_create(device, NULL, &cache);
    return status == ACRE_OK ? acre_cache_allocator(cache, out) : status;
}

static void close_single(acre_allocator *allocator)
{
    acre_allocator_destroy(allocator);
    acre_cache_destroy(cache);
    acre_backend_unregister(backend);
}

ALLOCATOR_SUITE(.open = open_single, .close = close_single, .type = ACRE_DEVICE_OPENCL,
                .label = ACRE_DEVICE_OPENCL)
T_MAIN()
