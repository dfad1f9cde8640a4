/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by stream-ordered memory of a driver. */
#include "tests/conform/allocator_suite.h"
#include "tests/support/standin_bed.h"

static acre_backend *backend;

static acre_status open_async(acre_allocator **out)
{
    acre_status status = standin_backend("cuda", "devices:2,memory:1GiB", &backend);

    return status == ACRE_OK ? acre_async_allocator_create(ACRE_DEVICE_CUDA, out) : status;
}

static void close_async(acre_allocator *allocator)
{
    acre_allocator_destroy(allocator);
    acre_backend_unregister(backend);
    standin_end();
}

ALLOCATOR_SUITE(.open = open_async, .close = close_async, .type = ACRE_DEVICE_CUDA,
                .label = ACRE_DEVICE_CUDA)
T_MAIN()
