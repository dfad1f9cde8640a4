/* SPDX-License-Identifier: MIT */
/* Behaviours of the pinned cache by their numbers (B: policy torch decides as PyTorch
 * does; W: what it does better), and the calls around them. */
#include "pinned/pinned.h"
#include "tests/support/pinned_bed.h"

#include <acre/acre.h>

#include <unistd.h>

/* ---- The list ------------------------------------------------------------------------- */

TEST(B144_sizes_are_powers_of_two)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, NULL);
    void *a = pinned_take(&bed, 40960), *b = pinned_take(&bed, 1);
    EXPECT_EQ(pinned_bytes(&bed, a), 65536);
    EXPECT_EQ(pinned_bytes(&bed, b), 1);
    acre_pinned_stats stats = pinned_stats(&bed);
    EXPECT_EQ(stats.bucket_allocation[16], 1);
    EXPECT_EQ(stats.bucket_allocation[0], 1);
    EXPECT_EQ(stats.allocated_bytes.current, 65537);
    EXPECT_EQ(stats.active_bytes.current, 65537);
    EXPECT_EQ(stats.requested_bytes.current, 40961);
    pinned_give(&bed, a);
    pinned_give(&bed, b);
    pinned_bed_close(&bed);
}

TEST(B145_the_block_freed_last_serves_any_size_of_its_bucket)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, NULL);
    void *a = pinned_take(&bed, 5000), *b = pinned_take(&bed, 8000);
    pinned_give(&bed, a);
    pinned_give(&bed, b);
    EXPECT_PTR_EQ(pinned_take(&bed, 4097), b);
    EXPECT_PTR_EQ(pinned_take(&bed, 8192), a);
    EXPECT_EQ(pinned_stats(&bed).num_host_alloc, 2);
    pinned_bed_close(&bed);
}

/* Gives back a block whose stream 0 is held up, then one whose stream 1 has passed. */
static void give_late_and_passed(struct pinned_bed *bed, void *late, void *passed)
{
    pinned_use(bed, late, 0);
    pinned_use(bed, passed, 1);
    pinned_hold_up(bed, 0);
    pinned_give(bed, late);
    pinned_give(bed, passed);
    REQUIRE_OK(acre_stream_native_synchronize(bed->devices[0], bed->streams[1]));
}

TEST(B146_all_streams_first_and_events_in_order)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, NULL);
    void *a = pinned_take(&bed, 4096);
    pinned_use(&bed, a, 0);
    pinned_use(&bed, a, 2);
    pinned_hold_up(&bed, 0);
    pinned_hold_up(&bed, 2);
    pinned_give(&bed, a);
    EXPECT_EQ(pinned_stats(&bed).active_requests.current, 1);
    EXPECT_EQ(pinned_stats(&bed).waiting_bytes, 4096);
    pinned_let_go(&bed, 0);
    void *b = pinned_take(&bed, 4096);
    EXPECT(b != a); /* one stream is not enough */
    pinned_let_go(&bed, 2);
    EXPECT_PTR_EQ(pinned_take(&bed, 4096), a);

    /* A younger event that has passed stands behind an older one that has not. */
    give_late_and_passed(&bed, a, b);
    void *c = pinned_take(&bed, 4096);
    EXPECT(c != a && c != b);
    pinned_let_go(&bed, 0);
    REQUIRE_OK(pinned_process(bed.pinned));
    EXPECT_EQ(pinned_stats(&bed).active_requests.current, 1);
    pinned_bed_close(&bed);
}

TEST(B146_policy_acre_passes_by_streams_that_are_behind)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    void *a = pinned_take(&bed, 4096), *b = pinned_take(&bed, 4096);
    give_late_and_passed(&bed, a, b);
    REQUIRE_OK(pinned_process(bed.pinned));
    EXPECT_PTR_EQ(pinned_take(&bed, 4096), b);
    pinned_let_go(&bed, 0);
    pinned_bed_close(&bed);
}

