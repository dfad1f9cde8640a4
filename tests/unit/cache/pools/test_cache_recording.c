/* SPDX-License-Identifier: MIT */
#include "tests/support/capture_lab.h"

static const acre_policy policies[] = {ACRE_POLICY_TORCH, ACRE_POLICY_ACRE};

TEST(a_replay_writes_to_the_same_addresses)
{
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        bench_open(&bench, policies[i], NULL);
        acre_recording *recording = bench_record(&bench, NULL);
        acre_pool_id id = acre_recording_pool(recording);
        EXPECT_EQ(id.user, 0);
        EXPECT_GT(id.graph, 0);
        void *block = bench_alloc(&bench, 3 * MIB, bench.a);
        bench_fill(&bench, block, 42, MIB, bench.a);
        bench_free(&bench, block); /* the graph keeps the memory */
        REQUIRE_OK(acre_recording_end(recording));
        void *others[8];
        for (int k = 0; k < 8; k++) {
            others[k] = bench_alloc(&bench, 3 * MIB, bench.a);
            EXPECT(others[k] != block); /* nobody else gets it */
            bench_fill(&bench, others[k], 1, MIB, bench.a);
        }
        REQUIRE_OK(acre_cache_empty(bench.cache));
        REQUIRE_OK(acre_recording_launch(recording, bench.b));
        EXPECT_EQ(bench_read(&bench, block), 42);
        bench_fill(&bench, block, 9, MIB, bench.b);
        REQUIRE_OK(acre_recording_launch(recording, bench.b));
        EXPECT_EQ(bench_read(&bench, block), 42);
        for (int k = 0; k < 8; k++) {
            EXPECT_EQ(bench_read(&bench, others[k]), 1);
            bench_free(&bench, others[k]);
        }
        EXPECT_EQ(bench_pool(&bench, id).use_count, 1);
        acre_recording_destroy(recording);
        REQUIRE_OK(acre_cache_empty(bench.cache));
        EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 0);
        bench_close(&bench);
    }
}

TEST(side_streams_allocate_from_the_pool_once_they_joined)
{
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        bench_open(&bench, policies[i], NULL);
        bench_free(&bench, bench_alloc(&bench, 3 * MIB, bench.b)); /* acre: a lane */
        acre_recording *recording = bench_record(&bench, NULL);
        acre_pool_id id = acre_recording_pool(recording);
        void *before = bench_alloc(&bench, 3 * MIB, bench.b);
        EXPECT_EQ(bench_pool(&bench, id).live_count, 0);
        bench_join(&bench, bench.a, bench.b);
        void *joined = bench_alloc(&bench, 3 * MIB, bench.b);
        void *outside = bench_alloc(&bench, 3 * MIB, bench.c);
        EXPECT_EQ(bench_pool(&bench, id).live_count, 1);
        bench_join(&bench, bench.b, bench.a);
        REQUIRE_OK(acre_recording_end(recording));
        void *after = bench_alloc(&bench, 3 * MIB, bench.b);
        EXPECT_EQ(bench_pool(&bench, id).live_count, 1);
        bench_free(&bench, before);
        bench_free(&bench, joined);
        bench_free(&bench, outside);
        bench_free(&bench, after);
        acre_recording_destroy(recording);
        bench_close(&bench);
    }
}

TEST(recordings_may_share_a_pool)
{
    struct bench bench;
    acre_pool_id id = acre_pool_id_next();

    bench_open(&bench, ACRE_POLICY_ACRE, NULL);
    acre_recording *first = bench_record(&bench, &id);
    EXPECT_EQ(bench_pool(&bench, id).use_count, 2); /* the scope, and the recording */
    void *block = bench_alloc(&bench, 3 * MIB, bench.a);
    bench_free(&bench, block);
    REQUIRE_OK(acre_recording_end(first));
    EXPECT_EQ(bench_pool(&bench, id).use_count, 1);
    acre_recording *second = bench_record(&bench, &id);
    EXPECT_PTR_EQ(bench_alloc(&bench, 3 * MIB, bench.a), block);
    REQUIRE_OK(acre_recording_end(second));
    EXPECT_EQ(bench_pool(&bench, id).use_count, 2);
    EXPECT_EQ(acre_pool_release(bench.cache, id), ACRE_ERR_STATE); /* nobody's to drop */
    acre_recording_destroy(first);
    EXPECT_EQ(bench_pool(&bench, id).use_count, 1);
    bench_free(&bench, block);
    acre_recording_destroy(second);
    EXPECT_EQ(bench_pool(&bench, id).use_count, 0);
    bench_close(&bench);
}

