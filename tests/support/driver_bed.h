/* SPDX-License-Identifier: MIT */
/* A driver backend over a stand-in of its vendor's library.
 *
 * The stand-in holds two reference devices of a gigabyte unless STANDIN_SIM was
 * set. It stays loaded, so what it holds is asked of the same copy each time.
 */
#ifndef TESTS_SUPPORT_DRIVER_BED_H
#define TESTS_SUPPORT_DRIVER_BED_H

#include "driver/cuda.h"
#include "driver/hip.h"
#include "tests/standin/standin.h"
#include "tests/support/t.h"

#include <dlfcn.h>
#include <unistd.h>

/* The stand-in's path; says to the backend to use it. NULL when it was not built. */
static inline const char *bed_library(const struct vendor *vendor)
{
    bool is_cuda = vendor->vendor == VENDOR_CUDA;
    const char *path = is_cuda ? ACRE_BUILD "/tests/standin/libcuda.so.1"
                               : ACRE_BUILD "/tests/standin/libamdhip64.so";

    setenv("STANDIN_SIM", "devices:2,memory:1GiB", 0);
    setenv(is_cuda ? "ACRE_CUDA_LIBRARY" : "ACRE_HIP_LIBRARY", path, 1);
    return access(path, R_OK) == 0 ? path : NULL;
}

/* A function of the stand-in. */
static inline void *bed_symbol(const struct vendor *vendor, const char *name)
{
    void *library = dlopen(bed_library(vendor), RTLD_NOW);
    void *symbol;

    REQUIRE(library != NULL);
    symbol = dlsym(library, name);
    REQUIRE(symbol != NULL);
    dlclose(library);
    return symbol;
}

static inline acre_status bed_open(const struct vendor *vendor, acre_backend **out)
{
    if (!bed_library(vendor))
        T_SKIP("the stand-in for %s was not built", vendor->name);
    return driver_start(vendor, out);
}

/* Everything the stand-in's callers hold, contexts apart. */
static inline uint64_t bed_held(const struct vendor *vendor)
{
    uint64_t (*live)(struct standin_live *) =
        (uint64_t(*)(struct standin_live *))bed_symbol(vendor, "standin_live");
    struct standin_live held;
    uint64_t sum = live(&held);

    return sum - held.contexts;
}

#endif
