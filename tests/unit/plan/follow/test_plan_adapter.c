/* SPDX-License-Identifier: MIT */
/* A planner behind the allocator interface; the rules all allocators keep are tested by
 * the conformance suite. */
#include "tests/support/gate.h"
#include "tests/support/planner_ground.h"

#include <pthread.h>
#include <unistd.h>

TEST(statistics_and_streams_are_those_of_its_device)
{
    acre_allocator_stats found = {.struct_size = sizeof found};
    acre_stream stream;
    acre_allocator *allocator;
    acre_data_ptr ptr, foreign = ACRE_DATA_PTR_EMPTY;

    open_ground(NULL, 0, true);
    REQUIRE_OK(acre_planner_allocator(ground.planner, &allocator));
    EXPECT_STR_EQ(acre_allocator_name(allocator), "planner");
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &ptr));
    EXPECT(!acre_data_ptr_is_simple(&ptr));
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &found));
    EXPECT_EQ(found.allocated_bytes.current, 1024);
    EXPECT_EQ(acre_allocator_stats_get(allocator, 1, &found), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_allocator_stats_reset_peak(allocator, 1), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_allocator_stats_reset_accumulated(allocator, 1), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_stream_default(acre_device_id_of(ground.device).type, 0, &stream));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    foreign.data = &found;
    REQUIRE_OK(acre_allocator_record_stream(allocator, &foreign, stream));
    acre_data_ptr_clear(&ptr);
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &found));
    EXPECT_EQ(found.allocated_bytes.current, 0);
    EXPECT_EQ(acre_planner_allocator(NULL, &allocator), ACRE_ERR_INVALID);
    acre_allocator_destroy(allocator);
    close_ground();
}

/* Deleters cannot be told to come again. */
static void free_asleep(uint64_t host_limit)
{
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};
    acre_pool_stats stats = {.struct_size = sizeof stats};
    acre_pool_id pool = acre_pool_id_next();
    acre_allocator *allocator;
    acre_data_ptr ptr;

    open_ground(NULL, 0, false);
    REQUIRE_OK(acre_planner_allocator(ground.planner, &allocator));
    REQUIRE_OK(acre_pool_create(ground.cache, pool, &config));
    REQUIRE_OK(acre_pool_begin(ground.cache, pool, NULL));
    REQUIRE_OK(acre_allocator_allocate(allocator, 1 << 20, &ptr));
    REQUIRE_OK(acre_pool_end(ground.cache, pool));
    REQUIRE_OK(acre_cache_sleep(ground.cache, &pool, NULL, ACRE_SLEEP_DISCARD));
    acre_host_limit_set(host_limit);
    acre_data_ptr_clear(&ptr);
    acre_host_limit_set(0);
    REQUIRE_OK(acre_pool_stats_get(ground.cache, pool, &stats));
    EXPECT_EQ(stats.live_count, 1);
    REQUIRE_OK(acre_cache_wake(ground.cache, &pool, NULL));
    if (host_limit) /* the planner has it, and tries it again when it is called */
        REQUIRE_OK(acre_allocator_empty_cache(allocator));
    REQUIRE_OK(acre_pool_stats_get(ground.cache, pool, &stats));
    EXPECT_EQ(stats.live_count, 0);
    REQUIRE_OK(acre_pool_release(ground.cache, pool));
    acre_allocator_destroy(allocator);
    close_ground();
}

TEST(what_is_freed_while_its_pool_sleeps_is_freed_on_waking)
{
    free_asleep(0);
}

TEST(what_is_freed_while_its_pool_sleeps_needs_no_host_memory)
{
    free_asleep(1);
}

/* Requests of a planner's allocator; two live at a time. */
static void ask(acre_allocator *allocator, int count, size_t unit)
{
    acre_data_ptr live[2] = {ACRE_DATA_PTR_EMPTY, ACRE_DATA_PTR_EMPTY};

    for (int i = 0; i < count; i++) {
        acre_data_ptr_clear(&live[i % 2]);
        REQUIRE_OK(acre_allocator_allocate(allocator, unit * (size_t)(1 + i % 20), &live[i % 2]));
    }
    acre_data_ptr_clear(&live[0]);
    acre_data_ptr_clear(&live[1]);
}

