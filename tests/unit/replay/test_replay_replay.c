/* SPDX-License-Identifier: MIT */
/* Replaying: what each line does, counters, several passes, failures, streams,
 * the smallest capacity; long traces; every failing host allocation. */
#include <acre/trace.h>

#include "base/bits.h"
#include "base/heap.h"
#include "replay/feed.h"
#include "replay/target.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

static acre_replay_result result;

static acre_status replay(const char *text, acre_replay_config config)
{
    config.struct_size = sizeof config;
    config.policy = ACRE_POLICY_TORCH;
    result = (acre_replay_result){.struct_size = sizeof result};
    return acre_replay(files_write("r.trace", text, strlen(text)), &config, &result);
}

TEST(counts_and_peaks_of_one_pass)
{
    REQUIRE_OK(replay("a 1 1000 0\na 2 3145728 0\nf 1\na 3 1 0\nf 2\n", (acre_replay_config){0}));
    EXPECT_EQ(result.first.events, 5);
    EXPECT_EQ(result.first.allocs, 3);
    EXPECT_EQ(result.first.frees, 2);
    EXPECT_EQ(result.first.bytes_requested_peak, 3146728);
    EXPECT_EQ(result.first.bytes_allocated_peak, 3146752);
    EXPECT_EQ(result.first.bytes_reserved_peak, 22 * MIB);
    EXPECT_EQ(result.first.waste_ppm, 6331002);
    EXPECT_EQ(result.first.segments_peak, 2);
    EXPECT_EQ(result.first.segments, 2);
    EXPECT_EQ(result.first.device_allocs, 2);
    EXPECT_EQ(result.first.device_frees, 0);
    EXPECT_EQ(result.first.first_oom_event, -1);
    EXPECT_EQ(result.device_bytes, ACRE_REPLAY_DEVICE_BYTES);
    EXPECT_EQ(result.has_warm, 0);
    EXPECT_EQ(result.min_capacity_bytes, 0);
    EXPECT(result.first.ns_per_event > 0);
}

TEST(an_empty_cache_line_returns_segments)
{
    REQUIRE_OK(replay("a 1 1000 0\nf 1\ne\na 2 1000 0\n", (acre_replay_config){0}));
    EXPECT_EQ(result.first.device_allocs, 2);
    EXPECT_EQ(result.first.device_frees, 1);
    EXPECT_EQ(result.first.segments_peak, 1);
}

TEST(the_last_pass_starts_where_the_first_ended)
{
    REQUIRE_OK(replay("a 1 1000 0\na 2 40000000 0\nf 2\na 3 50000000 0\n",
                      (acre_replay_config){.repeat = 3}));
    EXPECT_EQ(result.has_warm, 1);
    EXPECT_EQ(result.first.device_allocs, 3);
    EXPECT_EQ(result.warm.device_allocs, 0);
    EXPECT_EQ(result.warm.events, 4);
    EXPECT_EQ(result.warm.segments, 3);
    EXPECT_EQ(result.warm.bytes_reserved_peak, result.first.bytes_reserved_peak);
    EXPECT_EQ(result.warm.bytes_requested_peak, result.first.bytes_requested_peak);
}

TEST(a_failed_allocation_does_not_end_the_replay)
{
    REQUIRE_OK(replay("a 1 6291456 0\na 2 31457280 0\nu 2 1\nf 1\nf 2\na 3 20971520 0\nf 3\n",
                      (acre_replay_config){.device_bytes = 22 * MIB}));
    EXPECT_EQ(result.first.events, 7);
    EXPECT_EQ(result.first.allocs, 3);
    EXPECT_EQ(result.first.frees, 3);
    EXPECT_EQ(result.first.ooms, 1);
    EXPECT_EQ(result.first.first_oom_event, 1);
    EXPECT_EQ(result.first.bytes_requested_peak, 20 * MIB);
    EXPECT_EQ(result.first.retries, 1);
    REQUIRE_OK(replay("a 1 1152921504606846976 0\nf 1\n", (acre_replay_config){0}));
    EXPECT_EQ(result.first.ooms, 1);
    EXPECT_EQ(result.first.first_oom_event, 0);
    EXPECT_EQ(result.first.bytes_requested_peak, 0);
}

