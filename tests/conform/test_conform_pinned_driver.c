/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by the cache of page-locked memory on a driver through
 * its stand-in: "cuda", or "hip" shown as CUDA (ACRE_TEST_DRIVER). */
#include "tests/conform/allocator_suite.h"
#include "tests/support/standin_bed.h"

static acre_status open_pinned(acre_allocator **out)
{
    const char *name = standin_vendor();
    acre_backend *backend;

    setenv("STANDIN_SIM", "devices:2,memory:1GiB", 0);
    standin_use_vendor(name);
    acre_status status = acre_backend_find(name, &backend);
    static bool is_shown;
    if (status == ACRE_OK && !is_shown && strcmp(name, "hip") == 0)
        status = acre_masquerade_register(backend, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_RENAME);
    is_shown = true;
    if (status != ACRE_OK)
        return status;
    return acre_pinned_allocator_create(ACRE_DEVICE_CUDA, NULL, out);
}

ALLOCATOR_SUITE(.open = open_pinned, .close = acre_allocator_destroy, .type = ACRE_DEVICE_CUDA,
                .label = ACRE_DEVICE_CPU, .is_host = true, .is_indexless = true,
                .has_one_account = true)
T_MAIN()