TEST(B147_record_event_by_context_by_pointer_and_unknown)
{
    struct pinned_bed bed;
    acre_stream stream;
    bool known = false;
    int foreign;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, NULL);
    REQUIRE_OK(acre_stream_default(ACRE_DEVICE_PRIVATE, 0, &stream));
    void *a = pinned_take(&bed, 100);
    EXPECT_EQ(acre_pinned_record_event(bed.pinned, NULL, a, stream, &known), ACRE_OK);
    EXPECT(known);
    EXPECT_EQ(acre_pinned_record_event(bed.pinned, a, &foreign, stream, &known), ACRE_OK);
    EXPECT(known);
    EXPECT_EQ(acre_pinned_record_event(bed.pinned, &foreign, &foreign, stream, &known), ACRE_OK);
    EXPECT(!known);
    pinned_give(&bed, a);
    EXPECT_EQ(acre_pinned_record_event(bed.pinned, a, a, stream, &known), ACRE_OK);
    EXPECT(!known);
    pinned_bed_close(&bed);
}

TEST(B148_empty_gives_all_back_and_reset_zeroes)
{
    struct pinned_bed bed;

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        pinned_bed_open(&bed, policy, NULL);
        void *a = pinned_take(&bed, 1000), *b = pinned_take(&bed, 5 * MIB);
        pinned_give(&bed, a);
        pinned_give(&bed, b);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        acre_pinned_stats stats = pinned_stats(&bed);
        EXPECT_EQ(stats.allocations.current, 0);
        EXPECT_EQ(stats.allocated_bytes.current, 0);
        EXPECT_EQ(stats.num_host_free, stats.num_host_alloc);
        EXPECT_EQ(stats.host_alloc_time.count, 2);
        EXPECT_GE(stats.host_alloc_time.max, stats.host_alloc_time.min);
        acre_pinned_stats_reset_accumulated(bed.pinned);
        acre_pinned_stats_reset_peak(bed.pinned);
        stats = pinned_stats(&bed);
        EXPECT_EQ(stats.num_host_alloc, 0);
        EXPECT_EQ(stats.num_host_free, 0);
        EXPECT_EQ(stats.active_bytes.peak, 0);
        EXPECT_EQ(stats.host_alloc_time.total, 0);
        EXPECT_EQ(stats.host_free_time.max, 0);
        pinned_bed_close(&bed);
    }
}

TEST(B149_beyond_the_cached_limit_nothing_is_rounded_or_kept)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, "pinned_max_cached_size_mb:4");
    void *a = pinned_take(&bed, 5 * MIB);
    EXPECT_EQ(pinned_bytes(&bed, a), 5 * MIB);
    pinned_give(&bed, a);
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
    a = pinned_take(&bed, 4 * MIB);
    pinned_give(&bed, a);
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 1);
    EXPECT_PTR_EQ(pinned_take(&bed, 4 * MIB), a);
    pinned_bed_close(&bed);
}

TEST(B150_beyond_the_round_threshold_sizes_are_exact)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, "pinned_max_round_threshold_mb:8");
    EXPECT_EQ(pinned_bytes(&bed, pinned_take(&bed, 9437184)), 9437184);
    EXPECT_EQ(pinned_bytes(&bed, pinned_take(&bed, 7 * MIB)), 8 * MIB);
    pinned_bed_close(&bed);
}

TEST(B151_W17_what_a_capture_used_returns_when_its_graph_is_gone)
{
    struct pinned_bed bed;
    void *graph;

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        pinned_bed_open(&bed, policy, NULL);
        REQUIRE_OK(acre_capture_begin(bed.devices[0], bed.streams[0]));
        void *a = pinned_take(&bed, 4096);
        pinned_give(&bed, a); /* nobody used it */
        EXPECT_PTR_EQ(pinned_take(&bed, 4096), a);
        pinned_use(&bed, a, 0);
        pinned_give(&bed, a);
        REQUIRE_OK(acre_capture_end(bed.devices[0], bed.streams[0], &graph));
        REQUIRE_OK(pinned_process(bed.pinned));
        void *b = pinned_take(&bed, 4096);
        EXPECT(b != a);
        EXPECT_EQ(pinned_stats(&bed).captured_bytes, 4096);
        REQUIRE_OK(acre_graph_destroy(bed.devices[0], graph));
        acre_pinned_captured_release(bed.pinned);
        EXPECT_EQ(pinned_stats(&bed).captured_bytes, 0);
        EXPECT_PTR_EQ(pinned_take(&bed, 4096), a);
        pinned_bed_close(&bed);
    }
}

