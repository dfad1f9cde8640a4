/* SPDX-License-Identifier: MIT */
/* Private pools and recordings while every device call and every host allocation
 * fails in turn. Each call that meets the failure gives one clean error, leaves
 * every fact of the cache as it was, and succeeds when repeated; a capture whose
 * end failed is done anew. At the end nothing is left anywhere. */
#include "base/bits.h"
#include "base/heap.h"
#include "tests/support/fault_backend.h"
#include "tests/support/t.h"

#include <acre/pool.h>
#include <acre/sim.h>

static acre_backend *sim, *faulty;
static acre_device *plain;  /* of sim: for what the test does itself */
static acre_device *device; /* of faulty                             */
static acre_cache *cache;
static void *stream, *side, *event;
static acre_policy policy;
static const char *conf;

/* Whether a call is to be repeated. */
static bool is_to_repeat(acre_status status)
{
    if (status == ACRE_OK)
        return false;
    if (status != ACRE_ERR_HOST_MEMORY && status != ACRE_ERR_DEVICE &&
        status != ACRE_ERR_DEVICE_MEMORY)
        t_fail(__FILE__, __LINE__, "%s: %s", acre_status_name(status), acre_last_error());
    EXPECT_EQ(acre_cache_check(cache), ACRE_OK);
    return true;
}

#define TWICE(call)                                                            \
    do {                                                                       \
        if (is_to_repeat(call))                                                \
            REQUIRE_OK(call);                                                  \
    } while (0)

static void join(void *from, void *to)
{
    TWICE(acre_event_native_record(plain, event, from));
    TWICE(acre_stream_native_wait(plain, to, event));
}

static void *take(size_t bytes, void *where)
{
    void *pointer = NULL;

    TWICE(acre_cache_alloc(cache, bytes, where, &pointer));
    return pointer;
}

static void expect_use_count(acre_pool_id id, uint64_t expected)
{
    uint64_t count = 77;

    REQUIRE_OK(acre_pool_use_count(cache, id, &count));
    EXPECT_EQ(count, expected);
}

static void *source_alloc(void *arg, size_t bytes, int index, void *where)
{
    void *pointer = NULL;

    (void)arg;
    (void)index;
    (void)where;
    return acre_device_alloc(plain, bytes, &pointer) == ACRE_OK ? pointer : NULL;
}

static void source_free(void *arg, void *pointer, size_t bytes, int index, void *where)
{
    (void)arg;
    (void)bytes;
    (void)index;
    (void)where;
    EXPECT_EQ(acre_device_free(plain, pointer), ACRE_OK);
}

static void scenario_pools(void)
{
    acre_pool_config config = {.struct_size = sizeof config, .alloc = source_alloc,
                               .free = source_free};
    acre_pool_id id = acre_pool_id_next(), own = acre_pool_id_next();

    TWICE(acre_pool_create(cache, id, NULL));
    TWICE(acre_pool_begin(cache, id, NULL));
    expect_use_count(id, 2);
    void *a = take(3 * MIB, stream), *b = take(1000, stream);
    TWICE(acre_cache_record_stream(cache, a, side));
    TWICE(acre_cache_free(cache, a));
    REQUIRE_OK(acre_pool_end(cache, id));
    expect_use_count(id, 1);
    TWICE(acre_pool_create(cache, own, &config));
    TWICE(acre_pool_begin(cache, own, &(acre_pool_filter){.kind = ACRE_POOL_ANY}));
    void *c = take(30 * MIB, stream), *d = take(100, side);
    REQUIRE_OK(acre_pool_end(cache, own));
    expect_use_count(own, 1);
    TWICE(acre_cache_free(cache, b));
    TWICE(acre_cache_free(cache, c));
    TWICE(acre_cache_free(cache, d));
    REQUIRE_OK(acre_pool_release(cache, id));
    REQUIRE_OK(acre_pool_release(cache, own));
    TWICE(acre_pool_empty(cache, own));
    TWICE(acre_cache_empty(cache));
}

/* What is captured: memory that two streams use, freed and asked for again. */
static void capture_something(void)
{
    void *a = take(3 * MIB, stream);
    TWICE(acre_fill_async(plain, a, 1, MIB, stream));
    join(stream, side);
    TWICE(acre_cache_record_stream(cache, a, side));
    TWICE(acre_fill_async(plain, a, 2, MIB, side));
    void *b = take(2000, side);
    TWICE(acre_cache_free(cache, a));
    join(side, stream);
    TWICE(acre_fill_async(plain, b, 3, 100, stream));
    void *c = take(3 * MIB, stream);
    TWICE(acre_cache_record_stream(cache, c, side));
    TWICE(acre_cache_free(cache, c));
    TWICE(acre_cache_free(cache, b));
    join(side, stream);
}

