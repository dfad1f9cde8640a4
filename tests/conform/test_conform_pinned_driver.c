/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by the cache of page-locked memory on a driver through
 * its stand-in: "cuda", or "hip" shown as CUDA (ACRE_TEST_DRIVER). */
#include "tests/conform/allocator_suite.h"
#include "tests/support/standin_bed.h"

static acre_backend *backend;

static acre_status open_pinned(acre_allocator **out)
{
    const char *name = standin_vendor();
    acre_status status = standin_backend(name, "devices:2,memory:1GiB", &backend);

    if (status == ACRE_OK && strcmp(name, "hip") == 0)
        status = acre_masquerade_register(backend, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_RENAME);
    return status == ACRE_OK ? acre_pinned_allocator_create(ACRE_DEVICE_CUDA, NULL, out) : status;
}

/* The stand-in's threads end with it. */
static void close_pinned(acre_allocator *allocator)
{
    acre_allocator_destroy(allocator);
    acre_backend_unregister(backend);
    standin_end();
}

ALLOCATOR_SUITE(.open = open_pinned, .close = close_pinned, .type = ACRE_DEVICE_CUDA,
                .label = ACRE_DEVICE_CPU, .is_host = true, .is_indexless = true,
                .has_one_account = true)
T_MAIN()
