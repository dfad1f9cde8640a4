/* SPDX-License-Identifier: MIT */
/* The rules for backends, kept by OpenCL. */
#include "tests/conform/backend_suite.h"
#include "tests/support/opencl_bed.h"

static acre_status open_opencl(acre_backend **out)
{
    *out = bed_begin();
    return ACRE_OK;
}

BACKEND_SUITE(.open = open_opencl, .close = acre_backend_unregister, .held = bed_held,
              .is_exact = true)
T_MAIN()
