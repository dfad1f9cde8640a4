/* SPDX-License-Identifier: MIT */
/* Giving memory back: making room under max_split_size, garbage collection,
 * empty cache (B38 to B40, B46 to B48). */
#include "tests/support/capture_lab.h"
#include "tests/support/lab.h"

TEST(B38_several_oversize_blocks_make_room)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    lab_limit(&lab, 200 * MIB);
    LAB_CACHE(&lab, 60, 60, 60);
    void *a = lab_alloc(&lab, 100 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "62914560|104857600*");
    EXPECT_EQ(COUNT(&lab, num_device_free), 2);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 0);
    EXPECT_EQ(COUNT(&lab, num_sync_all_streams), 0);
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(B39_one_large_enough_goes_alone)
{
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    lab_limit(&lab, 200 * MIB);
    LAB_CACHE(&lab, 60, 130);
    lab_alloc(&lab, 80 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "62914560|83886080*");
    EXPECT_EQ(COUNT(&lab, num_device_free), 1);
    lab_close(&lab);
}

TEST(B40_without_max_split_everything_idle_goes)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 200 * MIB);
    void *a = lab_alloc(&lab, 60 * MIB), *b = lab_alloc(&lab, 130 * MIB);
    lab_free(&lab, a);
    lab_free(&lab, b);
    void *c = lab_alloc(&lab, 140 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "146800640*");
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    EXPECT_EQ(COUNT(&lab, num_sync_all_streams), 1);
    EXPECT_EQ(COUNT(&lab, num_device_free), 2);
    lab_free(&lab, c);
    lab_close(&lab);
}

/* A block that was cut before max_split_size was lowered must not go to the
 * device: half of it may be live. */
TEST(a_cut_block_is_never_released_to_make_room)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 200 * MIB);
    LAB_CACHE(&lab, 150);
    void *front = lab_alloc(&lab, 100 * MIB);
    memset(&lab.stats, 0, sizeof lab.stats);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "max_split_size_mb:40"));
    EXPECT_EQ(lab_try(&lab, 60 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_STR_EQ(lab_layout(&lab), "104857600*,52428800");
    EXPECT_EQ(COUNT(&lab, num_device_free), 0);
    lab_free(&lab, front);
    lab_close(&lab);
}

TEST(B46_no_collection_without_a_limit)
{
    struct lab lab;

    lab_open(&lab, "garbage_collection_threshold:0.001");
    LAB_CACHE(&lab, 40, 42, 44);
    lab_alloc(&lab, 60 * MIB);
    EXPECT_EQ(COUNT(&lab, num_device_free), 0);
    lab_close(&lab);
}

TEST(B47_old_blocks_are_collected)
{
    struct lab lab;

    lab_open(&lab, "garbage_collection_threshold:0.2");
    lab_limit(&lab, 1000 * MIB);
    LAB_CACHE(&lab, 40, 42, 44, 46, 48);
    /* One more search each, of which only the second finds the 46. */
    for (int i = 0; i < 2; i++)
        lab_free(&lab, lab_alloc(&lab, 46 * MIB));
    lab_alloc(&lab, 60 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "48234496|62914560*");
    EXPECT_EQ(COUNT(&lab, num_device_free), 4);
    EXPECT_EQ(COUNT(&lab, num_sync_all_streams), 0);
    lab_close(&lab);
}

TEST(B48_the_clock_ticks_on_hits_while_collection_is_on)
{
    struct lab lab;

    lab_open(&lab, "garbage_collection_threshold:0.2");
    LAB_CACHE(&lab, 40, 50, 60);
    /* Without a limit nothing ages: all three are of age 0 afterwards. */
    for (int i = 0; i < 5; i++)
        lab_free(&lab, lab_alloc(&lab, 40 * MIB));
    lab_limit(&lab, 500 * MIB);
    /* With one, hits on the 40 age the other two. */
    for (int i = 0; i < 3; i++)
        lab_free(&lab, lab_alloc(&lab, 40 * MIB));
    lab_alloc(&lab, 70 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "41943040|73400320*");
    lab_close(&lab);
}

TEST(collection_goes_round_by_round_until_the_target)
{
    struct lab lab;

    lab_open(&lab, "garbage_collection_threshold:0.1");
    lab_limit(&lab, 1000 * MIB);
    LAB_CACHE(&lab, 40, 41, 42);
    lab_alloc(&lab, 90 * MIB); /* 123 MiB held, 100 allowed: the first round frees all, equal age */
    EXPECT_STR_EQ(lab_layout(&lab), "94371840*");
    lab_close(&lab);
}

TEST(empty_cache_keeps_what_is_partly_used)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 1000), *b = lab_alloc(&lab, 3 * MIB), *c = lab_alloc(&lab, 1000);
    lab_free(&lab, a);
    lab_free(&lab, b);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_STR_EQ(lab_layout(&lab), "1024,1024*,2095104");
    lab_free(&lab, c);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, segment), 0);
    EXPECT_EQ(fake_bytes(lab.fake), 0);
    lab_close(&lab);
}

/* A segment that the device does not take back stays, and stays counted. */
TEST(a_failed_return_keeps_the_segment)
{
    struct lab lab;

    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 20, 30);
    fake_fail(lab.fake, FAKE_FREE, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_cache_empty(lab.cache), ACRE_ERR_DEVICE);
    EXPECT(fake_disarm(lab.fake));
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), fake_bytes(lab.fake));
    EXPECT_EQ(COUNT(&lab, num_device_free), 1);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, segment), 0);
    lab_close(&lab);
}

