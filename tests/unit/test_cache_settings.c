/* SPDX-License-Identifier: MIT */
#include "base/heap.h"
#include "tests/support/rig.h"

TEST(statistics_need_the_size_of_the_struct)
{
    struct rig rig;
    acre_cache_stats stats = {0};

    rig_open(&rig, NULL);
    EXPECT_EQ(acre_cache_stats_get(rig.cache, &stats), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "struct_size");
    EXPECT_EQ(acre_cache_stats_get(rig.cache, NULL), ACRE_ERR_INVALID);
    rig_close(&rig);
}

TEST(info_may_fail_and_raises_only)
{
    struct rig rig;
    uint64_t largest = 0;

    rig_open(&rig, NULL);
    fake_fail(rig.fake, FAKE_MEMORY_INFO, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_cache_info(rig.cache, &largest), ACRE_ERR_DEVICE);
    EXPECT_EQ(largest, 0);
    RIG_CACHE(&rig, 30);
    largest = 100 * MIB;
    REQUIRE_OK(acre_cache_info(rig.cache, &largest));
    EXPECT_EQ(largest, 100 * MIB);
    rig_close(&rig);
}

TEST(options_at_run_time_need_memory_and_text)
{
    struct rig rig;
    bool has_failed = true;

    rig_open(&rig, NULL);
    EXPECT_EQ(acre_cache_conf_set(rig.cache, NULL), ACRE_ERR_INVALID);
    uint64_t before = heap_live_count();
    for (uint64_t nth = 1; has_failed; nth++) {
        heap_fail_nth(nth);
        acre_status status = acre_cache_conf_set(rig.cache, "max_split_size_mb:40");
        has_failed = heap_fail_disarm();
        EXPECT_EQ(status, has_failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        EXPECT_EQ(heap_live_count(), before);
    }
    rig_close(&rig);
}

TEST(a_limit_below_what_is_held_only_stops_growth)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *a = rig_alloc(&rig, 100 * MIB);
    acre_cache_limit_set(rig.cache, 50 * MIB);
    rig_free(&rig, a);
    EXPECT_PTR_EQ(rig_alloc(&rig, 100 * MIB), a);
    EXPECT_EQ(rig_try(&rig, 1), ACRE_ERR_DEVICE_MEMORY);
    rig_close(&rig);
}

T_MAIN()
