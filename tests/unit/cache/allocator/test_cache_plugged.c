/* SPDX-License-Identifier: MIT */
/* Caches that take their segments from a plug-in. */
#include "tests/support/plug_bed.h"

static void run_cached(acre_policy policy)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_cache *cache;
    acre_pool_id pool;
    void *pointers[20];

    start();
    REQUIRE_OK(acre_pluggable_cache(allocator, 1, &config, &cache, &pool));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) {
            REQUIRE_OK(acre_cache_alloc(cache, 1000 + 100 * (size_t)i, NULL, &pointers[i]));
            memset(pointers[i], i, 1000 + 100 * (size_t)i); /* the plug-in's own memory */
        }
        for (int i = 0; i < 20; i++)
            REQUIRE_OK(acre_cache_free(cache, pointers[i]));
    }
    EXPECT_EQ(seen->alloc_count, 1);
    EXPECT_EQ(seen->allocated.device, 1);
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    EXPECT_EQ(stats.reserved_bytes.all.current, seen->allocated.bytes);
    EXPECT_EQ(stats_of(1).reserved_bytes.current, seen->allocated.bytes);
    EXPECT_EQ(acre_pluggable_close(allocator), ACRE_ERR_STATE);

    /* What PyTorch refuses for plug-ins: checkpoints, here of the pool. */
    acre_pool_state *state;
    REQUIRE_OK(acre_cache_alloc(cache, 3000, NULL, &pointers[0]));
    REQUIRE_OK(acre_pool_save(cache, pool, &state));
    REQUIRE_OK(acre_cache_free(cache, pointers[0]));
    REQUIRE_OK(acre_pool_restore(cache, state, NULL));
    REQUIRE_OK(acre_cache_free(cache, pointers[0]));
    acre_pool_state_destroy(state);
    acre_cache_destroy(cache);
    EXPECT_EQ(seen->live_count, 0);
    EXPECT_EQ(seen->freed.device, 1);
    EXPECT_EQ(seen->freed.bytes, seen->allocated.bytes);
    stop();
}

/* What PyTorch refuses for plug-ins: snapshots with a history, uses by other streams,
 * pools of the user on the same plug-in. */
TEST(a_cache_on_a_plugin_has_all_a_cache_has)
{
    acre_history_config records = {.struct_size = sizeof records};
    acre_snapshot_info info = {.struct_size = sizeof info};
    acre_pool_config config = {.struct_size = sizeof config};
    acre_pool_id id = acre_pool_id_next();
    acre_snapshot *snapshot;
    acre_cache *cache;
    void *a, *b;

    start();
    REQUIRE_OK(acre_pluggable_cache(allocator, 0, NULL, &cache, NULL));
    REQUIRE_OK(acre_cache_history_start(cache, &records));
    REQUIRE_OK(acre_cache_alloc(cache, 1000, NULL, &a));
    REQUIRE_OK(acre_cache_record_stream(cache, a, native_of(some_stream(0))));
    config.allocator = allocator;
    REQUIRE_OK(acre_pool_create(cache, id, &config));
    REQUIRE_OK(acre_pool_begin(cache, id, NULL));
    REQUIRE_OK(acre_cache_alloc(cache, 5000, NULL, &b));
    REQUIRE_OK(acre_pool_end(cache, id));
    EXPECT_EQ(seen->live_count, 2);
    REQUIRE_OK(acre_cache_snapshot(&cache, 1, NULL, &snapshot));
    REQUIRE_OK(acre_snapshot_check(snapshot));
    REQUIRE_OK(acre_snapshot_info_get(snapshot, &info));
    EXPECT_EQ(info.segment_count, 2);
    acre_snapshot_close(snapshot);
    REQUIRE_OK(acre_cache_free(cache, a));
    REQUIRE_OK(acre_cache_free(cache, b));
    REQUIRE_OK(acre_pool_release(cache, id));
    REQUIRE_OK(acre_cache_empty(cache));
    EXPECT_EQ(seen->live_count, 0);
    acre_cache_destroy(cache);
    stop();
}

/* Gives 32 MiB at most. */
static void *scarce_alloc(size_t bytes, int device, void *stream)
{
    size_t used = (size_t)stats_of(0).reserved_bytes.current;

    (void)device, (void)stream;
    return used + bytes > 32 << 20 ? NULL : aligned_alloc(512, bytes);
}

static void scarce_free(void *pointer, size_t bytes, int device, void *stream)
{
    (void)bytes, (void)device, (void)stream;
    free(pointer);
}

/* What is idle goes back to the plug-in before a request fails. */
static void run_scarce(acre_policy policy)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache *cache;
    void *a, *b;

    start();
    REQUIRE_OK(acre_pluggable_close(allocator));
    REQUIRE_OK(acre_pluggable_create(TYPE, scarce_alloc, scarce_free, &host_memory, &allocator));
    REQUIRE_OK(acre_pluggable_cache(allocator, 0, &config, &cache, NULL));
    REQUIRE_OK(acre_cache_alloc(cache, 16 << 20, NULL, &a));
    EXPECT_EQ(acre_cache_alloc(cache, 24 << 20, NULL, &b), ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(acre_cache_free(cache, a));
    REQUIRE_OK(acre_cache_alloc(cache, 24 << 20, NULL, &b));
    REQUIRE_OK(acre_cache_free(cache, b));
    REQUIRE_OK(acre_cache_check(cache));
    acre_cache_destroy(cache);
    stop();
}

TEST(idle_memory_goes_back_before_a_request_fails)
{
    run_scarce(ACRE_POLICY_TORCH);
    run_scarce(ACRE_POLICY_ACRE);
}

TEST(a_cache_takes_its_segments_from_the_plugin)
{
    run_cached(ACRE_POLICY_TORCH);
}

TEST(a_cache_of_policy_acre_does_too)
{
    run_cached(ACRE_POLICY_ACRE);
}

TEST(W19_a_cache_says_what_the_plugin_did)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache *cache;
    void *pointer, *large;

    start_with(PLUGIN("twice"), "bad_alloc", "bad_free");
    REQUIRE_OK(acre_pluggable_cache(allocator, 0, &config, &cache, NULL));
    REQUIRE_OK(acre_cache_alloc(cache, 1000, NULL, &pointer));
    EXPECT_EQ(acre_cache_alloc(cache, 30 << 20, NULL, &large), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "twice");
    REQUIRE_OK(acre_cache_free(cache, pointer));
    acre_cache_destroy(cache);
    EXPECT_EQ(*(int *)symbol("bad_free_count"), 1);
    stop();
}

T_MAIN()
