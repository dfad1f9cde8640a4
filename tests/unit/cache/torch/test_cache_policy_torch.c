/* SPDX-License-Identifier: MIT */
/* Decisions of policy torch: rounding, segments, best fit, split and merge,
 * oversize blocks (B1 to B41). */
#include "tests/support/lab.h"

/* ---- Rounding and segments --------------------------------------------------- */

TEST(B1_one_byte)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 1);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 512);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 2097152);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 1);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), 2096640);
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 1);
    lab_close(&lab);
}

TEST(B2_three_small_requests_share_a_segment)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 1);
    lab_alloc(&lab, 512);
    lab_alloc(&lab, 513);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 2048);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 1026);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), 2095104);
    lab_close(&lab);
}

TEST(B3_three_mib_take_a_large_segment)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 3 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 20971520);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 3145728);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 1);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), 17825792);
    lab_close(&lab);
}

TEST(B4_one_mib_is_small_one_byte_more_is_large)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 2 * MIB);
    EXPECT_EQ(lab.stats.reserved_bytes.small_pool.current, 2 * MIB);
    void *a = lab_alloc(&lab, MIB + 1);
    EXPECT_EQ(lab_block_bytes(&lab, a), 1049088);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 22 * MIB);
    EXPECT_EQ(lab.stats.reserved_bytes.large_pool.current, 20 * MIB);
    lab_close(&lab);
}

TEST(B5_two_mib_less_512)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 2 * MIB - 512);
    EXPECT_EQ(lab_stats(&lab)->reserved_bytes.large_pool.current, 20 * MIB);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), 18874880);
    lab_close(&lab);
}

TEST(B6_ten_mib_less_one)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 10 * MIB - 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 10485760);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 10485760);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 0);
    lab_close(&lab);
    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 20);
    lab_alloc(&lab, 10 * MIB - 1);
    EXPECT_STR_EQ(lab_layout(&lab), "10485760*,10485760");
    lab_close(&lab);
}

TEST(B7_ten_mib_less_512_and_511)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 10 * MIB - 512);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 20971520);
    EXPECT_EQ(lab_block_bytes(&lab, a), 10485248);
    lab_close(&lab);
    lab_open(&lab, NULL);
    lab_alloc(&lab, 10 * MIB - 511);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 10485760);
    lab_close(&lab);
}

TEST(B8_ten_mib_and_one)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 10 * MIB + 1);
    EXPECT_STR_EQ(lab_layout(&lab), "10486272*,2096640");
    lab_close(&lab);
}

TEST(B9_eleven_mib_take_twelve)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 11 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "12582912*");
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 12582912);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 11534336);
    lab_close(&lab);
}

TEST(B10_twelve_mib_fit_exactly)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 12 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 12582912);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 12582912);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 0);
    lab_close(&lab);
}

TEST(B11_eleven_mib_from_a_cached_twelve)
{
    struct lab lab;

    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 12);
    lab_free(&lab, lab_alloc(&lab, 11 * MIB));
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 1);
    lab_alloc(&lab, 11 * MIB - 512);
    EXPECT_STR_EQ(lab_layout(&lab), "11533824*,1049088");
    lab_close(&lab);
}

TEST(B12_four_times_600_kib)
{
    struct lab lab;

    lab_open(&lab, NULL);
    for (int i = 0; i < 4; i++)
        lab_alloc(&lab, 600 * KIB);
    EXPECT_STR_EQ(lab_layout(&lab), "614400*,614400*,614400*,253952|614400*,1482752");
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 4194304);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 2);
    lab_close(&lab);
}

TEST(B13_two_of_one_mib_fill_a_small_segment)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, MIB);
    lab_alloc(&lab, MIB);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 0);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    lab_alloc(&lab, 1);
    EXPECT_EQ(CURRENT(&lab, segment), 2);
    lab_close(&lab);
}

TEST(B14_twenty_mib_and_a_gib_and_one)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 20 * MIB);
    lab_alloc(&lab, GIB + 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 1096810496);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 1094713856);
    lab_close(&lab);
}

TEST(B18_roundup_by_four)
{
    struct lab lab;

    lab_open(&lab, "roundup_power2_divisions:4");
    void *a = lab_alloc(&lab, 84 * MIB);
    EXPECT_EQ(lab_block_bytes(&lab, a), 100663296);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 88080384);
    lab_close(&lab);
}

