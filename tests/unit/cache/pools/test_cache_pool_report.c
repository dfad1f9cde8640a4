/* SPDX-License-Identifier: MIT */
#include "tests/support/pool_lab.h"

TEST(B50_free_private_memory_counts_as_allocated)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    lab_limit(&lab, 200 * MIB);
    fill(&lab, id, 60 * MIB);
    void *live = lab_alloc(&lab, 3 * MIB);
    EXPECT_EQ(lab_try(&lab, 150 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "63.00 MiB allocated");
    EXPECT_HAS(acre_last_error(), "60.00 MiB of it free in private pools");
    EXPECT_HAS(acre_last_error(), "17.00 MiB reserved");
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    EXPECT_EQ(lab_try(&lab, 150 * MIB), ACRE_OK);
    lab_free(&lab, live);
    lab_close(&lab);
}

TEST(B93_statistics_outlive_the_pool)
{
    struct lab lab;
    acre_pool_id ids[4];
    size_t count;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0), unused = new_pool(&lab, 0);
    EXPECT_EQ(pool_stats(&lab, id).reserved_bytes.all.peak, 0);
    fill(&lab, id, 30 * MIB);
    fill(&lab, id, 512);
    acre_pool_stats stats = pool_stats(&lab, id);
    EXPECT_EQ(stats.reserved_bytes.all.current, 32 * MIB);
    EXPECT_EQ(stats.reserved_bytes.small_pool.current, 2 * MIB);
    EXPECT_EQ(stats.segment_count, 2);
    EXPECT_EQ(stats.free_bytes, 32 * MIB);
    EXPECT_EQ(stats.use_count, 1);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    REQUIRE_OK(acre_pool_release(lab.cache, unused));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    stats = pool_stats(&lab, id);
    EXPECT_EQ(stats.reserved_bytes.all.current, 0);
    EXPECT_EQ(stats.reserved_bytes.all.peak, 32 * MIB);
    EXPECT_EQ(stats.reserved_bytes.all.allocated, 32 * MIB);
    EXPECT_EQ(stats.reserved_bytes.all.freed, 32 * MIB);
    EXPECT_EQ(stats.use_count, 0);
    REQUIRE_OK(acre_pool_ids(lab.cache, ids, 4, &count));
    EXPECT_EQ(count, 1); /* the one that never held memory leaves nothing */
    EXPECT_EQ(ids[0].user, id.user);
    acre_cache_stats_reset_peak(lab.cache);
    acre_cache_stats_reset_accumulated(lab.cache);
    EXPECT_EQ(pool_stats(&lab, id).reserved_bytes.all.peak, 0);
    EXPECT_EQ(pool_stats(&lab, id).reserved_bytes.large_pool.freed, 0);
    lab_close(&lab);
}

TEST(B100_live_allocations_of_a_pool)
{
    struct lab lab;
    bool is_same;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    void *blocks[3] = {alloc_in(&lab, id, 512), alloc_in(&lab, id, 3 * MIB),
                       alloc_in(&lab, id, 512)};
    void *other = lab_alloc(&lab, 512);
    REQUIRE_OK(acre_pool_check_live(lab.cache, id, blocks, 3, &is_same));
    EXPECT(is_same);
    REQUIRE_OK(acre_pool_check_live(lab.cache, id, blocks, 2, &is_same));
    EXPECT(!is_same);
    REQUIRE_OK(acre_pool_check_live(lab.cache, id, NULL, 0, &is_same));
    EXPECT(!is_same);
    void *more[4] = {blocks[0], blocks[1], blocks[2], other};
    REQUIRE_OK(acre_pool_check_live(lab.cache, id, more, 4, &is_same));
    EXPECT(!is_same);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, blocks[2], fake_stream(1)));
    lab_free(&lab, blocks[2]);
    EXPECT_EQ(pool_stats(&lab, id).waiting_bytes, 512);
    REQUIRE_OK(acre_pool_check_live(lab.cache, id, blocks, 2, &is_same));
    EXPECT(is_same);
    EXPECT_EQ(acre_pool_check_live(lab.cache, acre_pool_id_next(), NULL, 0, &is_same),
              ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "Could not find pool of id");
    lab_close(&lab);
}

TEST(a_wrong_struct_size_is_refused)
{
    struct {
        acre_pool_stats known;
        char foreign[64];
    } memory = {.foreign = {1}};
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    memory.known.struct_size = sizeof memory;
    EXPECT_EQ(acre_pool_stats_get(lab.cache, id, &memory.known), ACRE_ERR_INVALID);
    EXPECT_EQ(memory.foreign[0], 1);
    memory.foreign[0] = 0;
    EXPECT_EQ(acre_pool_stats_get(lab.cache, id, &memory.known), ACRE_OK);
    EXPECT_EQ(memory.known.use_count, 1);
    EXPECT_EQ(memory.known.struct_size, sizeof memory);
    lab_close(&lab);
}

T_MAIN()