TEST(B151_uses_before_a_capture_are_waited_for_after_it)
{
    struct pinned_bed bed;
    void *graph;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    void *a = pinned_take(&bed, 4096);
    pinned_use(&bed, a, 0);
    REQUIRE_OK(acre_capture_begin(bed.devices[0], bed.streams[0]));
    pinned_give(&bed, a); /* no event can be recorded now */
    REQUIRE_OK(pinned_process(bed.pinned));
    EXPECT_EQ(pinned_stats(&bed).waiting_bytes, 4096);
    REQUIRE_OK(acre_capture_end(bed.devices[0], bed.streams[0], &graph));
    REQUIRE_OK(pinned_process(bed.pinned)); /* records */
    REQUIRE_OK(acre_stream_native_synchronize(bed.devices[0], bed.streams[0]));
    REQUIRE_OK(pinned_process(bed.pinned));
    EXPECT_EQ(pinned_stats(&bed).waiting_bytes, 0);
    REQUIRE_OK(acre_graph_destroy(bed.devices[0], graph));
    pinned_bed_close(&bed);
}

TEST(B152_a_scope_begins_once_and_ends_once)
{
    struct pinned_bed bed;
    acre_pool_id id = acre_pool_id_next_graph();
    uint64_t uses = 0;

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        pinned_bed_open(&bed, policy, NULL);
        void *shared = pinned_take(&bed, 4096);
        pinned_give(&bed, shared);
        REQUIRE_OK(acre_pinned_pool_begin(bed.pinned, id, NULL));
        EXPECT_EQ(acre_pinned_pool_begin(bed.pinned, id, NULL), ACRE_ERR_EXISTS);
        EXPECT_HAS(acre_last_error(), "already recording");
        void *own = pinned_take(&bed, 4096);
        EXPECT(own != shared);
        REQUIRE_OK(acre_pinned_pool_end(bed.pinned, id));
        EXPECT_EQ(acre_pinned_pool_end(bed.pinned, id), ACRE_ERR_STATE);
        EXPECT_HAS(acre_last_error(), "not currently recording");
        EXPECT_PTR_EQ(pinned_take(&bed, 4096), shared);
        REQUIRE_OK(acre_pinned_pool_use_count(bed.pinned, id, &uses));
        EXPECT_EQ(uses, 1);
        pinned_give(&bed, own);
        REQUIRE_OK(acre_pinned_pool_release(bed.pinned, id));
        EXPECT_EQ(acre_pinned_pool_release(bed.pinned, id), ACRE_ERR_STATE);
        EXPECT_EQ(acre_pinned_pool_begin(bed.pinned, id, NULL), ACRE_ERR_STATE);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        EXPECT_EQ(acre_pinned_pool_release(bed.pinned, id), ACRE_ERR_NOT_FOUND);
        pinned_bed_close(&bed);
    }
}

TEST(W2_nobody_gets_a_block_that_is_too_small)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, "pinned_max_round_threshold_mb:8");
    void *small = pinned_take(&bed, 9 * MIB);
    pinned_give(&bed, small);
    void *large = pinned_take(&bed, 12 * MIB); /* the same bucket */
    EXPECT(large != small);
    EXPECT_EQ(pinned_bytes(&bed, large), 12 * MIB);
    ((char *)large)[12 * MIB - 1] = 1;
    EXPECT_PTR_EQ(pinned_take(&bed, 9 * MIB), small);
    EXPECT_EQ(pinned_stats(&bed).active_bytes.current, 21 * MIB);
    pinned_give(&bed, large);
    REQUIRE_OK(acre_pinned_conf_set(bed.pinned, "pinned_max_round_threshold_mb:64"));
    void *whole = pinned_take(&bed, 13 * MIB); /* 16 MiB now */
    EXPECT(whole != large);
    pinned_give(&bed, whole);
    pinned_give(&bed, small);
    EXPECT_EQ(pinned_stats(&bed).active_bytes.current, 0);
    pinned_bed_close(&bed);
}

