/* SPDX-License-Identifier: MIT */
/* Giving memory back: making room under max_split_size, garbage collection,
 * empty cache (B38 to B40, B46 to B48). */
#include "tests/support/rig.h"

TEST(B38_several_oversize_blocks_make_room)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40");
    rig_limit(&rig, 200 * MIB);
    RIG_CACHE(&rig, 60, 60, 60);
    void *a = rig_alloc(&rig, 100 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "62914560|104857600*");
    EXPECT_EQ(COUNT(&rig, num_device_free), 2);
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 0);
    EXPECT_EQ(COUNT(&rig, num_sync_all_streams), 0);
    rig_free(&rig, a);
    rig_close(&rig);
}

TEST(B39_one_large_enough_goes_alone)
{
    struct rig rig;

    rig_open(&rig, "max_split_size_mb:40");
    rig_limit(&rig, 200 * MIB);
    RIG_CACHE(&rig, 60, 130);
    rig_alloc(&rig, 80 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "62914560|83886080*");
    EXPECT_EQ(COUNT(&rig, num_device_free), 1);
    rig_close(&rig);
}

TEST(B40_without_max_split_everything_idle_goes)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_limit(&rig, 200 * MIB);
    void *a = rig_alloc(&rig, 60 * MIB), *b = rig_alloc(&rig, 130 * MIB);
    rig_free(&rig, a);
    rig_free(&rig, b);
    void *c = rig_alloc(&rig, 140 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "146800640*");
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 1);
    EXPECT_EQ(COUNT(&rig, num_sync_all_streams), 1);
    EXPECT_EQ(COUNT(&rig, num_device_free), 2);
    rig_free(&rig, c);
    rig_close(&rig);
}

/* A block that was cut before max_split_size was lowered must not go to the
 * device: half of it may be live. */
TEST(a_cut_block_is_never_released_to_make_room)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_limit(&rig, 200 * MIB);
    RIG_CACHE(&rig, 150);
    void *front = rig_alloc(&rig, 100 * MIB);
    memset(&rig.stats, 0, sizeof rig.stats);
    REQUIRE_OK(acre_cache_conf_set(rig.cache, "max_split_size_mb:40"));
    EXPECT_EQ(rig_try(&rig, 60 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_STR_EQ(rig_layout(&rig), "104857600*,52428800");
    EXPECT_EQ(COUNT(&rig, num_device_free), 0);
    rig_free(&rig, front);
    rig_close(&rig);
}

TEST(B46_no_collection_without_a_limit)
{
    struct rig rig;

    rig_open(&rig, "garbage_collection_threshold:0.001");
    RIG_CACHE(&rig, 40, 42, 44);
    rig_alloc(&rig, 60 * MIB);
    EXPECT_EQ(COUNT(&rig, num_device_free), 0);
    rig_close(&rig);
}

TEST(B47_old_blocks_are_collected)
{
    struct rig rig;

    rig_open(&rig, "garbage_collection_threshold:0.2");
    rig_limit(&rig, 1000 * MIB);
    RIG_CACHE(&rig, 40, 42, 44, 46, 48);
    /* One more search each, of which only the second finds the 46. */
    for (int i = 0; i < 2; i++)
        rig_free(&rig, rig_alloc(&rig, 46 * MIB));
    rig_alloc(&rig, 60 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "48234496|62914560*");
    EXPECT_EQ(COUNT(&rig, num_device_free), 4);
    EXPECT_EQ(COUNT(&rig, num_sync_all_streams), 0);
    rig_close(&rig);
}

TEST(B48_the_clock_ticks_on_hits_while_collection_is_on)
{
    struct rig rig;

    rig_open(&rig, "garbage_collection_threshold:0.2");
    RIG_CACHE(&rig, 40, 50, 60);
    /* Without a limit nothing ages: all three are of age 0 afterwards. */
    for (int i = 0; i < 5; i++)
        rig_free(&rig, rig_alloc(&rig, 40 * MIB));
    rig_limit(&rig, 500 * MIB);
    /* With one, hits on the 40 age the other two. */
    for (int i = 0; i < 3; i++)
        rig_free(&rig, rig_alloc(&rig, 40 * MIB));
    rig_alloc(&rig, 70 * MIB);
    EXPECT_STR_EQ(rig_layout(&rig), "41943040|73400320*");
    rig_close(&rig);
}

TEST(collection_goes_round_by_round_until_the_target)
{
    struct rig rig;

    rig_open(&rig, "garbage_collection_threshold:0.1");
    rig_limit(&rig, 1000 * MIB);
    RIG_CACHE(&rig, 40, 41, 42);
    rig_alloc(&rig, 90 * MIB); /* 123 MiB held, 100 allowed: the first round frees all, equal age */
    EXPECT_STR_EQ(rig_layout(&rig), "94371840*");
    rig_close(&rig);
}

TEST(empty_cache_keeps_what_is_partly_used)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *a = rig_alloc(&rig, 1000), *b = rig_alloc(&rig, 3 * MIB), *c = rig_alloc(&rig, 1000);
    rig_free(&rig, a);
    rig_free(&rig, b);
    REQUIRE_OK(acre_cache_empty(rig.cache));
    EXPECT_STR_EQ(rig_layout(&rig), "1024,1024*,2095104");
    rig_free(&rig, c);
    REQUIRE_OK(acre_cache_empty(rig.cache));
    EXPECT_EQ(CURRENT(&rig, segment), 0);
    EXPECT_EQ(fake_bytes(rig.fake), 0);
    rig_close(&rig);
}

/* A segment that the device does not take back stays, and stays counted. */
TEST(a_failed_return_keeps_the_segment)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RIG_CACHE(&rig, 20, 30);
    fake_fail(rig.fake, FAKE_FREE, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_cache_empty(rig.cache), ACRE_ERR_DEVICE);
    EXPECT(fake_disarm(rig.fake));
    EXPECT_EQ(CURRENT(&rig, segment), 1);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), fake_bytes(rig.fake));
    EXPECT_EQ(COUNT(&rig, num_device_free), 1);
    REQUIRE_OK(acre_cache_empty(rig.cache));
    EXPECT_EQ(CURRENT(&rig, segment), 0);
    rig_close(&rig);
}

T_MAIN()