TEST(streams_have_blocks_of_their_own)
{
    const char *text = "a 1 1000 0\nf 1\na 2 1000 1\nf 2\na 3 1000 7\nf 3\ns 1\ns *\n";

    REQUIRE_OK(replay(text, (acre_replay_config){0}));
    EXPECT_EQ(result.first.device_allocs, 3);
    REQUIRE_OK(replay(text, (acre_replay_config){.streams = 1}));
    EXPECT_EQ(result.first.device_allocs, 1);
    REQUIRE_OK(replay(text, (acre_replay_config){.streams = 2, .repeat = 2}));
    EXPECT_EQ(result.first.device_allocs, 2);
    EXPECT_EQ(result.warm.device_allocs, 0);
}

TEST(events_complete_at_once)
{
    REQUIRE_OK(replay("a 1 1000 0\nu 1 1\nu 1 2\nf 1\na 2 1000 0\nf 2\n",
                      (acre_replay_config){0}));
    EXPECT_EQ(result.first.device_allocs, 1);
    EXPECT_EQ(result.first.bytes_allocated_peak, 1024);
}

TEST(the_smallest_capacity_is_found)
{
    REQUIRE_OK(replay("a 1 1000 0\na 2 52428800 0\nf 2\na 3 62914560 0\nf 3\n",
                      (acre_replay_config){.flags = ACRE_REPLAY_MIN_CAPACITY}));
    EXPECT_EQ(result.first.bytes_reserved_peak, 112 * MIB);
    EXPECT_EQ(result.min_capacity_bytes, 62 * MIB);
    REQUIRE_OK(replay("a 1 1000 0\na 2 52428800 0\n",
                      (acre_replay_config){.flags = ACRE_REPLAY_MIN_CAPACITY,
                                           .device_bytes = 20 * MIB}));
    EXPECT_EQ(result.first.ooms, 1);
    EXPECT_EQ(result.min_capacity_bytes, 52 * MIB);
    REQUIRE_OK(replay("a 1 52428800 0\n",
                      (acre_replay_config){.flags = ACRE_REPLAY_MIN_CAPACITY,
                                           .conf = "per_process_memory_fraction:0.5"}));
    EXPECT_EQ(result.min_capacity_bytes, 100 * MIB);
    REQUIRE_OK(replay("a 1 1152921504606846976 0\n",
                      (acre_replay_config){.flags = ACRE_REPLAY_MIN_CAPACITY}));
    EXPECT_EQ(result.min_capacity_bytes, 0);
}

TEST(bad_input_is_refused_and_nothing_is_written)
{
    acre_replay_config config = {.struct_size = sizeof config};

    EXPECT_EQ(replay("a 1 1000 0\nx\n", (acre_replay_config){0}), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "r.trace:2:");
    EXPECT_EQ(result.first.events, 0);
    EXPECT_EQ(replay("e\n", (acre_replay_config){.conf = "nonsense:1"}), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "nonsense");
    EXPECT_EQ(replay("e\n", (acre_replay_config){.streams = 70000}), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_replay(NULL, &config, &result), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_replay("x", &config, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_replay(files_path("nowhere"), &config, &result), ACRE_ERR_IO);
    config.struct_size = 0;
    EXPECT_EQ(acre_replay("x", &config, &result), ACRE_ERR_INVALID);
    result.struct_size = 0;
    EXPECT_EQ(acre_replay("x", NULL, &result), ACRE_ERR_INVALID);
}

static double told;
static int told_count;

static void note_progress(void *arg, double done)
{
    EXPECT_PTR_EQ(arg, &told);
    EXPECT(done > told && done <= 1);
    told = done;
    told_count++;
}

/* Longer than what is kept in memory: read again for the second pass. */
TEST(a_long_trace_streams)
{
    const char *path = files_path("long.trace");
    FILE *file = fopen(path, "w");
    acre_replay_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                 .repeat = 2, .progress = note_progress, .progress_arg = &told};
    const uint64_t pairs = FEED_KEPT_MAX / 2 + 5000;

    REQUIRE_EQ(file != NULL, 1);
    for (uint64_t i = 0; i < pairs; i++)
        fprintf(file, "a %llu %llu 0\nf %llu\n", (unsigned long long)i,
                (unsigned long long)(i % 1000 + 1), (unsigned long long)i);
    fclose(file);
    result = (acre_replay_result){.struct_size = sizeof result};
    REQUIRE_OK(acre_replay(path, &config, &result));
    EXPECT_EQ(result.first.events, 2 * pairs);
    EXPECT_EQ(result.warm.events, 2 * pairs);
    EXPECT_EQ(result.first.bytes_requested_peak, 1000);
    EXPECT_EQ(result.warm.bytes_requested_peak, 1000);
    EXPECT_GT(told_count, 100);
    EXPECT(told > 0.99);
}

