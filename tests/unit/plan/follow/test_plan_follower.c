/* SPDX-License-Identifier: MIT */
/* Requests that depart from a plan, streams, and random programs: nothing that lives
 * overlaps, and bytes pass from stream to stream only when it is time. */
#include "tests/support/gate.h"
#include "tests/support/planner_ground.h"

/* ---- Departing -------------------------------------------------------------------------- */

TEST(departures_that_persist_end_the_plan)
{
    open_ground(NULL, 0, true);
    for (int round = 0; round < 6; round++)
        iterate(40, KB);
    EXPECT_EQ(stats().is_following, 1);
    for (int round = 0; round < 10; round++)
        iterate(40, 3 * KB);
    EXPECT_EQ(stats().drops, 1);
    EXPECT_EQ(stats().plans, 2);
    EXPECT_EQ(stats().is_following, 1);
    uint64_t departures = stats().departures;
    iterate(40, 3 * KB);
    EXPECT_EQ(stats().departures, departures);
    close_ground();
}

TEST(what_lives_in_a_dropped_arena_is_freed_all_the_same)
{
    open_ground(NULL, 0, true);
    for (int round = 0; round < 6; round++)
        iterate(40, KB);
    for (int i = 0; i < 5; i++) { /* the beginning of a round, held */
        take(10 + 2 * i, (size_t)(3 + i % 5) * KB);
        take(11 + 2 * i, KB);
        give(11 + 2 * i);
    }
    int64_t arena = (int64_t)stats().arena_bytes;
    for (int round = 0; round < 10 && stats().drops == 0; round++)
        for (int i = 0; i < 300; i++) {
            take(3000, 7 * KB + (size_t)i * 512);
            give(3000);
        }
    EXPECT_EQ(stats().drops, 1);
    EXPECT_GE(stats().reserved_bytes.current, arena);
    for (int i = 0; i < 5; i++)
        give(10 + 2 * i);
    REQUIRE_OK(acre_cache_empty(ground.cache));
    EXPECT_EQ(stats().reserved_bytes.current, 0);
    close_ground();
}

TEST(frees_in_another_order_stay_in_the_arena)
{
    open_ground(NULL, 0, true);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 30; i++)
            take(i, (size_t)(1 + i) * KB);
        for (int i = 0; i < 30; i++)
            give(round < 6 ? i : 29 - i);
    }
    EXPECT_EQ(stats().departures, 0);
    EXPECT_EQ(stats().plans, 1);
    close_ground();
}

TEST(a_late_free_keeps_its_bytes)
{
    open_ground(NULL, 0, true);
    for (int round = 0; round < 6; round++)
        iterate(20, KB);
    take(10, 3 * KB); /* first of the round */
    ground.live[500] = ground.live[10]; /* and not freed where it should be */
    ground.live[10].pointer = NULL;
    uint64_t departures = stats().departures;
    take(11, KB);
    give(11);
    for (int i = 1; i < 20; i++) {
        take(10 + 2 * i, (size_t)(3 + i % 5) * KB);
        take(11 + 2 * i, KB);
        give(11 + 2 * i);
    }
    for (int i = 19; i >= 0; i--) {
        take(11 + 2 * i, (size_t)(2 + i % 3) * KB);
        if (i)
            give(10 + 2 * i);
        give(11 + 2 * i);
    }
    EXPECT_EQ(stats().departures, departures); /* nothing follows on its bytes */
    iterate(20, KB);
    EXPECT_EQ(stats().departures, departures + 1); /* the first of the next round */
    give(500);
    iterate(20, KB);
    EXPECT_EQ(stats().departures, departures + 1);
    close_ground();
}

TEST(bad_pointers_are_refused)
{
    void *pointer = &pointer;

    open_ground(NULL, 0, true);
    for (int round = 0; round < 6; round++)
        iterate(20, KB);
    char *live = take(10, 3 * KB);
    EXPECT_EQ(acre_planner_free(ground.planner, live + 512), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    EXPECT_EQ(acre_planner_record_stream(ground.planner, live + 512, NULL), ACRE_ERR_INVALID);
    give(10);
    EXPECT_EQ(acre_planner_free(ground.planner, live), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_planner_free(ground.planner, &pointer), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_planner_free(ground.planner, NULL), ACRE_OK);
    EXPECT_EQ(acre_planner_free(NULL, live), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_planner_alloc(NULL, 1, NULL, &pointer), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_planner_alloc(ground.planner, 1, NULL, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_planner_alloc(ground.planner, 0, NULL, &pointer));
    EXPECT(!pointer);
    EXPECT_EQ(acre_planner_create(NULL, NULL, &ground.planner), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_planner_stats_get(ground.planner, NULL), ACRE_ERR_INVALID);
    close_ground();
}

/* ---- Streams ---------------------------------------------------------------------------- */

/* One byte-sized round: a large buffer on the default stream, then one on another. */
static void alternate(void *stream, char **out_first, char **out_second)
{
    for (int i = 0; i < 40; i++) { /* so that few entries are guarded */
        take(200, (size_t)(1 + i) * 512);
        give(200);
    }
    *out_first = take(10, 64 * KB);
    give(10);
    *out_second = take_on(11, 64 * KB, stream);
    give(11);
}

TEST(streams_share_bytes_only_when_the_first_has_finished)
{
    struct gate gate = {0};
    void *stream;
    char *first, *second;

    open_ground(NULL, 0, false);
    REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &stream));
    for (int round = 0; round < 6; round++)
        alternate(stream, &first, &second);
    EXPECT_EQ(stats().is_following, 1);
    EXPECT_PTR_EQ(first, second); /* the device is idle: they share */
    EXPECT_EQ(stats().departures, 0);
    REQUIRE_OK(acre_launch_host(ground.device, NULL, gate_task, &gate));
    gate_wait_reached(&gate);
    alternate(stream, &first, &second); /* the default stream is busy */
    EXPECT(first != second);
    EXPECT_EQ(stats().departures, 1);
    gate_open(&gate);
    REQUIRE_OK(acre_device_synchronize(ground.device));
    alternate(stream, &first, &second);
    EXPECT_PTR_EQ(first, second);
    EXPECT_EQ(stats().departures, 1);
    close_ground();
}

