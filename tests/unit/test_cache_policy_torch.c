/* SPDX-License-Identifier: MIT */
/* Decisions of policy torch: rounding, segments, best fit, split and merge,
 * oversize blocks (B1 to B41). */
#include "tests/support/rig.h"

/* ---- Rounding and segments --------------------------------------------------- */

TEST(B1_one_byte)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 1);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 512);
    EXPECT_EQ(CURRENT(&rig, requested_bytes), 1);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 2097152);
    EXPECT_EQ(CURRENT(&rig, segment), 1);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 1);
    EXPECT_EQ(CURRENT(&rig, inactive_split_bytes), 2096640);
    EXPECT_EQ(COUNT(&rig, num_device_alloc), 1);
    rig_close(&rig);
}

TEST(B2_three_small_requests_share_a_segment)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 1);
    rig_alloc(&rig, 512);
    rig_alloc(&rig, 513);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 2048);
    EXPECT_EQ(CURRENT(&rig, requested_bytes), 1026);
    EXPECT_EQ(CURRENT(&rig, segment), 1);
    EXPECT_EQ(CURRENT(&rig, inactive_split_bytes), 2095104);
    rig_close(&rig);
}

TEST(B3_three_mib_take_a_large_segment)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 3 * MIB);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 20971520);
    EXPECT_EQ(CURRENT(&rig, segment), 1);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 3145728);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 1);
    EXPECT_EQ(CURRENT(&rig, inactive_split_bytes), 17825792);
    rig_close(&rig);
}

TEST(B4_one_mib_is_small_one_byte_more_is_large)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, MIB);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 2 * MIB);
    EXPECT_EQ(rig.stats.reserved_bytes.small_pool.current, 2 * MIB);
    void *a = rig_alloc(&rig, MIB + 1);
    EXPECT_EQ(rig_block_bytes(&rig, a), 1049088);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 22 * MIB);
    EXPECT_EQ(rig.stats.reserved_bytes.large_pool.current, 20 * MIB);
    rig_close(&rig);
}

TEST(B5_two_mib_less_512)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 2 * MIB - 512);
    EXPECT_EQ(rig_stats(&rig)->reserved_bytes.large_pool.current, 20 * MIB);
    EXPECT_EQ(CURRENT(&rig, inactive_split_bytes), 18874880);
    rig_close(&rig);
}

TEST(B6_ten_mib_less_one)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 10 * MIB - 1);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 10485760);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 10485760);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 0);
    rig_close(&rig);
    rig_open(&rig, NULL);
    RIG_CACHE(&rig, 20);
    rig_alloc(&rig, 10 * MIB - 1);
    EXPECT_STR_EQ(rig_layout(&rig), "10485760*,10485760");
    rig_close(&rig);
}

TEST(B7_ten_mib_less_512_and_511)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *a = rig_alloc(&rig, 10 * MIB - 512);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 20971520);
    EXPECT_EQ(rig_block_bytes(&rig, a), 10485248);
    rig_close(&rig);
    rig_open(&rig, NULL);
    rig_alloc(&rig, 10 * MIB - 511);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 10485760);
    rig_close(&rig);
}

TEST(B8_ten_mib_and_one)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 10 * MIB + 1);
    EXPECT_STR_EQ(rig_layout(&rig), "10486272*,2096640");
    rig_close(&rig);
}

TEST(B9_eleven_mib_take_twelve)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 11 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "12582912*");
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 12582912);
    EXPECT_EQ(CURRENT(&rig, requested_bytes), 11534336);
    rig_close(&rig);
}

TEST(B10_twelve_mib_fit_exactly)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 12 * MIB);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 12582912);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 12582912);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 0);
    rig_close(&rig);
}

TEST(B11_eleven_mib_from_a_cached_twelve)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RIG_CACHE(&rig, 12);
    rig_free(&rig, rig_alloc(&rig, 11 * MIB));
    EXPECT_EQ(COUNT(&rig, num_device_alloc), 1);
    rig_alloc(&rig, 11 * MIB - 512);
    EXPECT_STR_EQ(rig_layout(&rig), "11533824*,1049088");
    rig_close(&rig);
}

TEST(B12_four_times_600_kib)
{
    struct rig rig;

    rig_open(&rig, NULL);
    for (int i = 0; i < 4; i++)
        rig_alloc(&rig, 600 * KIB);
    EXPECT_STR_EQ(rig_layout(&rig), "614400*,614400*,614400*,253952|614400*,1482752");
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 4194304);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 2);
    rig_close(&rig);
}

TEST(B13_two_of_one_mib_fill_a_small_segment)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, MIB);
    rig_alloc(&rig, MIB);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 0);
    EXPECT_EQ(CURRENT(&rig, segment), 1);
    rig_alloc(&rig, 1);
    EXPECT_EQ(CURRENT(&rig, segment), 2);
    rig_close(&rig);
}

