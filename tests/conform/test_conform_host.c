/* SPDX-License-Identifier: MIT */
/* The rules for backends, kept by "host". */
#include "tests/conform/backend_suite.h"

static acre_status open_host(acre_backend **out)
{
    return acre_backend_find("host", out);
}

BACKEND_SUITE(.open = open_host, .close = acre_backend_unregister, .fresh_is_zero = true)
T_MAIN()
