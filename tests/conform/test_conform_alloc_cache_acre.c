/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by the cache of policy acre. */
#include "tests/conform/allocator_suite.h"

static acre_status open_cache(acre_allocator **out)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_ACRE};

    return acre_cache_allocator_create(ACRE_DEVICE_PRIVATE, &config, out);
}

ALLOCATOR_SUITE(.open = open_cache, .close = acre_allocator_destroy, .type = ACRE_DEVICE_PRIVATE,
                .label = ACRE_DEVICE_PRIVATE)
T_MAIN()
