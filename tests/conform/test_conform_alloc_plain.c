/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by the plain one on the reference device. */
#include "tests/conform/allocator_suite.h"

static acre_status open_plain(acre_allocator **out)
{
    return acre_plain_allocator_create(ACRE_DEVICE_PRIVATE, out);
}

ALLOCATOR_SUITE(.open = open_plain, .close = acre_allocator_destroy, .type = ACRE_DEVICE_PRIVATE,
                .label = ACRE_DEVICE_PRIVATE)
T_MAIN()
