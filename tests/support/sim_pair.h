/* SPDX-License-Identifier: MIT */
/* Two small reference devices for one test, under a type of one's choice. */
#ifndef TESTS_SUPPORT_SIM_PAIR_H
#define TESTS_SUPPORT_SIM_PAIR_H

#include "tests/support/t.h"

#include <acre/acre.h>

static inline acre_backend *sim_pair(const char *name, acre_device_type type,
                                     acre_stream_codec codec)
{
    const acre_sim_config config = {
        .struct_size = sizeof config,
        .devices = 2,
        .memory_bytes = 64 << 20,
        .name = name,
        .type = type,
        .codec = (uint32_t)codec,
    };
    acre_backend *backend;

    REQUIRE_OK(acre_sim_create(&config, &backend));
    return backend;
}

#endif