TEST(an_unexpected_use_keeps_its_bytes_until_it_has_finished)
{
    struct gate gate = {0};
    void *stream;

    open_ground(NULL, 0, false);
    REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &stream));
    for (int round = 0; round < 6; round++)
        iterate(10, KB);
    char *first = take(10, 3 * KB);
    REQUIRE_OK(acre_launch_host(ground.device, stream, gate_task, &gate));
    gate_wait_reached(&gate);
    REQUIRE_OK(acre_planner_record_stream(ground.planner, first, stream));
    REQUIRE_OK(acre_planner_record_stream(ground.planner, first, stream));
    REQUIRE_OK(acre_planner_record_stream(ground.planner, first, NULL));
    give(10);
    EXPECT_EQ(acre_planner_free(ground.planner, first), ACRE_ERR_INVALID);
    for (int round = 0; round < 2; round++) {
        iterate(10, KB);
        for (int i = 0; i < LIVE_MAX; i++)
            EXPECT(!ground.live[i].pointer);
    }
    uint64_t departures = stats().departures;
    EXPECT_GT(departures, 0);
    gate_open(&gate);
    REQUIRE_OK(acre_device_synchronize(ground.device));
    iterate(10, KB);
    iterate(10, KB);
    EXPECT_LE(stats().departures, departures + 1);
    close_ground();
}

TEST(what_is_used_on_further_streams_is_left_to_the_cache)
{
    void *stream;

    open_ground(NULL, 0, true);
    REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &stream));
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 20; i++) {
            char *pointer = take(i, (size_t)(1 + i) * KB);
            if (i == 7)
                REQUIRE_OK(acre_planner_record_stream(ground.planner, pointer, stream));
        }
        for (int i = 0; i < 20; i++)
            give(i);
    }
    EXPECT_EQ(stats().is_following, 1);
    EXPECT_EQ(stats().departures, 0);
    EXPECT_EQ(stats().lower_bound, (210 - 8) * KB);
    close_ground();
}

/* ---- Random programs -------------------------------------------------------------------- */

/* A program that mostly repeats: in some rounds a request is left out, added, or has
 * another size or stream, frees come early or late, and some are tried twice. */
static void run_random(uint64_t *random, unsigned harm, void **streams)
{
    size_t sizes[100];
    int lives[100];

    for (int i = 0; i < 100; i++) {
        sizes[i] = 512 * (1 + t_random(random) % 100);
        lives[i] = 1 + (int)(t_random(random) % (t_random(random) % 8 ? 10 : 90));
    }
    for (int round = 0; round < 14; round++)
        for (int i = 0; i < 100; i++) {
            unsigned luck = round < 4 ? 99 : (unsigned)(t_random(random) % harm);
            for (int k = 0; k < 100; k++) /* what ends now; late ones with the next */
                if (ground.live[100 + k].pointer && luck != 0 &&
                    (i - k + 100) % 100 >= lives[k] % 100)
                    give(100 + k);
            if (ground.live[100 + i].pointer)
                give(100 + i);
            size_t bytes = luck == 1 ? sizes[i] + 512 : sizes[i];
            void *stream = streams[luck == 5 ? 1 : i % 9 == 8];
            if (luck != 2)
                take_on(100 + i, bytes, stream);
            if (luck == 3 && !ground.live[i].pointer)
                take(i, sizes[(i + 7) % 100]);
            if (luck == 4 && ground.live[100 + i].pointer)
                REQUIRE_OK(acre_planner_record_stream(
                    ground.planner, ground.live[100 + i].pointer, streams[1]));
            if (t_random(random) % 50 == 0 && ground.live[i].pointer)
                give(i);
        }
    for (int i = 0; i < LIVE_MAX; i++)
        if (ground.live[i].pointer)
            give(i);
}

TEST(nothing_overlaps_whatever_departs)
{
    uint64_t random = t_seed();
    uint64_t plans = 0;

    for (uint64_t n = 0; n < t_count(24, 2000); n++) {
        void *streams[2] = {NULL, NULL};
        /* The default takes a second where the bound is out of reach. */
        acre_planner_config config = {.struct_size = sizeof config, .seconds = 0.02};
        open_ground(&config, 0, true);
        REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &streams[1]));
        run_random(&random, n % 3 ? 40 : 2000, streams);
        run_random(&random, 200, streams);
        EXPECT_EQ(stats().allocated_bytes.current, 0);
        plans += stats().plans;
        close_ground();
    }
    EXPECT_GE(plans, t_count(24, 2000));
}

T_MAIN()