TEST(B14_twenty_mib_and_a_gib_and_one)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 20 * MIB);
    rig_alloc(&rig, GIB + 1);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 1096810496);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 1094713856);
    rig_close(&rig);
}

TEST(B18_roundup_by_four)
{
    struct rig rig;

    rig_open(&rig, "roundup_power2_divisions:4");
    void *a = rig_alloc(&rig, 84 * MIB);
    EXPECT_EQ(rig_block_bytes(&rig, a), 100663296);
    EXPECT_EQ(CURRENT(&rig, requested_bytes), 88080384);
    rig_close(&rig);
}

TEST(B19_roundup_by_a_list)
{
    struct rig rig;

    rig_open(&rig, "roundup_power2_divisions:[1:2,2:4,>:8]");
    EXPECT_EQ(rig_block_bytes(&rig, rig_alloc(&rig, MIB + 1)), 1572864);
    EXPECT_EQ(rig_block_bytes(&rig, rig_alloc(&rig, 5 * MIB + 1)), 5767168);
    EXPECT_EQ(rig_block_bytes(&rig, rig_alloc(&rig, 17 * MIB)), 18874368);
    EXPECT_EQ(rig_block_bytes(&rig, rig_alloc(&rig, 33 * MIB + 1)), 37748736);
    rig_close(&rig);
}

TEST(B21_other_large_segments)
{
    struct rig rig;

    rig_open(&rig, "large_segment_size_mb:32");
    rig_alloc(&rig, 3 * MIB);
    rig_alloc(&rig, 12 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "3145728*,12582912*,17825792");
    rig_close(&rig);
    rig_open(&rig, "large_segment_size_mb:11");
    rig_alloc(&rig, 9 * MIB);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 11 * MIB);
    rig_close(&rig);
}

/* ---- Reuse, best fit, split, merge --------------------------------------------- */

TEST(B22_merging_step_by_step)
{
    static const int order[] = {1, 3, 2, 0, 4};
    static const int64_t counts[] = {2, 3, 2, 2, 0};
    static const int64_t bytes[] = {2093056, 2094080, 2095104, 2096128, 0};
    struct rig rig;
    void *blocks[5];

    rig_open(&rig, NULL);
    for (int i = 0; i < 5; i++)
        blocks[i] = rig_alloc(&rig, 1000);
    for (int i = 0; i < 5; i++) {
        rig_free(&rig, blocks[order[i]]);
        EXPECT_EQ(CURRENT(&rig, inactive_split), counts[i]);
        EXPECT_EQ(CURRENT(&rig, inactive_split_bytes), bytes[i]);
    }
    rig_close(&rig);
}

TEST(B23_the_last_free_leaves_a_whole_segment)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_free(&rig, rig_alloc(&rig, 1000));
    EXPECT_STR_EQ(rig_layout(&rig), "2097152");
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 2097152);
    REQUIRE_OK(acre_cache_empty(rig.cache));
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 0);
    EXPECT_EQ(COUNT(&rig, num_device_free), 1);
    EXPECT_EQ(COUNT(&rig, num_sync_all_streams), 1);
    rig_close(&rig);
}

TEST(B24_best_fit_among_cached)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RIG_CACHE(&rig, 60, 40, 50);
    void *a = rig_alloc(&rig, 38 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "62914560|39845888*,2097152|52428800");
    rig_free(&rig, a);
    a = rig_alloc(&rig, 39 * MIB + 512);
    EXPECT_STR_EQ(rig_layout(&rig), "62914560|41943040*|52428800");
    rig_alloc(&rig, 41 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "62914560|41943040*|42991616*,9437184");
    rig_close(&rig);
}

TEST(B25_the_remainder_must_exceed_one_mib)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RIG_CACHE(&rig, 20);
    void *a = rig_alloc(&rig, 19 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "20971520*");
    rig_free(&rig, a);
    rig_alloc(&rig, 19 * MIB - 512);
    EXPECT_STR_EQ(rig_layout(&rig), "19922432*,1049088");
    rig_close(&rig);
}

TEST(B26_equal_segments_are_reused_in_order_of_creation)
{
    static const int order[] = {2, 0, 3, 1};
    struct rig rig;
    void *blocks[4];

    rig_open(&rig, NULL);
    for (int i = 0; i < 4; i++)
        blocks[i] = rig_alloc(&rig, 20 * MIB);
    for (int i = 0; i < 4; i++)
        rig_free(&rig, blocks[order[i]]);
    for (int i = 0; i < 4; i++)
        EXPECT_PTR_EQ(rig_alloc(&rig, 20 * MIB), blocks[i]);
    rig_close(&rig);
}

TEST(B27_the_older_segment_wins_over_the_lower_address)
{
    struct fake_config device = {.is_descending = true};
    struct rig rig;

    rig_open_with(&rig, &device, NULL);
    void *older = rig_alloc(&rig, 20 * MIB), *younger = rig_alloc(&rig, 20 * MIB);
    EXPECT((char *)younger < (char *)older);
    rig_free(&rig, younger);
    rig_free(&rig, older);
    EXPECT_PTR_EQ(rig_alloc(&rig, 20 * MIB), older);
    rig_close(&rig);
}

