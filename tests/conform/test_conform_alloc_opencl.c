/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by caches on OpenCL devices. */
#include "tests/conform/allocator_suite.h"
#include "tests/support/opencl_bed.h"

static acre_status open_cache(acre_allocator **out)
{
    bed_begin();
    return acre_cache_allocator_create(ACRE_DEVICE_OPENCL, NULL, out);
}

ALLOCATOR_SUITE(.open = open_cache, .close = acre_allocator_destroy, .type = ACRE_DEVICE_OPENCL,
                .label = ACRE_DEVICE_OPENCL)
T_MAIN()
