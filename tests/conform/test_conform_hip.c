/* SPDX-License-Identifier: MIT */
/* The rules for backends, kept by the HIP driver backend over the stand-in. */
#include "tests/conform/backend_suite.h"
#include "tests/support/driver_bed.h"

static acre_status open_hip(acre_backend **out)
{
    return bed_open(&vendor_hip, out);
}

static void close_hip(acre_backend *backend)
{
    bed_close(&vendor_hip, backend);
}

static uint64_t held(acre_backend *backend)
{
    (void)backend;
    return bed_held(&vendor_hip);
}

BACKEND_SUITE(.open = open_hip, .close = close_hip, .held = held,
              .is_exact = true, .fresh_is_zero = true)
T_MAIN()