static void scenario_recording(void)
{
    acre_pool_id id = acre_pool_id_next();
    acre_recording *recording = NULL;
    acre_status status;

    TWICE(acre_pool_create(cache, id, NULL));
    for (int attempt = 0; attempt < 2; attempt++) {
        TWICE(acre_recording_begin(cache, stream, &id, &recording));
        expect_use_count(id, 3);
        capture_something();
        status = acre_recording_end(recording);
        if (!is_to_repeat(status))
            break;
        /* The wrapper failed the call before it reached the device: the stream is to be free of
         * its capture all the same, as nobody else knows of it. */
        void *graph;
        EXPECT_EQ(acre_capture_end(plain, stream, &graph), ACRE_ERR_STATE);
        expect_use_count(id, 1);
        acre_recording_destroy(recording);
    }
    REQUIRE_OK(status);
    expect_use_count(id, 2);
    TWICE(acre_recording_launch(recording, side));
    REQUIRE_OK(acre_pool_release(cache, id));
    expect_use_count(id, 1);
    acre_recording_destroy(recording);
    TWICE(acre_cache_empty(cache));
}

/* Frees before, in and after a capture that the cache is only told of. */
static void scenario_marks(void)
{
    void *a = take(3 * MIB, stream), *graph;

    TWICE(acre_cache_record_stream(cache, a, side));
    TWICE(acre_capture_begin(plain, stream));
    TWICE(acre_capture_mark_begin(cache, stream));
    TWICE(acre_cache_free(cache, a));
    void *b = take(5 * MIB, side);
    TWICE(acre_cache_record_stream(cache, b, stream));
    TWICE(acre_cache_free(cache, b));
    TWICE(acre_capture_end(plain, stream, &graph));
    REQUIRE_OK(acre_capture_mark_end(cache, stream));
    TWICE(acre_cache_free(cache, take(4 * MIB, stream)));
    TWICE(acre_cache_empty(cache));
    REQUIRE_OK(acre_graph_destroy(plain, graph));
}

static void open_all(void)
{
    acre_sim_config config = {.struct_size = sizeof config, .devices = 1,
                              .memory_bytes = 256 * MIB, .dry = 1};
    acre_cache_config own = {.struct_size = sizeof own, .policy = policy, .conf = conf,
                             .flags = ACRE_CACHE_NO_ENVIRONMENT};
    const struct wrap_config wrap = {.name = "faulty", .type = ACRE_DEVICE_OPENCL};

    REQUIRE_OK(acre_sim_create(&config, &sim));
    REQUIRE_OK(fault_create(sim, &wrap, &faulty));
    REQUIRE_OK(acre_backend_device(sim, 0, &plain));
    REQUIRE_OK(acre_backend_device(faulty, 0, &device));
    REQUIRE_OK(acre_stream_native_create(plain, 0, 0, &stream));
    REQUIRE_OK(acre_stream_native_create(plain, 0, 0, &side));
    REQUIRE_OK(acre_event_native_create(plain, 0, &event));
    REQUIRE_OK(acre_cache_create(device, &own, &cache));
}

static void close_all(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_sim_usage usage = {.struct_size = sizeof usage, .alloc_count = 0};

    EXPECT_EQ(acre_cache_check(cache), ACRE_OK);
    REQUIRE_OK(acre_cache_empty(cache));
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    EXPECT_EQ(stats.active.all.current, 0);
    EXPECT_EQ(stats.reserved_bytes.all.current, 0);
    acre_cache_destroy(cache);
    REQUIRE_OK(acre_event_native_destroy(plain, event));
    REQUIRE_OK(acre_stream_native_destroy(plain, stream));
    REQUIRE_OK(acre_stream_native_destroy(plain, side));
    REQUIRE_OK(acre_sim_usage_get(sim, &usage));
    EXPECT_EQ(usage.alloc_count, 0);
    EXPECT_EQ(usage.reserve_count, 0);
    EXPECT_EQ(usage.handle_count, 0);
    EXPECT_EQ(usage.event_count, 0);
    EXPECT_EQ(usage.graph_count, 0);
    acre_backend_unregister(faulty);
    acre_backend_unregister(sim);
}

/* Fails the n-th call; whether there was one. */
static bool run_once(void (*scenario)(void), bool is_heap, uint64_t nth)
{
    uint64_t heap_before = heap_live_count();
    bool has_failed;

    open_all();
    if (is_heap)
        heap_fail_nth(nth);
    else
        fault_arm(faulty, FAULT_ANY, nth, ACRE_ERR_DEVICE);
    scenario();
    has_failed = is_heap ? heap_fail_disarm() : fault_disarm(faulty);
    close_all();
    EXPECT_EQ(heap_live_count(), heap_before);
    return has_failed;
}

static void run_all(void (*scenario)(void), const char *text)
{
    static const acre_policy policies[] = {ACRE_POLICY_TORCH, ACRE_POLICY_ACRE};

    conf = text;
    for (int i = 0; i < 4; i++) {
        uint64_t nth = 1;
        policy = policies[i / 2];
        while (run_once(scenario, i % 2, nth))
            nth++;
        EXPECT_GT(nth, 5);
    }
}

TEST(pools)
{
    run_all(scenario_pools, NULL);
}

TEST(pools_with_expandable_segments)
{
    run_all(scenario_pools, "expandable_segments:True");
}

TEST(recordings)
{
    run_all(scenario_recording, NULL);
}

TEST(recordings_with_reuse)
{
    run_all(scenario_recording, "graph_capture_record_stream_reuse:True");
}

TEST(marks)
{
    run_all(scenario_marks, NULL);
}

T_MAIN()