TEST(W17_private_pools_end_with_events_pending_and_captures_kept)
{
    struct pinned_bed bed;
    acre_pool_id id = acre_pool_id_next();
    acre_pool_filter filter = {.kind = ACRE_POOL_ANY};

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        void *graph;
        pinned_bed_open(&bed, policy, NULL);
        REQUIRE_OK(acre_pinned_pool_begin(bed.pinned, id, &filter));
        void *a = pinned_take(&bed, 4096), *b = pinned_take(&bed, 4096);
        pinned_use(&bed, a, 1);
        pinned_give(&bed, a);
        REQUIRE_OK(acre_capture_begin(bed.devices[0], bed.streams[0]));
        pinned_use(&bed, b, 0);
        pinned_give(&bed, b);
        REQUIRE_OK(acre_capture_end(bed.devices[0], bed.streams[0], &graph));
        REQUIRE_OK(acre_pinned_pool_end(bed.pinned, id));
        REQUIRE_OK(acre_stream_native_synchronize(bed.devices[0], bed.streams[1]));
        REQUIRE_OK(acre_pinned_empty(bed.pinned)); /* of a used pool nothing goes */
        EXPECT_EQ(pinned_stats(&bed).captured_bytes, 4096);
        REQUIRE_OK(acre_graph_destroy(bed.devices[0], graph));
        REQUIRE_OK(acre_pinned_pool_release(bed.pinned, id));
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
        EXPECT_EQ(acre_pinned_pool_release(bed.pinned, id), ACRE_ERR_NOT_FOUND);
        pinned_bed_close(&bed);
    }
}

TEST(W18_an_event_that_cannot_be_asked_stays_and_events_go_with_the_cache)
{
    struct pinned_bed bed;
    acre_sim_usage usage = {.struct_size = sizeof usage};

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_QUERY,
                                .nth = 1, .status = ACRE_ERR_DEVICE};
        pinned_bed_open(&bed, policy, NULL);
        void *a = pinned_take(&bed, 4096);
        pinned_use(&bed, a, 0);
        pinned_give(&bed, a);
        REQUIRE_OK(acre_stream_native_synchronize(bed.devices[0], bed.streams[0]));
        REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
        EXPECT_EQ(pinned_process(bed.pinned), ACRE_ERR_DEVICE);
        EXPECT_EQ(acre_sim_fault_disarm(bed.sim), 1);
        EXPECT_EQ(pinned_stats(&bed).waiting_bytes, 4096);
        REQUIRE_OK(pinned_process(bed.pinned));
        EXPECT_EQ(pinned_stats(&bed).waiting_bytes, 0);
        EXPECT_PTR_EQ(pinned_take(&bed, 4096), a);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        REQUIRE_OK(acre_sim_usage_get(bed.sim, &usage));
        EXPECT_EQ(usage.event_count, 0);
        pinned_bed_close(&bed);
    }
}

TEST(W22_registered_memory_that_there_is_not_is_an_error)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE,
                    "pinned_use_cuda_host_register:True,pinned_num_register_threads:4");
    for (uint64_t nth = 1;; nth++) {
        void *a = NULL;
        heap_fail_nth(nth);
        acre_status status = acre_pinned_alloc(bed.pinned, 3 * MIB, &a);
        if (!heap_fail_disarm()) {
            REQUIRE_OK(status);
            ((char *)a)[3 * MIB - 1] = 7;
            EXPECT(acre_host_is_pinned(bed.devices[0], (char *)a + 3 * MIB - 1));
            pinned_give(&bed, a);
            break;
        }
        if (status == ACRE_OK) /* asked again, after idle memory went back */
            pinned_give(&bed, a);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
    }
    pinned_bed_close(&bed);
}

