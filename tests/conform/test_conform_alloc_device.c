/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by the one of caches that a process shares. */
#include "tests/conform/allocator_suite.h"

static acre_status open_shared(acre_allocator **out)
{
    return acre_device_allocator(ACRE_DEVICE_PRIVATE, out);
}

ALLOCATOR_SUITE(.open = open_shared, .close = acre_allocator_destroy,
                .type = ACRE_DEVICE_PRIVATE, .label = ACRE_DEVICE_PRIVATE)
T_MAIN()
