/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by a cache on a driver through its stand-in: "cuda",
 * or "hip" shown as CUDA (ACRE_TEST_DRIVER). */
#include "tests/conform/allocator_suite.h"
#include "tests/support/standin_bed.h"

static acre_backend *backend;

static acre_status open_cache(acre_allocator **out)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_ACRE};
    const char *name = standin_vendor();
    acre_status status = standin_backend(name, "devices:2,memory:1GiB", &backend);

    if (status == ACRE_OK && strcmp(name, "hip") == 0)
        status = acre_masquerade_register(backend, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_RENAME);
    if (status != ACRE_OK)
        return status;
    return acre_cache_allocator_create(ACRE_DEVICE_CUDA, &config, out);
}

/* The stand-in's threads end with it. */
static void close_cache(acre_allocator *allocator)
{
    acre_allocator_destroy(allocator);
    acre_backend_unregister(backend);
    standin_end();
}

ALLOCATOR_SUITE(.open = open_cache, .close = close_cache, .type = ACRE_DEVICE_CUDA,
                .label = ACRE_DEVICE_CUDA)
T_MAIN()