TEST(B28_split_and_merge_keep_the_rank)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *first = rig_alloc(&rig, 20 * MIB), *second = rig_alloc(&rig, 20 * MIB);
    rig_free(&rig, first);
    rig_free(&rig, second);
    void *a = rig_alloc(&rig, 5 * MIB), *b = rig_alloc(&rig, 6 * MIB);
    EXPECT_PTR_EQ(a, first);
    rig_free(&rig, a);
    rig_free(&rig, b);
    EXPECT_PTR_EQ(rig_alloc(&rig, 20 * MIB), first);
    EXPECT_PTR_EQ(rig_alloc(&rig, 20 * MIB), second);
    rig_close(&rig);
}

TEST(B29_streams_do_not_share)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *a = rig_alloc_on(&rig, 20 * MIB, 1);
    rig_free(&rig, a);
    EXPECT(rig_alloc_on(&rig, 20 * MIB, 2) != a);
    EXPECT_PTR_EQ(rig_alloc_on(&rig, 20 * MIB, 1), a);
    rig_close(&rig);
}

TEST(B30_pools_do_not_share)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RIG_CACHE(&rig, 20);
    rig_free(&rig, rig_alloc(&rig, MIB));
    EXPECT_STR_EQ(rig_layout(&rig), "20971520|2097152");
    rig_alloc(&rig, 2 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "2097152*,18874368|2097152");
    rig_close(&rig);
}

TEST(B31_requested_size_of_a_free_block_is_stale)
{
    struct rig rig;
    acre_cache_layout *layout;

    rig_open(&rig, NULL);
    rig_free(&rig, rig_alloc(&rig, 3 * MIB));
    REQUIRE_OK(acre_cache_layout_create(rig.cache, &layout));
    EXPECT_EQ(layout->block_count, 1);
    EXPECT_EQ(layout->blocks[0].state, ACRE_BLOCK_FREE);
    EXPECT_EQ(layout->blocks[0].requested_bytes, 3145728);
    acre_cache_layout_destroy(layout);
    rig_close(&rig);
}

TEST(B32_a_second_cut_shrinks_the_same_remainder)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_alloc(&rig, 3 * MIB);
    int64_t before = CURRENT(&rig, inactive_split_bytes);
    rig_alloc(&rig, 4 * MIB);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 1);
    EXPECT_EQ(CURRENT(&rig, inactive_split_bytes), before - (int64_t)(4 * MIB));
    rig_close(&rig);
}

/* ---- max_split_size ---------------------------------------------------------------- */

TEST(B34_oversize_counters)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40");
    rig_alloc(&rig, 100 * MIB);
    EXPECT_EQ(rig_stats(&rig)->oversize_allocations.current, 1);
    EXPECT_EQ(rig_stats(&rig)->oversize_segments.current, 1);
    rig_close(&rig);
}

TEST(B35_a_small_request_leaves_the_oversize_block)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40");
    RIG_CACHE(&rig, 100);
    rig_alloc(&rig, 30 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "104857600|31457280*");
    rig_close(&rig);
}

TEST(B36_an_oversize_block_must_not_be_much_larger)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40");
    RIG_CACHE(&rig, 100);
    rig_alloc(&rig, 79 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "104857600|83886080*");
    rig_close(&rig);
    rig_open(&rig, "max_split_size_mb:40");
    RIG_CACHE(&rig, 100);
    rig_alloc(&rig, 81 * MIB);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 104857600);
    rig_close(&rig);
}

TEST(B37_just_below_max_split)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40");
    RIG_CACHE(&rig, 30, 80, 100);
    rig_alloc(&rig, 40 * MIB - 512);
    EXPECT_STR_EQ(rig_layout(&rig), "31457280|83886080|104857600|41943040*");
    rig_close(&rig);
}

TEST(B41_more_waste_allowed)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40,max_non_split_rounding_mb:1024");
    RIG_CACHE(&rig, 100);
    rig_alloc(&rig, 50 * MIB);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), 104857600);
    rig_close(&rig);
}

/* A change of max_split_size at run time leaves no counter behind. */
TEST(oversize_counters_do_not_drift)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40");
    void *a = rig_alloc(&rig, 100 * MIB);
    REQUIRE_OK(acre_cache_conf_set(rig.cache, ""));
    rig_free(&rig, a);
    a = rig_alloc(&rig, 90 * MIB);
    REQUIRE_OK(acre_cache_conf_set(rig.cache, "max_split_size_mb:40"));
    rig_free(&rig, a);
    EXPECT_EQ(rig_stats(&rig)->oversize_allocations.current, 0);
    REQUIRE_OK(acre_cache_empty(rig.cache));
    EXPECT_EQ(rig_stats(&rig)->oversize_segments.current, 0);
    rig_close(&rig);
}

T_MAIN()
