/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by plain page-locked memory. */
#include "tests/conform/allocator_suite.h"

static acre_status open_host(acre_allocator **out)
{
    return acre_plain_host_allocator_create(ACRE_DEVICE_PRIVATE, out);
}

ALLOCATOR_SUITE(.open = open_host, .close = acre_allocator_destroy, .type = ACRE_DEVICE_PRIVATE,
                .label = ACRE_DEVICE_CPU, .is_host = true, .is_indexless = true)
T_MAIN()