/* ---- Policy acre ------------------------------------------------------------------------ */

TEST(rounding_is_at_most_an_eighth_at_any_size)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    for (size_t bytes = 1; bytes < 8 * MIB; bytes += bytes / 7 + 1) {
        void *a = pinned_take(&bed, bytes);
        uint64_t got = pinned_bytes(&bed, a);
        EXPECT_GE(got, bytes);
        EXPECT_LE(got - bytes, bytes < 512 ? 63 : bytes / 8);
        EXPECT_EQ((uintptr_t)a % (bytes < 4096 ? 64 : bytes < 32768 ? 512 : 4096), 0);
        ((char *)a)[0] = ((char *)a)[bytes - 1] = 1;
        pinned_give(&bed, a);
    }
    EXPECT_EQ(pinned_stats(&bed).active_bytes.current, 0);
    pinned_bed_close(&bed);
}

TEST(sizes_share_memory_and_idle_memory_goes_back)
{
    struct pinned_bed bed;
    uint64_t bytes = 0;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    void *a = pinned_take(&bed, 30 * MIB);
    pinned_give(&bed, a);
    void *b = pinned_take(&bed, 10 * MIB), *c = pinned_take(&bed, 19 * MIB);
    EXPECT_EQ(pinned_stats(&bed).num_host_alloc, 1);
    pinned_give(&bed, b);
    pinned_give(&bed, c);
    EXPECT_PTR_EQ(pinned_take(&bed, 30 * MIB), a); /* joined again */
    pinned_give(&bed, a);
    a = pinned_take(&bed, 31 * MIB); /* what does not fit goes before more comes */
    EXPECT_EQ(pinned_stats(&bed).allocated_bytes.peak, 31 * MIB);
    EXPECT_EQ(pinned_stats(&bed).num_host_free, 1);
    pinned_give(&bed, a);
    REQUIRE_OK(acre_pinned_trim(bed.pinned, 32 * MIB, &bytes));
    EXPECT_EQ(bytes, 0);
    REQUIRE_OK(acre_pinned_trim(bed.pinned, 8 * MIB, &bytes));
    EXPECT_EQ(bytes, 31 * MIB);
    pinned_bed_close(&bed);
}

TEST(when_the_system_has_no_more_idle_memory_is_given_back_first)
{
    struct pinned_bed bed;
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_HOST_ALLOC, .nth = 1,
                            .status = ACRE_ERR_HOST_MEMORY};
    void *b = NULL;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    void *a = pinned_take(&bed, 20 * MIB);
    void *large = pinned_take(&bed, 100 * MIB);
    pinned_give(&bed, large);
    pinned_use(&bed, a, 0);
    pinned_give(&bed, a);
    REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
    b = pinned_take(&bed, 101 * MIB);
    EXPECT_EQ(acre_sim_fault_disarm(bed.sim), 1);
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 1); /* a was waited for */
    pinned_give(&bed, b);
    fault.nth = 0;
    REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
    EXPECT_EQ(acre_pinned_alloc(bed.pinned, 200 * MIB, &b), ACRE_ERR_HOST_MEMORY);
    EXPECT_HAS(acre_last_error(), "209715200 bytes");
    EXPECT_HAS(acre_last_error(), "ulimit -l");
    acre_sim_fault_disarm(bed.sim);
    EXPECT_EQ(acre_pinned_alloc(bed.pinned, SIZE_MAX - 100, &b), ACRE_ERR_HOST_MEMORY);
    pinned_bed_close(&bed);
}

/* ---- Sources ------------------------------------------------------------------------------ */

