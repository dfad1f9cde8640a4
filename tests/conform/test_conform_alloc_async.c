/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by stream-ordered memory of a driver. */
#include "tests/conform/allocator_suite.h"
#include "tests/support/standin_bed.h"

static acre_status open_async(acre_allocator **out)
{
    acre_backend *backend;

    setenv("STANDIN_SIM", "devices:2,memory:1GiB", 0);
    standin_use_vendor("cuda");
    acre_status status = acre_backend_find("cuda", &backend);

    return status == ACRE_OK ? acre_async_allocator_create(ACRE_DEVICE_CUDA, out) : status;
}

ALLOCATOR_SUITE(.open = open_async, .close = acre_allocator_destroy, .type = ACRE_DEVICE_CUDA,
                .label = ACRE_DEVICE_CUDA)
T_MAIN()
