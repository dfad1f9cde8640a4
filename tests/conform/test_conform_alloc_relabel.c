/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by one that is shown under another type. */
#include "tests/conform/allocator_suite.h"

static acre_allocator *inner;

static acre_status open_relabel(acre_allocator **out)
{
    acre_status status = acre_plain_allocator_create(ACRE_DEVICE_PRIVATE, &inner);

    return status != ACRE_OK ? status
                             : acre_relabel_allocator_create(inner, ACRE_DEVICE_PRIVATE,
                                                             ACRE_DEVICE_CUDA, out);
}

static void close_relabel(acre_allocator *allocator)
{
    acre_allocator_destroy(allocator);
    acre_allocator_destroy(inner);
}

ALLOCATOR_SUITE(.open = open_relabel, .close = close_relabel, .type = ACRE_DEVICE_PRIVATE,
                .label = ACRE_DEVICE_CUDA)
T_MAIN()