TEST(the_reserve_serves_first_and_is_never_returned)
{
    struct pinned_bed bed;
    acre_sim_usage usage = {.struct_size = sizeof usage};

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        pinned_bed_open(&bed, policy, "pinned_reserve_segment_size_mb:1");
        char *a = pinned_take(&bed, 100 * KIB), *b = pinned_take(&bed, 200 * KIB);
        REQUIRE_OK(acre_sim_usage_get(bed.sim, &usage));
        EXPECT_EQ(usage.host_count, 1);
        EXPECT_LT(b > a ? b - a : a - b, 1 * MIB);
        pinned_give(&bed, a);
        pinned_give(&bed, b);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        REQUIRE_OK(acre_sim_usage_get(bed.sim, &usage));
        EXPECT_EQ(usage.host_count, 1);
        pinned_give(&bed, pinned_take(&bed, 2 * MIB)); /* more than the reserve */
        REQUIRE_OK(acre_sim_usage_get(bed.sim, &usage));
        EXPECT_EQ(usage.host_count, 2);
        pinned_bed_close(&bed);
    }
}

TEST(the_background_thread_sees_events_by_itself)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, "pinned_use_background_threads:True");
    EXPECT(!bed.pinned->poller.is_running);
    void *a = pinned_take(&bed, 4096);
    EXPECT(bed.pinned->poller.is_running);
    pinned_use(&bed, a, 0);
    pinned_hold_up(&bed, 0);
    pinned_give(&bed, a);
    void *b = pinned_take(&bed, 4096);
    EXPECT(b != a);
    pinned_let_go(&bed, 0);
    for (int i = 0; i < 10000 && pinned_stats(&bed).waiting_bytes; i++)
        usleep(1000);
    EXPECT_EQ(pinned_stats(&bed).waiting_bytes, 0);
    EXPECT_PTR_EQ(pinned_take(&bed, 4096), a);
    REQUIRE_OK(acre_pinned_conf_set(bed.pinned, "pinned_use_background_threads:False"));
    pinned_bed_close(&bed);
}

TEST(options_come_from_strings_and_a_bad_one_changes_nothing)
{
    struct pinned_bed bed;
    char text[64];

    pinned_bed_open(&bed, ACRE_POLICY_DEFAULT, "policy:torch,pinned_max_cached_size_mb:4");
    EXPECT_EQ(pinned_policy(bed.pinned), ACRE_POLICY_TORCH);
    EXPECT_EQ(acre_pinned_conf_set(bed.pinned, "pinned_num_register_threads:3"),
              ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "pinned_num_register_threads");
    EXPECT_EQ(acre_pinned_conf_set(bed.pinned, "pinned_numa_node:99"), ACRE_ERR_CONFIG);
    REQUIRE_OK(acre_pinned_conf_set(bed.pinned, "pinned_numa_node:0"));
    acre_pinned_conf_get(bed.pinned, text, sizeof text);
    EXPECT_STR_EQ(text, "pinned_numa_node:0");
    pinned_give(&bed, pinned_take(&bed, 5 * MIB)); /* the limit is still there */
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
    pinned_bed_close(&bed);
}

TEST(a_free_that_cannot_record_leaves_the_block_live_or_is_caught)
{
    struct pinned_bed bed;
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD, .nth = 1,
                            .status = ACRE_ERR_DEVICE};

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    void *a = pinned_take(&bed, 4096);
    pinned_use(&bed, a, 0);
    REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
    EXPECT_EQ(acre_pinned_free(bed.pinned, a), ACRE_ERR_DEVICE);
    acre_sim_fault_disarm(bed.sim);
    pinned_give(&bed, a);
    REQUIRE_OK(acre_pinned_conf_set(bed.pinned, "pinned_free_catch_all:True"));
    void *b = pinned_take(&bed, 4096);
    pinned_use(&bed, b, 0);
    REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
    EXPECT_EQ(acre_pinned_free(bed.pinned, b), ACRE_OK);
    acre_sim_fault_disarm(bed.sim);
    EXPECT_EQ(pinned_stats(&bed).captured_bytes, 4096);
    pinned_bed_close(&bed);
}

