/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by the cache of page-locked memory. */
#include "tests/conform/allocator_suite.h"

static acre_status open_pinned(acre_allocator **out)
{
    return acre_pinned_allocator_create(ACRE_DEVICE_PRIVATE, NULL, out);
}

ALLOCATOR_SUITE(.open = open_pinned, .close = acre_allocator_destroy,
                .type = ACRE_DEVICE_PRIVATE, .label = ACRE_DEVICE_CPU, .is_host = true,
                .is_indexless = true, .has_one_account = true)
T_MAIN()
