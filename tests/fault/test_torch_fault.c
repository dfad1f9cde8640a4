/* SPDX-License-Identifier: MIT */
/* libacre_torch.so while every host allocation fails in turn. PyTorch is not told that a begin
 * failed: it ends the scope and releases the pool as if it had not. */
#include "base/heap.h"
#include "bind/torch.h"
#include "tests/support/gate.h"
#include "tests/support/t.h"

#include <stdlib.h>

enum { BYTES = 4 << 20 };

static uint64_t uses_of(acre_pool_id id)
{
    uint64_t uses = 0;

    return acre_pool_use_count(acre_torch_cache(0), id, &uses) == ACRE_OK ? uses : 0;
}

/* One graph that is captured into a pool, and memory that its replays use. */
static void *graph_capture(acre_pool_id pool)
{
    acre_torch_begin_allocate_to_pool(0, pool, NULL);
    void *pointer = acre_torch_malloc(BYTES, 0, NULL);
    acre_torch_free(pointer, BYTES, 0, NULL);
    acre_torch_end_allocate_to_pool(0, pool);
    return pointer;
}

/* The library leaves its caches to the end of the process, where a sanitizer does not recognise
 * all of their pointers. */
static void end_cache(void)
{
    acre_cache_destroy(acre_torch_cache(0));
}

static void begin(void)
{
    static bool is_told;

    if (!is_told)
        is_told = atexit(end_cache) == 0;
    setenv("ACRE_BACKEND", "sim", 1);
    setenv("ACRE_SIM", "memory:1GiB", 1);
    setenv("ACRE_TORCH_QUIET", "1", 1);
    REQUIRE(acre_torch_cache(0));
}

static int64_t live_now(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(acre_torch_cache(0), &stats));
    return stats.allocation.all.current;
}

/* Two graphs share a pool, and one of them is dropped: the other keeps the memory it replays
 * into. */
TEST(a_pool_outlives_a_graph_whose_begin_failed)
{
    bool is_hit = true;
    unsigned nth;

    begin();
    for (nth = 1; is_hit; nth++) {
        acre_pool_id pool = acre_pool_id_next_graph();
        heap_fail_nth(nth);
        graph_capture(pool);
        graph_capture(pool);
        is_hit = heap_fail_disarm();
        acre_torch_release_pool(0, pool);
        EXPECT_EQ(uses_of(pool), 1);
        acre_torch_reset();
        EXPECT_EQ(uses_of(pool), 1);
        acre_torch_release_pool(0, pool);
        acre_torch_reset();
        EXPECT_EQ(uses_of(pool), 0);
        REQUIRE_OK(acre_cache_check(acre_torch_cache(0)));
        REQUIRE(nth < 1000);
    }
    EXPECT_GT(nth, 3);
}

/* Each begin that failed makes up for one release, on its own device and pool only. */
TEST(releases_are_counted_for_each_pool)
{
    acre_pool_id first, second;

    begin();
    first = acre_pool_id_next_graph();
    second = acre_pool_id_next_graph();
    for (int i = 0; i < 3; i++) {
        heap_fail_nth(1);
        acre_torch_begin_allocate_to_pool(0, first, NULL);
        EXPECT(heap_fail_disarm());
        acre_torch_end_allocate_to_pool(0, first);
    }
    graph_capture(first);
    graph_capture(second);
    acre_torch_release_pool(0, second);
    EXPECT_EQ(uses_of(second), 0);
    for (int i = 0; i < 3; i++) {
        acre_torch_release_pool(0, first);
        EXPECT_EQ(uses_of(first), 1);
    }
    acre_torch_release_pool(0, first);
    EXPECT_EQ(uses_of(first), 0);
    acre_torch_reset();
}

/* Memory that streams use which could not be noted: nobody else gets it before they are done. */
TEST(uses_that_could_not_be_noted_keep_their_blocks)
{
    enum { COUNT = 40, SMALL = 3000 };
    struct gate gate = {0};
    void *stream, *pointers[COUNT], *others[COUNT];

    begin();
    acre_device *device = acre_cache_device(acre_torch_cache(0));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    for (int i = 0; i < COUNT; i++)
        REQUIRE((pointers[i] = acre_torch_malloc(SMALL, 0, NULL)));
    REQUIRE_OK(acre_launch_host(device, stream, gate_task, &gate));
    acre_host_limit_set(1);
    for (int i = 0; i < COUNT; i++)
        acre_torch_record_stream(pointers[i], stream);
    for (int i = 0; i < COUNT / 2; i++) /* the later half when there is memory again */
        acre_torch_free(pointers[i], SMALL, 0, NULL);
    acre_host_limit_set(0);
    for (int i = COUNT / 2; i < COUNT; i++)
        acre_torch_free(pointers[i], SMALL, 0, NULL);
    for (int i = 0; i < COUNT; i++) {
        REQUIRE((others[i] = acre_torch_malloc(SMALL, 0, NULL)));
        for (int k = 0; k < COUNT; k++)
            EXPECT(others[i] != pointers[k]);
    }
    gate_open(&gate);
    REQUIRE_OK(acre_stream_native_synchronize(device, stream));
    for (int i = 0; i < COUNT; i++)
        acre_torch_free(others[i], SMALL, 0, NULL);
    acre_torch_reset();
    EXPECT_EQ(live_now(), 0);
    REQUIRE_OK(acre_cache_check(acre_torch_cache(0)));
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
}

TEST(what_is_freed_while_its_pool_sleeps_needs_no_host_memory)
{
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};

    begin();
    acre_cache *cache = acre_torch_cache(0);
    acre_pool_id pool = acre_pool_id_next();
    REQUIRE_OK(acre_pool_create(cache, pool, &config));
    acre_torch_begin_allocate_to_pool(0, pool, NULL);
    void *pointer = acre_torch_malloc(BYTES, 0, NULL);
    acre_torch_end_allocate_to_pool(0, pool);
    REQUIRE(pointer);
    REQUIRE_OK(acre_cache_sleep(cache, &pool, NULL, ACRE_SLEEP_DISCARD));
    acre_host_limit_set(1);
    acre_torch_free(pointer, BYTES, 0, NULL);
    acre_host_limit_set(0);
    EXPECT_EQ(live_now(), 1);
    REQUIRE_OK(acre_cache_wake(cache, &pool, NULL));
    EXPECT_EQ(live_now(), 0);
    acre_torch_release_pool(0, pool);
    REQUIRE_OK(acre_pool_release(cache, pool));
    acre_torch_reset();
}

/* When more pools failed than are remembered, pools stay rather than end too early. */
TEST(more_failures_than_are_remembered)
{
    enum { COUNT = 300 };
    acre_pool_id pools[COUNT];

    begin();
    for (int i = 0; i < COUNT; i++) {
        pools[i] = acre_pool_id_next_graph();
        heap_fail_nth(1);
        acre_torch_begin_allocate_to_pool(0, pools[i], NULL);
        EXPECT(heap_fail_disarm());
        acre_torch_end_allocate_to_pool(0, pools[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        graph_capture(pools[i]);
        acre_torch_release_pool(0, pools[i]);
        EXPECT_EQ(uses_of(pools[i]), 1);
    }
    acre_torch_reset();
    for (int i = 0; i < COUNT; i++)
        EXPECT_EQ(uses_of(pools[i]), 1);
    REQUIRE_OK(acre_cache_check(acre_torch_cache(0)));
}

T_MAIN()