TEST(what_cannot_be_freed_once_is_freed_later)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD, .nth = 1};

    for (int has_plan = 0; has_plan < 2; has_plan++) {
        acre_allocator *allocator;
        acre_data_ptr ptr, next;
        void *stream;

        open_ground(NULL, 0, true);
        REQUIRE_OK(acre_planner_allocator(ground.planner, &allocator));
        REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &stream));
        if (has_plan)
            ask(allocator, 200, 512);
        EXPECT_EQ(stats().plans, has_plan);
        REQUIRE_OK(acre_allocator_allocate(allocator, 512, &ptr));
        REQUIRE_OK(acre_planner_record_stream(ground.planner, ptr.data, stream));
        REQUIRE_OK(acre_sim_fault_arm(ground.backend, &fault));
        acre_data_ptr_clear(&ptr);
        EXPECT_EQ(acre_sim_fault_disarm(ground.backend), 1);
        EXPECT_EQ(stats().allocated_bytes.current, 512);
        REQUIRE_OK(acre_allocator_allocate(allocator, 1024, &next));
        acre_data_ptr_clear(&next);
        REQUIRE_OK(acre_allocator_empty_cache(allocator));
        EXPECT_EQ(stats().allocated_bytes.current, 0);
        REQUIRE_OK(acre_stream_native_destroy(ground.device, stream));
        acre_allocator_destroy(allocator);
        close_ground();
    }
}

/* ---- Threads that the device waits for ------------------------------------------------------ */

/* Something that holds a stream up until a thread has freed what it has. */
struct holdup {
    struct gate gate;
    acre_data_ptr held;
    pthread_t thread;
};

/* Frees while the program is likely to be in a call that waits for the device. */
static void *free_and_open(void *arg)
{
    struct holdup *holdup = arg;

    gate_wait_reached(&holdup->gate);
    usleep(200000);
    acre_data_ptr_clear(&holdup->held);
    gate_open(&holdup->gate);
    return NULL;
}

static void hold_up(struct holdup *holdup, acre_allocator *allocator, size_t bytes, void *stream)
{
    REQUIRE_OK(acre_allocator_allocate(allocator, bytes, &holdup->held));
    REQUIRE_EQ(pthread_create(&holdup->thread, NULL, free_and_open, holdup), 0);
    REQUIRE_OK(acre_launch_host(ground.device, stream, gate_task, &holdup->gate));
}

/* What is freed meanwhile lives in the arena of an earlier plan. */
TEST(others_may_free_while_a_plan_is_made)
{
    acre_allocator *allocator;
    struct holdup holdup = {0};
    acre_data_ptr rest;
    void *used, *stream;

    open_ground(NULL, 64 << 20, false);
    REQUIRE_OK(acre_planner_allocator(ground.planner, &allocator));
    REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &stream));
    ask(allocator, 200, 512);
    EXPECT_EQ(stats().plans, 1);
    hold_up(&holdup, allocator, 512, stream);
    REQUIRE_OK(acre_allocator_allocate(allocator, 1024, &rest)); /* keeps the arena */
    REQUIRE_OK(acre_cache_alloc(ground.cache, 4 << 20, NULL, &used));
    REQUIRE_OK(acre_cache_record_stream(ground.cache, used, stream));
    REQUIRE_OK(acre_cache_free(ground.cache, used)); /* emptying the cache waits for the stream */
    ask(allocator, 1000, 50 * KB);
    pthread_join(holdup.thread, NULL);
    EXPECT_EQ(stats().drops, 1);
    EXPECT_EQ(stats().plans, 2);
    acre_data_ptr_clear(&rest);
    REQUIRE_OK(acre_stream_native_destroy(ground.device, stream));
    acre_allocator_destroy(allocator);
    close_ground();
}

TEST(others_may_free_while_a_plan_is_dropped)
{
    acre_allocator *allocator;
    struct holdup holdup = {0};
    void *stream;

    open_ground(NULL, 64 << 20, false);
    REQUIRE_OK(acre_planner_allocator(ground.planner, &allocator));
    REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &stream));
    ask(allocator, 200, 512);
    EXPECT_EQ(stats().plans, 1);
    hold_up(&holdup, allocator, 3 * KB + 1, stream);
    ask(allocator, 400, 100 * KB); /* the arena goes back, which waits for the device */
    pthread_join(holdup.thread, NULL);
    EXPECT_EQ(stats().drops, 1);
    REQUIRE_OK(acre_stream_native_destroy(ground.device, stream));
    acre_allocator_destroy(allocator);
    close_ground();
}

T_MAIN()
