/* SPDX-License-Identifier: MIT */
#include "tests/support/features/ground.h"

#include "tests/support/opencl_bed.h"
#include "tests/support/standin_bed.h"

#define SIM "devices:2,memory:64MiB"

static uint64_t held_before; /* objects of OpenCL */

acre_backend *backend_open(const char *name)
{
    acre_sim_config config = {.struct_size = sizeof config};
    acre_backend *backend = NULL;

    if (strcmp(name, "host") == 0) {
        REQUIRE_OK(acre_backend_find("host", &backend));
    } else if (strcmp(name, "sim") == 0) {
        REQUIRE_OK(acre_sim_parse(SIM, &config));
        config.name = "features";
        REQUIRE_OK(acre_sim_create(&config, &backend));
    } else if (strcmp(name, "opencl") == 0) {
        backend = bed_begin();
        held_before = bed_held(backend);
    } else {
        standin_use_vendor(name);
        REQUIRE_OK(standin_backend(name, SIM, &backend));
    }
    return backend;
}

void backend_close(const char *name, acre_backend *backend)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    if (strcmp(name, "host") == 0)
        return;
    if (strcmp(name, "sim") == 0) {
        REQUIRE_OK(acre_sim_usage_get(backend, &usage));
        EXPECT_EQ(usage.alloc_count, 0);
        EXPECT_EQ(usage.event_count, 0);
        EXPECT_EQ(usage.graph_count, 0);
    }
    if (strcmp(name, "opencl") == 0)
        EXPECT_EQ(bed_held(backend), held_before);
    acre_backend_unregister(backend);
    if (strcmp(name, "cuda") == 0 || strcmp(name, "hip") == 0)
        standin_end();
}