/* Memory goes back only when nothing queued can use it any more. */
TEST(the_device_is_waited_for_once)
{
    struct lab lab;

    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 20, 30, 40);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_DEVICE_SYNC), 0);
    fake_fail(lab.fake, FAKE_DEVICE_SYNC, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_cache_empty(lab.cache), ACRE_ERR_DEVICE);
    EXPECT(fake_disarm(lab.fake));
    LAB_CACHE(&lab, 20, 30, 40);
    uint64_t before = fake_calls(lab.fake, FAKE_DEVICE_SYNC);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(fake_calls(lab.fake, FAKE_DEVICE_SYNC), before + 1);
    EXPECT_EQ(fake_bytes(lab.fake), 0);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(fake_calls(lab.fake, FAKE_DEVICE_SYNC), before + 1);
    lab_close(&lab);
}

/* Free memory of policy acre that is no stream's has a place holder for one; drivers do not expect
 * to be asked about that. */
TEST(captures_are_sought_on_streams_only)
{
    enum { TRIES = 1000 };
    struct bench bench;
    acre_pool_id id = acre_pool_id_next();
    void *live[TRIES];
    int count = 0;

    bench_open(&bench, ACRE_POLICY_ACRE, "stitched_memory:False,cross_stream_reuse:False");
    void *first = bench_alloc(&bench, 6 * MIB, bench.b);
    bench_free(&bench, first);
    do /* until b was seen idle: then what it had is nobody's, and c has the first part */
        live[count] = bench_alloc(&bench, 2 * MIB, bench.c);
    while (live[count++] != first && count < TRIES);
    REQUIRE(live[count - 1] == first);
    REQUIRE_OK(acre_pool_begin(bench.cache, id, NULL));
    uint64_t asked = tracing_count(bench.traced, WRAP_capture_info);
    REQUIRE_OK(acre_cache_empty(bench.cache));
    EXPECT_LE(tracing_count(bench.traced, WRAP_capture_info), asked + (unsigned)count);
    REQUIRE_OK(acre_pool_end(bench.cache, id));
    while (count > 0)
        bench_free(&bench, live[--count]);
    bench_close(&bench);
}

/* A capture that was found, and that ended after the scope in which it began. */
static void capture_past(struct bench *bench, acre_pool_id id)
{
    void *graph;

    REQUIRE_OK(acre_pool_create(bench->cache, id, NULL));
    REQUIRE_OK(acre_pool_begin(bench->cache, id, NULL));
    REQUIRE_OK(acre_capture_begin(bench->device, bench->a));
    bench_free(bench, bench_alloc(bench, 20 * MIB, bench->a));
    REQUIRE_OK(acre_pool_end(bench->cache, id));
    REQUIRE_OK(acre_capture_end(bench->device, bench->a, &graph));
    REQUIRE_OK(acre_graph_destroy(bench->device, graph));
}

TEST(a_capture_that_has_ended_holds_no_memory_back)
{
    static const acre_policy policies[] = {ACRE_POLICY_TORCH, ACRE_POLICY_ACRE};

    for (int i = 0; i < 2; i++) {
        struct bench bench;
        acre_pool_id id = acre_pool_id_next();
        bench_open(&bench, policies[i], NULL);
        acre_cache_limit_set(bench.cache, 100 * MIB);
        bench_free(&bench, bench_alloc(&bench, 40 * MIB, bench.c));
        capture_past(&bench, id);
        bench_free(&bench, bench_alloc(&bench, 80 * MIB, bench.c)); /* the 40 MiB go first */
        REQUIRE_OK(acre_pool_release(bench.cache, id));
        bench_close(&bench);
    }
}

TEST(a_pool_ends_although_a_capture_was_found_in_it)
{
    struct bench bench;
    acre_pool_id id = acre_pool_id_next();

    bench_open(&bench, ACRE_POLICY_TORCH, NULL);
    capture_past(&bench, id);
    REQUIRE_OK(acre_pool_release(bench.cache, id));
    REQUIRE_OK(acre_pool_empty(bench.cache, id));
    EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 0);
    bench_close(&bench);
}

TEST(a_capture_that_was_found_stays_known_when_it_is_told_of)
{
    struct bench bench;
    acre_pool_id id = acre_pool_id_next();
    void *graph;

    bench_open(&bench, ACRE_POLICY_TORCH, NULL);
    bench_free(&bench, bench_alloc(&bench, 40 * MIB, bench.c));
    REQUIRE_OK(acre_pool_create(bench.cache, id, NULL));
    REQUIRE_OK(acre_pool_begin(bench.cache, id, NULL));
    REQUIRE_OK(acre_capture_begin(bench.device, bench.a));
    bench_free(&bench, bench_alloc(&bench, 20 * MIB, bench.a));
    REQUIRE_OK(acre_pool_end(bench.cache, id));
    heap_fail_nth(1);
    acre_status status = acre_capture_mark_begin(bench.cache, bench.a);
    heap_fail_disarm();
    REQUIRE_OK(acre_cache_empty(bench.cache));
    REQUIRE_OK(acre_capture_end(bench.device, bench.a, &graph)); /* it is whole */
    if (status == ACRE_OK)
        REQUIRE_OK(acre_capture_mark_end(bench.cache, bench.a));
    REQUIRE_OK(acre_graph_destroy(bench.device, graph));
    REQUIRE_OK(acre_pool_release(bench.cache, id));
    bench_close(&bench);
}

T_MAIN()