TEST(kept_events_are_the_same_again)
{
    const char *text = "a 1 5 0\na 2 6 3\nu 1 9\nf 1\ne\na 3 7 0\nf 2\n";
    const acre_trace_event *events;
    acre_trace_event first[8];
    struct feed *feed;
    size_t count;

    REQUIRE_OK(feed_open(files_write("k.trace", text, strlen(text)), 0, false, 2, &feed));
    REQUIRE_OK(feed_next(feed, &events, &count));
    REQUIRE_EQ(count, 7);
    memcpy(first, events, count * sizeof *events);
    EXPECT_EQ(first[0].stream, 0);
    EXPECT_EQ(first[1].stream, 1);
    EXPECT_EQ(first[2].stream, 9);
    EXPECT_EQ(first[5].stream, 0);
    REQUIRE_OK(feed_rewind(feed)); /* before the end was met: read again */
    for (int pass = 0; pass < 3; pass++) {
        REQUIRE_OK(feed_next(feed, &events, &count));
        REQUIRE_EQ(count, 7);
        EXPECT(memcmp(first, events, sizeof *events * 7) == 0);
        REQUIRE_OK(feed_next(feed, &events, &count));
        EXPECT_EQ(count, 0);
        EXPECT(feed_progress(feed) == 1);
        EXPECT(feed->is_whole);
        REQUIRE_OK(feed_rewind(feed));
    }
    feed_close(feed);
    feed_close(NULL);
}

TEST(a_target_has_streams_by_number)
{
    struct target target;
    uint64_t maps, unmaps;

    REQUIRE_OK(target_init(&target, ACRE_POLICY_TORCH, NULL, GIB));
    EXPECT(!target.streams[0]);
    REQUIRE_OK(target_need_stream(&target, 5));
    EXPECT_EQ(target.stream_count, 6);
    for (int i = 1; i < 6; i++)
        EXPECT(target.streams[i] && target.streams[i] != target.streams[i - 1]);
    REQUIRE_OK(target_need_stream(&target, 3));
    EXPECT_EQ(target.stream_count, 6);
    REQUIRE_OK(target_page_calls(&target, &maps, &unmaps));
    EXPECT_EQ(maps, 0);
    target_fini(&target);
    target_fini(&target);
}

TEST(every_host_allocation_may_fail)
{
    const char *text = "a 1 1000 0\na 2 6291456 3\nu 1 3\nf 1\ns *\ne\na 3 9 0\n";
    int threads = t_thread_count(), fds;

    REQUIRE_OK(replay(text, (acre_replay_config){.repeat = 2}));
    fds = t_fd_count();
    for (unsigned nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = replay(text, (acre_replay_config){.repeat = 2});
        int failed = heap_fail_disarm();
        EXPECT_EQ(heap_live_count(), live);
        EXPECT_EQ(t_fd_count(), fds);
        if (status != ACRE_ERR_HOST_MEMORY)
            EXPECT_EQ(status, ACRE_OK);
        if (!failed)
            break;
    }
    EXPECT_EQ(t_threads_left(threads), threads);
}

T_MAIN()
