/* SPDX-License-Identifier: MIT */
/* The threads of test_cache_threads.c, on OpenCL. */
#include "tests/support/opencl_bed.h"
#include "tests/support/t.h"

#define GROUND
#define STEPS t_count(2000, 20000)

static acre_backend *ground_open(void)
{
    setenv("ACRE_OPENCL", "memory:96MiB", 1);
    return bed_begin();
}

static uint64_t ground_held(acre_backend *backend)
{
    return bed_held(backend);
}

#include "tests/stress/test_cache_threads.c"
