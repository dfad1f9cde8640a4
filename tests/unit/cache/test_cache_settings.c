/* SPDX-License-Identifier: MIT */
#include "base/heap.h"
#include "tests/support/lab.h"

TEST(statistics_need_the_size_of_the_struct)
{
    struct lab lab;
    acre_cache_stats stats = {0};

    lab_open(&lab, NULL);
    EXPECT_EQ(acre_cache_stats_get(lab.cache, &stats), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "struct_size");
    EXPECT_EQ(acre_cache_stats_get(lab.cache, NULL), ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(info_may_fail_and_changes_nothing_then)
{
    struct lab lab;
    uint64_t largest = 7, device_free = 7;

    lab_open(&lab, NULL);
    fake_fail(lab.fake, FAKE_MEMORY_INFO, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_cache_info(lab.cache, &largest, &device_free), ACRE_ERR_DEVICE);
    EXPECT_EQ(largest, 7);
    EXPECT_EQ(device_free, 7);
    lab_close(&lab);
}

TEST(options_at_run_time_need_memory_and_text)
{
    struct lab lab;
    bool has_failed = true;

    lab_open(&lab, NULL);
    EXPECT_EQ(acre_cache_conf_set(lab.cache, NULL), ACRE_ERR_INVALID);
    uint64_t before = heap_live_count();
    for (uint64_t nth = 1; has_failed; nth++) {
        heap_fail_nth(nth);
        acre_status status = acre_cache_conf_set(lab.cache, "max_split_size_mb:40");
        has_failed = heap_fail_disarm();
        EXPECT_EQ(status, has_failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        EXPECT_EQ(heap_live_count(), before);
    }
    lab_close(&lab);
}

TEST(a_limit_below_what_is_held_only_stops_growth)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 100 * MIB);
    acre_cache_limit_set(lab.cache, 50 * MIB);
    lab_free(&lab, a);
    EXPECT_PTR_EQ(lab_alloc(&lab, 100 * MIB), a);
    EXPECT_EQ(lab_try(&lab, 1), ACRE_ERR_DEVICE_MEMORY);
    lab_close(&lab);
}

T_MAIN()
