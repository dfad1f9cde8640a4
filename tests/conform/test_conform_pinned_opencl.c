/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by the cache of page-locked memory over OpenCL. */
#include "tests/conform/allocator_suite.h"
#include "tests/support/opencl_bed.h"

static acre_status open_pinned(acre_allocator **out)
{
    bed_begin();
    return acre_pinned_allocator_create(ACRE_DEVICE_OPENCL, NULL, out);
}

ALLOCATOR_SUITE(.open = open_pinned, .close = acre_allocator_destroy,
                .type = ACRE_DEVICE_OPENCL, .label = ACRE_DEVICE_CPU, .is_host = true,
                .is_indexless = true, .has_one_account = true)
T_MAIN()
