/* SPDX-License-Identifier: MIT */
#include "cache/observe/stats.h"

#include "base/struct_size.h"

#include "tests/support/t.h"

TEST(up_and_down)
{
    acre_stat stat = {0};

    stat_up(&stat, 10);
    stat_up(&stat, 5);
    stat_down(&stat, 12);
    stat_up(&stat, 1);
    EXPECT_EQ(stat.current, 4);
    EXPECT_EQ(stat.peak, 15);
    EXPECT_EQ(stat.allocated, 16);
    EXPECT_EQ(stat.freed, 12);
}

TEST(a_move_is_one_step_to_one_side)
{
    acre_stat_array array = {0};

    stats_move(&array, true, 5);
    stats_move(&array, false, 7);
    stats_move(&array, true, -2);
    stats_move(&array, true, 0);
    EXPECT_EQ(array.all.current, 10);
    EXPECT_EQ(array.all.peak, 12);
    EXPECT_EQ(array.small_pool.current, 3);
    EXPECT_EQ(array.small_pool.freed, 2);
    EXPECT_EQ(array.large_pool.allocated, 7);
    EXPECT_EQ(array.large_pool.freed, 0);
}

TEST(the_five_live_ones)
{
    acre_cache_stats stats;

    stats_init(&stats, 77);
    stats_live_add(&stats, true, 512, 100);
    stats_live_drop(&stats, true, 512);
    EXPECT_EQ(stats.allocation.all.current, 0);
    EXPECT_EQ(stats.allocated_bytes.small_pool.freed, 512);
    EXPECT_EQ(stats.active.all.current, 1);
    EXPECT_EQ(stats.active_bytes.small_pool.current, 512);
    EXPECT_EQ(stats.requested_bytes.all.current, 100);
    stats_live_retire(&stats, true, 512, 100);
    EXPECT_EQ(stats.active.all.current, 0);
    EXPECT_EQ(stats.requested_bytes.all.freed, 100);
    EXPECT_EQ(stats.requested_bytes.large_pool.allocated, 0);
}

TEST(resets_reach_every_field)
{
    acre_cache_stats stats;
    int64_t *words = (int64_t *)&stats;

    stats_init(&stats, 0);
    for (size_t i = 1; i < sizeof stats / 8; i++)
        words[i] = 100 + (int64_t)i;
    stats_reset_peak(&stats);
#define EXPECT_PEAK(name, text)                                                \
    EXPECT_EQ(stats.name.all.peak, stats.name.all.current);                    \
    EXPECT_EQ(stats.name.small_pool.peak, stats.name.small_pool.current);      \
    EXPECT_EQ(stats.name.large_pool.peak, stats.name.large_pool.current);
    ACRE_CACHE_STAT_ARRAYS(EXPECT_PEAK)
    EXPECT_EQ(stats.oversize_segments.peak, stats.oversize_segments.current);
    EXPECT_NE(stats.allocation.all.allocated, 0);
    stats.max_split_size = 5;
    stats_reset_accumulated(&stats);
#define EXPECT_NONE(name, text)                                                \
    EXPECT_EQ(stats.name.all.allocated + stats.name.all.freed, 0);             \
    EXPECT_EQ(stats.name.large_pool.allocated + stats.name.large_pool.freed, 0);
    ACRE_CACHE_STAT_ARRAYS(EXPECT_NONE)
    EXPECT_EQ(stats.oversize_allocations.allocated, 0);
    EXPECT_EQ(stats.num_ooms + stats.num_alloc_retries + stats.num_device_free, 0);
    EXPECT_EQ(stats.max_split_size, 5);
    EXPECT_NE(stats.allocation.all.current, 0);
}

TEST(copies_for_callers_of_other_versions)
{
    acre_cache_stats stats, out;
    struct {
        acre_cache_stats known;
        int64_t later[4];
    } newer;

    stats_init(&stats, 1);
    stats.allocation.all.current = 9;
    stats.num_ooms = 3;
    memset(&out, 0xff, sizeof out);
    out.struct_size = offsetof(acre_cache_stats, segment);
    STRUCT_GIVE(acre_cache_stats, &out, &stats);
    EXPECT_EQ(out.allocation.all.current, 9);
    EXPECT_EQ(out.segment.all.current, -1);
    EXPECT_EQ(out.struct_size, offsetof(acre_cache_stats, segment));
    memset(&newer, 0, sizeof newer);
    newer.known.struct_size = sizeof newer;
    STRUCT_GIVE(acre_cache_stats, &newer.known, &stats);
    EXPECT_EQ(newer.known.num_ooms, 3);
    EXPECT_EQ(newer.later[3], 0);
}

TEST(a_wrong_struct_size_writes_nothing_behind_the_struct)
{
    acre_cache_stats stats;
    struct {
        acre_cache_stats known;
        int64_t foreign[64];
    } memory;

    stats_init(&stats, 1);
    stats.num_ooms = 3;
    memset(&memory, 0x5a, sizeof memory);
    memory.known.struct_size = sizeof memory;
    EXPECT(STRUCT_CHECK("call", acre_cache_stats, &memory.known) != ACRE_OK);
    EXPECT_EQ(memory.known.num_ooms, 0x5a5a5a5a5a5a5a5a);
    memset(memory.foreign, 0, sizeof memory.foreign);
    memory.known.struct_size = UINT32_MAX;
    EXPECT(STRUCT_CHECK("call", acre_cache_stats, &memory.known) != ACRE_OK);
    EXPECT_EQ(memory.known.num_ooms, 0x5a5a5a5a5a5a5a5a);
}

T_MAIN()
