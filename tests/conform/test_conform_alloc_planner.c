/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by a planner in front of a cache. */
#include "tests/conform/allocator_suite.h"

static acre_backend *backend;
static acre_cache *cache;
static acre_planner *planner;

static acre_status open_planner(acre_allocator **out)
{
    acre_sim_config config = {.struct_size = sizeof config, .devices = 1,
                              .type = ACRE_DEVICE_OPENCL};
    acre_device *device;
    acre_status status = acre_sim_create(&config, &backend);

    if (status == ACRE_OK)
        status = acre_backend_device(backend, 0, &device);
    if (status == ACRE_OK)
        status = acre_cache_create(device, NULL, &cache);
    if (status == ACRE_OK)
        status = acre_planner_create(cache, NULL, &planner);
    return status == ACRE_OK ? acre_planner_allocator(planner, out) : status;
}

static void close_planner(acre_allocator *allocator)
{
    acre_allocator_destroy(allocator);
    acre_planner_destroy(planner);
    acre_cache_destroy(cache);
    acre_backend_unregister(backend);
}

/* A round of one size ends in the arena, whose memory holds what is written. */
TEST(planned_memory_is_memory)
{
    acre_allocator *allocator;
    acre_planner_stats stats = {.struct_size = sizeof stats};
    acre_data_ptr ptrs[16];

    REQUIRE_OK(open_planner(&allocator));
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 16; i++) {
            REQUIRE_OK(acre_allocator_allocate(allocator, 4096 * (size_t)(1 + i), &ptrs[i]));
            allocator_fill(&ptrs[i], 'A' + i, 4096 * (size_t)(1 + i));
        }
        for (int i = 0; i < 16; i++) {
            EXPECT(allocator_holds(&ptrs[i], 'A' + i, 4096 * (size_t)(1 + i)));
            acre_data_ptr_clear(&ptrs[i]);
        }
    }
    REQUIRE_OK(acre_planner_stats_get(planner, &stats));
    EXPECT_EQ(stats.is_following, 1);
    EXPECT_EQ(stats.departures, 0);
    close_planner(allocator);
}

ALLOCATOR_SUITE(.open = open_planner, .close = close_planner, .type = ACRE_DEVICE_OPENCL,
                .label = ACRE_DEVICE_OPENCL)
T_MAIN()
