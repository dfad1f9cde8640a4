/* SPDX-License-Identifier: MIT */
/* The rules for backends, kept by the CUDA driver backend over the stand-in. */
#include "tests/conform/backend_suite.h"
#include "tests/support/driver_bed.h"

static acre_status open_cuda(acre_backend **out)
{
    return bed_open(&vendor_cuda, out);
}

static void close_cuda(acre_backend *backend)
{
    bed_close(&vendor_cuda, backend);
}

static uint64_t held(acre_backend *backend)
{
    (void)backend;
    return bed_held(&vendor_cuda);
}

BACKEND_SUITE(.open = open_cuda, .close = close_cuda, .held = held,
              .is_exact = true, .fresh_is_zero = true)
T_MAIN()