TEST(mistakes_leave_nothing_behind)
{
    struct bench bench;
    acre_recording *recording, *other = NULL;
    acre_pool_id id = acre_pool_id_next(), shared = {0};
    size_t count;

    bench_open(&bench, ACRE_POLICY_ACRE, NULL);
    EXPECT_EQ(acre_recording_begin(NULL, bench.a, NULL, &other), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_recording_begin(bench.cache, bench.a, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_recording_begin(bench.cache, bench.a, &shared, &other), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_recording_end(NULL), ACRE_ERR_STATE);
    EXPECT_EQ(acre_recording_launch(NULL, bench.a), ACRE_ERR_STATE);
    EXPECT_EQ(acre_recording_pool(NULL).graph, 0);
    acre_recording_destroy(NULL);

    recording = bench_record(&bench, &id);
    EXPECT_EQ(acre_recording_launch(recording, bench.c), ACRE_ERR_STATE);
    EXPECT_EQ(acre_recording_begin(bench.cache, bench.b, &id, &other), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "already recording to mempool_id");
    EXPECT_EQ(acre_recording_begin(bench.cache, bench.a, NULL, &other), ACRE_ERR_STATE);
    EXPECT_PTR_EQ(other, NULL);
    REQUIRE_OK(acre_pool_ids(bench.cache, NULL, 0, &count));
    EXPECT_EQ(count, 1);
    acre_recording_destroy(recording); /* in the middle: the capture is given up */
    acre_capture_info info = {.struct_size = sizeof info};
    REQUIRE_OK(acre_capture_info_get(bench.device, bench.a, &info));
    EXPECT_EQ(info.status, ACRE_CAPTURE_NONE);
    REQUIRE_OK(acre_cache_empty(bench.cache));
    bench_close(&bench);
}

TEST(a_broken_capture_gives_its_pool_up)
{
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        bench_open(&bench, policies[i], NULL);
        acre_recording *recording = bench_record(&bench, NULL);
        acre_pool_id id = acre_recording_pool(recording);
        void *block = bench_alloc(&bench, 3 * MIB, bench.a);
        bench_join(&bench, bench.a, bench.b);
        bench_use(&bench, block, bench.b);
        bench_free(&bench, block);
        EXPECT_EQ(acre_stream_native_synchronize(bench.device, bench.a), ACRE_ERR_STATE);
        EXPECT_EQ(acre_recording_end(recording), ACRE_ERR_STATE);
        EXPECT_EQ(acre_recording_end(recording), ACRE_ERR_STATE);
        EXPECT_EQ(acre_recording_launch(recording, bench.a), ACRE_ERR_STATE);
        EXPECT_EQ(bench_pool(&bench, id).use_count, 0);
        EXPECT_EQ(bench_pool(&bench, id).waiting_bytes, 0);
        REQUIRE_OK(acre_cache_empty(bench.cache));
        EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 0);
        acre_recording_destroy(recording);
        bench_close(&bench);
    }
}

/* Host memory fails once the capture has begun, and the first try to end that fails, too. */
TEST(what_could_not_begin_does_not_capture)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_CAPTURE, .nth = 2};

    if (ground_is_driver())
        T_SKIP("calls of a driver fail in test_driver_fault");
    for (int i = 0; i < 2; i++) {
        acre_status status = ACRE_ERR_HOST_MEMORY;
        for (uint64_t nth = 1; status != ACRE_OK; nth++) {
            acre_capture_info info = {.struct_size = sizeof info};
            acre_recording *recording;
            struct bench bench;
            bench_open(&bench, policies[i], NULL);
            REQUIRE_OK(acre_sim_fault_arm(bench.sim, &fault));
            heap_fail_nth(nth);
            status = acre_recording_begin(bench.cache, bench.a, NULL, &recording);
            bool was_failed = heap_fail_disarm();
            acre_sim_fault_disarm(bench.sim);
            EXPECT(status == ACRE_OK || (was_failed && status == ACRE_ERR_HOST_MEMORY));
            if (status == ACRE_OK) {
                REQUIRE_OK(acre_recording_end(recording));
                acre_recording_destroy(recording);
            }
            REQUIRE_OK(acre_capture_info_get(bench.device, bench.a, &info));
            EXPECT_EQ(info.status, ACRE_CAPTURE_NONE);
            REQUIRE_OK(acre_device_synchronize(bench.device));
            bench_close(&bench);
        }
    }
}

TEST(a_user_may_end_scope_and_mark_early)
{
    struct bench bench;

    bench_open(&bench, ACRE_POLICY_TORCH, NULL);
    acre_recording *recording = bench_record(&bench, NULL);
    acre_pool_id id = acre_recording_pool(recording);
    void *block = bench_alloc(&bench, 3 * MIB, bench.a);
    REQUIRE_OK(acre_pool_end(bench.cache, id));
    REQUIRE_OK(acre_capture_mark_end(bench.cache, bench.a));
    REQUIRE_OK(acre_recording_end(recording));
    EXPECT_EQ(bench_pool(&bench, id).use_count, 1);
    bench_free(&bench, block);
    acre_recording_destroy(recording);
    bench_close(&bench);
}

T_MAIN()
