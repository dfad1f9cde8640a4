/* SPDX-License-Identifier: MIT */
/* The threads and streams of test_cache_lanes.c, on OpenCL. */
#include "tests/support/opencl_bed.h"
#include "tests/support/t.h"

#define GROUND
#define STEPS t_count(300, 20000)

static acre_backend *ground_open(const char *memory)
{
    setenv("ACRE_OPENCL", memory, 1);
    return bed_begin();
}

#include "tests/stress/test_cache_lanes.c"