TEST(B19_roundup_by_a_list)
{
    struct lab lab;

    lab_open(&lab, "roundup_power2_divisions:[1:2,2:4,>:8]");
    EXPECT_EQ(lab_block_bytes(&lab, lab_alloc(&lab, MIB + 1)), 1572864);
    EXPECT_EQ(lab_block_bytes(&lab, lab_alloc(&lab, 5 * MIB + 1)), 5767168);
    EXPECT_EQ(lab_block_bytes(&lab, lab_alloc(&lab, 17 * MIB)), 18874368);
    EXPECT_EQ(lab_block_bytes(&lab, lab_alloc(&lab, 33 * MIB + 1)), 37748736);
    lab_close(&lab);
}

TEST(B21_other_large_segments)
{
    struct lab lab;

    lab_open(&lab, "large_segment_size_mb:32");
    lab_alloc(&lab, 3 * MIB);
    lab_alloc(&lab, 12 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "3145728*,12582912*,17825792");
    lab_close(&lab);
    lab_open(&lab, "large_segment_size_mb:11");
    lab_alloc(&lab, 9 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 11 * MIB);
    lab_close(&lab);
}

/* ---- Reuse, best fit, split, merge --------------------------------------------- */

TEST(B22_merging_step_by_step)
{
    static const int order[] = {1, 3, 2, 0, 4};
    static const int64_t counts[] = {2, 3, 2, 2, 0};
    static const int64_t bytes[] = {2093056, 2094080, 2095104, 2096128, 0};
    struct lab lab;
    void *blocks[5];

    lab_open(&lab, NULL);
    for (int i = 0; i < 5; i++)
        blocks[i] = lab_alloc(&lab, 1000);
    for (int i = 0; i < 5; i++) {
        lab_free(&lab, blocks[order[i]]);
        EXPECT_EQ(CURRENT(&lab, inactive_split), counts[i]);
        EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), bytes[i]);
    }
    lab_close(&lab);
}

TEST(B23_the_last_free_leaves_a_whole_segment)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_free(&lab, lab_alloc(&lab, 1000));
    EXPECT_STR_EQ(lab_layout(&lab), "2097152");
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 2097152);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    EXPECT_EQ(COUNT(&lab, num_device_free), 1);
    EXPECT_EQ(COUNT(&lab, num_sync_all_streams), 1);
    lab_close(&lab);
}

TEST(B24_best_fit_among_cached)
{
    struct lab lab;

    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 60, 40, 50);
    void *a = lab_alloc(&lab, 38 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "62914560|39845888*,2097152|52428800");
    lab_free(&lab, a);
    a = lab_alloc(&lab, 39 * MIB + 512);
    EXPECT_STR_EQ(lab_layout(&lab), "62914560|41943040*|52428800");
    lab_alloc(&lab, 41 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "62914560|41943040*|42991616*,9437184");
    lab_close(&lab);
}

TEST(B25_the_remainder_must_exceed_one_mib)
{
    struct lab lab;

    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 20);
    void *a = lab_alloc(&lab, 19 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "20971520*");
    lab_free(&lab, a);
    lab_alloc(&lab, 19 * MIB - 512);
    EXPECT_STR_EQ(lab_layout(&lab), "19922432*,1049088");
    lab_close(&lab);
}

TEST(B26_equal_segments_are_reused_in_order_of_creation)
{
    static const int order[] = {2, 0, 3, 1};
    struct lab lab;
    void *blocks[4];

    lab_open(&lab, NULL);
    for (int i = 0; i < 4; i++)
        blocks[i] = lab_alloc(&lab, 20 * MIB);
    for (int i = 0; i < 4; i++)
        lab_free(&lab, blocks[order[i]]);
    for (int i = 0; i < 4; i++)
        EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB), blocks[i]);
    lab_close(&lab);
}

TEST(B27_the_older_segment_wins_over_the_lower_address)
{
    struct fake_config device = {.is_descending = true};
    struct lab lab;

    lab_open_with(&lab, &device, NULL);
    void *older = lab_alloc(&lab, 20 * MIB), *younger = lab_alloc(&lab, 20 * MIB);
    EXPECT((char *)younger < (char *)older);
    lab_free(&lab, younger);
    lab_free(&lab, older);
    EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB), older);
    lab_close(&lab);
}

