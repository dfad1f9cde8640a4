/* SPDX-License-Identifier: MIT */
/* The rules for backends, kept by the reference device. */
#include "tests/conform/backend_suite.h"

static acre_status open_sim(acre_backend **out)
{
    const acre_sim_config config = {
        .struct_size = sizeof config,
        .devices = 2,
        .memory_bytes = (uint64_t)1 << 30,
        .name = "sim-conform",
    };

    return acre_sim_create(&config, out);
}

static uint64_t held(acre_backend *backend)
{
    acre_sim_usage u = {.struct_size = sizeof u};

    REQUIRE_OK(acre_sim_usage_get(backend, &u));
    return u.alloc_count + u.host_count + u.reserve_count + u.handle_count + u.map_count +
           u.stream_count + u.event_count + u.graph_count + u.window_count + u.bytes_used +
           u.reserved_bytes;
}

BACKEND_SUITE(.open = open_sim, .close = acre_backend_unregister, .held = held,
              .is_exact = true, .fresh_is_zero = true)
T_MAIN()