TEST(the_cpu_itself_serves_as_a_device)
{
    acre_allocator *allocator;
    acre_data_ptr ptr;

    REQUIRE_OK(acre_pinned_allocator_create(ACRE_DEVICE_CPU, NULL, &allocator));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100000, &ptr));
    memset(ptr.data, 1, 100000);
    acre_data_ptr_clear(&ptr);
    EXPECT(pinned_of_allocator(allocator) != NULL);
    acre_allocator_destroy(allocator);
}

/* ---- Looking inside -------------------------------------------------------------------------- */

TEST(history_and_snapshot_tell_of_host_memory)
{
    struct pinned_bed bed;
    acre_history_config config = {.struct_size = sizeof config, .level = ACRE_CONTEXT_ALL,
                                  .max_entries = 100};
    acre_snapshot_info info = {.struct_size = sizeof info};
    acre_history *history;
    acre_snapshot *snapshot;

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        pinned_bed_open(&bed, policy, NULL);
        REQUIRE_OK(acre_pinned_history_start(bed.pinned, &config));
        EXPECT(acre_pinned_history_is_on(bed.pinned));
        void *a = pinned_take(&bed, 1000);
        pinned_give(&bed, a);
        a = pinned_take(&bed, 100000);
        REQUIRE_OK(acre_pinned_snapshot(bed.pinned, NULL, &snapshot));
        REQUIRE_OK(acre_snapshot_check(snapshot));
        REQUIRE_OK(acre_snapshot_info_get(snapshot, &info));
        EXPECT_EQ(info.segment_count, pinned_stats(&bed).allocations.current);
        EXPECT_EQ(info.allocated_bytes, pinned_bytes(&bed, a));
        EXPECT_EQ(info.event_count, policy == ACRE_POLICY_TORCH ? 6 : 5);
        acre_snapshot_close(snapshot);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        REQUIRE_OK(acre_pinned_history_create(bed.pinned, &history));
        EXPECT_EQ(history->entries[0].action, ACRE_ACTION_SEGMENT_ALLOC);
        EXPECT_EQ(history->entries[1].action, ACRE_ACTION_ALLOC);
        EXPECT_EQ(history->entries[1].bytes, 1000);
        EXPECT_GT(history->entries[1].stack, 0);
        EXPECT_EQ(history->entries[2].action, ACRE_ACTION_FREE_REQUESTED);
        EXPECT_EQ(history->entries[3].action, ACRE_ACTION_FREE_COMPLETED);
        acre_history_destroy(history);
        acre_pinned_history_stop(bed.pinned);
        pinned_bed_close(&bed);
    }
}

TEST(hostile_arguments_are_refused)
{
    struct pinned_bed bed;
    void *a = NULL;
    acre_device *cpu;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &cpu));
    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    EXPECT_EQ(acre_pinned_alloc(NULL, 1, &a), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pinned_alloc(bed.pinned, 1, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pinned_alloc(bed.pinned, 0, &a), ACRE_OK);
    EXPECT_PTR_EQ(a, NULL);
    EXPECT_EQ(acre_pinned_free(bed.pinned, NULL), ACRE_OK);
    a = pinned_take(&bed, 200);
    EXPECT_EQ(acre_pinned_free(bed.pinned, (char *)a + 64), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pinned_free(bed.pinned, (char *)a + 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pinned_free(bed.pinned, &bed), ACRE_ERR_INVALID);
    pinned_give(&bed, a);
    EXPECT_EQ(acre_pinned_free(bed.pinned, a), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid host pointer");
    EXPECT_EQ(acre_pinned_record_stream(bed.pinned, a, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pinned_record_stream(bed.pinned, a, cpu, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pinned_pool_begin(bed.pinned, (acre_pool_id){0, 0}, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pinned_pool_end(bed.pinned, (acre_pool_id){0, 77}), ACRE_ERR_NOT_FOUND);
    acre_pinned_destroy(NULL);
    pinned_bed_close(&bed);
}

T_MAIN()