TEST(B28_split_and_merge_keep_the_rank)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *first = lab_alloc(&lab, 20 * MIB), *second = lab_alloc(&lab, 20 * MIB);
    lab_free(&lab, first);
    lab_free(&lab, second);
    void *a = lab_alloc(&lab, 5 * MIB), *b = lab_alloc(&lab, 6 * MIB);
    EXPECT_PTR_EQ(a, first);
    lab_free(&lab, a);
    lab_free(&lab, b);
    EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB), first);
    EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB), second);
    lab_close(&lab);
}

TEST(B29_streams_do_not_share)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc_on(&lab, 20 * MIB, 1);
    lab_free(&lab, a);
    EXPECT(lab_alloc_on(&lab, 20 * MIB, 2) != a);
    EXPECT_PTR_EQ(lab_alloc_on(&lab, 20 * MIB, 1), a);
    lab_close(&lab);
}

TEST(B30_pools_do_not_share)
{
    struct lab lab;

    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 20);
    lab_free(&lab, lab_alloc(&lab, MIB));
    EXPECT_STR_EQ(lab_layout(&lab), "20971520|2097152");
    lab_alloc(&lab, 2 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "2097152*,18874368|2097152");
    lab_close(&lab);
}

TEST(B31_requested_size_of_a_free_block_is_stale)
{
    struct lab lab;
    acre_cache_layout *layout;

    lab_open(&lab, NULL);
    lab_free(&lab, lab_alloc(&lab, 3 * MIB));
    REQUIRE_OK(acre_cache_layout_create(lab.cache, &layout));
    EXPECT_EQ(layout->block_count, 1);
    EXPECT_EQ(layout->blocks[0].state, ACRE_BLOCK_FREE);
    EXPECT_EQ(layout->blocks[0].requested_bytes, 3145728);
    acre_cache_layout_destroy(layout);
    lab_close(&lab);
}

TEST(B32_a_second_cut_shrinks_the_same_remainder)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 3 * MIB);
    int64_t before = CURRENT(&lab, inactive_split_bytes);
    lab_alloc(&lab, 4 * MIB);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 1);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), before - (int64_t)(4 * MIB));
    lab_close(&lab);
}

/* ---- max_split_size ---------------------------------------------------------------- */

TEST(B34_oversize_counters)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    lab_alloc(&lab, 100 * MIB);
    EXPECT_EQ(lab_stats(&lab)->oversize_allocations.current, 1);
    EXPECT_EQ(lab_stats(&lab)->oversize_segments.current, 1);
    lab_close(&lab);
}

TEST(B35_a_small_request_leaves_the_oversize_block)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    LAB_CACHE(&lab, 100);
    lab_alloc(&lab, 30 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "104857600|31457280*");
    lab_close(&lab);
}

TEST(B36_an_oversize_block_must_not_be_much_larger)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    LAB_CACHE(&lab, 100);
    lab_alloc(&lab, 79 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "104857600|83886080*");
    lab_close(&lab);
    lab_open(&lab, "max_split_size_mb:40");
    LAB_CACHE(&lab, 100);
    lab_alloc(&lab, 81 * MIB);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 104857600);
    lab_close(&lab);
}

TEST(B37_just_below_max_split)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    LAB_CACHE(&lab, 30, 80, 100);
    lab_alloc(&lab, 40 * MIB - 512);
    EXPECT_STR_EQ(lab_layout(&lab), "31457280|83886080|104857600|41943040*");
    lab_close(&lab);
}

TEST(B41_more_waste_allowed)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40,max_non_split_rounding_mb:1024");
    LAB_CACHE(&lab, 100);
    lab_alloc(&lab, 50 * MIB);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 104857600);
    lab_close(&lab);
}

/* A change of max_split_size at run time leaves no counter behind. */
TEST(oversize_counters_do_not_drift)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    void *a = lab_alloc(&lab, 100 * MIB);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, ""));
    lab_free(&lab, a);
    a = lab_alloc(&lab, 90 * MIB);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "max_split_size_mb:40"));
    lab_free(&lab, a);
    EXPECT_EQ(lab_stats(&lab)->oversize_allocations.current, 0);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(lab_stats(&lab)->oversize_segments.current, 0);
    lab_close(&lab);
}

T_MAIN()
