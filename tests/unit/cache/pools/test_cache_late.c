/* SPDX-License-Identifier: MIT */
/* What deleters free while its pool sleeps, or while something else does not let it go. */
#include "cache/pools/late.h"

#include "cache/cache.h"
#include "tests/support/nest.h"

#include <pthread.h>
#include <unistd.h>

TEST_BOTH(what_deleters_free_meanwhile_is_freed_on_waking)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    acre_allocator *allocator;
    acre_data_ptr ptrs[40];
    acre_pool_stats stats = {.struct_size = sizeof stats};
    int64_t live;

    REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
    REQUIRE_OK(acre_pool_stats_get(bed.cache, nest.id, &stats));
    live = (int64_t)stats.live_count;
    REQUIRE_OK(acre_pool_begin(bed.cache, nest.id, NULL));
    for (int i = 0; i < 40; i++)
        REQUIRE_OK(acre_allocator_allocate(allocator, 5000, &ptrs[i]));
    REQUIRE_OK(acre_pool_end(bed.cache, nest.id));
    for (int nap = 0; nap < 2; nap++) {
        REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
        for (int i = 0; i < 20; i++)
            acre_data_ptr_clear(&ptrs[20 * nap + i]);
        REQUIRE_OK(acre_pool_stats_get(bed.cache, nest.id, &stats));
        EXPECT_EQ(stats.live_count, live + 40 - 20 * nap);
        REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
        REQUIRE_OK(acre_pool_stats_get(bed.cache, nest.id, &stats));
        EXPECT_EQ(stats.live_count, live + 20 - 20 * nap);
    }
    nest_expect(&bed, &nest);
    nest_free(&bed, &nest);
    acre_allocator_destroy(allocator);
    share_bed_close(&bed);
}

static void *drop_all(void *ptrs)
{
    for (acre_data_ptr *ptr = ptrs; ptr < (acre_data_ptr *)ptrs + 400; ptr++, usleep(20))
        acre_data_ptr_clear(ptr);
    return NULL;
}

TEST_BOTH(what_deleters_free_while_the_pool_wakes_is_freed)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    acre_cache_stats before = stats_of(&bed);
    acre_data_ptr ptrs[400];
    acre_allocator *allocator;
    pthread_t thread;

    REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
    REQUIRE_OK(acre_pool_begin(bed.cache, nest.id, NULL));
    for (int i = 0; i < 400; i++) REQUIRE_OK(acre_allocator_allocate(allocator, 500, &ptrs[i]));
    REQUIRE_OK(acre_pool_end(bed.cache, nest.id));
    REQUIRE_EQ(pthread_create(&thread, NULL, drop_all, ptrs), 0);
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_DISCARD));
        REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    }
    EXPECT_EQ(stats_of(&bed).allocation.all.current, before.allocation.all.current);
    nest_free(&bed, &nest);
    acre_allocator_destroy(allocator);
    share_bed_close(&bed);
}

TEST_BOTH(what_deleters_freed_is_gone_with_a_pool_that_never_wakes)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    acre_allocator *allocator;
    acre_data_ptr ptr;

    REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
    REQUIRE_OK(acre_pool_begin(bed.cache, nest.id, NULL));
    REQUIRE_OK(acre_allocator_allocate(allocator, 5000, &ptr));
    REQUIRE_OK(acre_pool_end(bed.cache, nest.id));
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_DISCARD));
    acre_data_ptr_clear(&ptr);
    acre_allocator_destroy(allocator);
    share_bed_close(&bed); /* the cache ends; LeakSanitizer looks */
}

static int64_t live_now(struct share_bed *bed)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(bed->cache, &stats));
    return stats.allocation.all.current;
}

/* Another pool wakes while no host memory is to be had: nothing that was noted is forgotten. */
static void free_without_host_memory(acre_policy policy, const char *conf)
{
    enum { COUNT = 100 };
    struct share_bed bed = share_bed_open("memory:512MiB", policy, conf);
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};
    acre_pool_id id = acre_pool_id_next();
    acre_allocator *allocator;
    acre_data_ptr ptrs[COUNT];

    REQUIRE_OK(acre_pool_create(bed.cache, id, &config));
    REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
    REQUIRE_OK(acre_pool_begin(bed.cache, id, NULL));
    for (int i = 0; i < COUNT; i++)
        REQUIRE_OK(acre_allocator_allocate(allocator, 500, &ptrs[i]));
    REQUIRE_OK(acre_pool_end(bed.cache, id));
    REQUIRE_OK(acre_cache_sleep(bed.cache, &id, NULL, ACRE_SLEEP_DISCARD));
    for (int i = 0; i < COUNT; i++)
        acre_data_ptr_clear(&ptrs[i]);
    acre_host_limit_set(1);
    quick_lock_take(&bed.cache->lock);
    late_settle_locked(bed.cache);
    quick_lock_drop(&bed.cache->lock);
    acre_host_limit_set(0);
    EXPECT_EQ(live_now(&bed), COUNT);
    REQUIRE_OK(acre_cache_wake(bed.cache, &id, NULL));
    EXPECT_EQ(live_now(&bed), 0);
    REQUIRE_OK(acre_pool_release(bed.cache, id));
    acre_allocator_destroy(allocator);
    share_bed_close(&bed);
}

TEST(stitched_frees_are_kept_without_host_memory)
{
    free_without_host_memory(ACRE_POLICY_ACRE, NULL);
}

TEST(expandable_frees_are_kept_without_host_memory)
{
    free_without_host_memory(ACRE_POLICY_TORCH, "expandable_segments:True");
}

/* Not even the first note of a cache needs host memory, and what was noted is nobody's to free. */
static void note_without_host_memory(acre_policy policy, const char *conf)
{
    enum { COUNT = 100 };
    struct share_bed bed = share_bed_open("memory:512MiB", policy, conf);
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};
    acre_pool_id id = acre_pool_id_next();
    acre_allocator *allocator;
    acre_data_ptr ptrs[COUNT];
    void *pointers[COUNT];

    REQUIRE_OK(acre_pool_create(bed.cache, id, &config));
    REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
    REQUIRE_OK(acre_pool_begin(bed.cache, id, NULL));
    for (int i = 0; i < COUNT; i++) {
        REQUIRE_OK(acre_allocator_allocate(allocator, 500, &ptrs[i]));
        pointers[i] = ptrs[i].data;
    }
    REQUIRE_OK(acre_pool_end(bed.cache, id));
    REQUIRE_OK(acre_cache_sleep(bed.cache, &id, NULL, ACRE_SLEEP_DISCARD));
    acre_host_limit_set(1);
    for (int i = 0; i < COUNT; i++)
        acre_data_ptr_clear(&ptrs[i]);
    acre_host_limit_set(0);
    EXPECT_EQ(live_now(&bed), COUNT);
    for (int i = 0; i < COUNT; i++) {
        EXPECT_EQ(acre_cache_free(bed.cache, pointers[i]), ACRE_ERR_INVALID);
        EXPECT_EQ(acre_cache_record_stream(bed.cache, pointers[i], bed.device), ACRE_ERR_INVALID);
    }
    REQUIRE_OK(acre_cache_check(bed.cache));
    REQUIRE_OK(acre_cache_wake(bed.cache, &id, NULL));
    EXPECT_EQ(live_now(&bed), 0);
    REQUIRE_OK(acre_cache_check(bed.cache));
    REQUIRE_OK(acre_pool_release(bed.cache, id));
    acre_allocator_destroy(allocator);
    share_bed_close(&bed);
}

TEST(stitched_frees_are_noted_without_host_memory)
{
    note_without_host_memory(ACRE_POLICY_ACRE, NULL);
}

TEST(expandable_frees_are_noted_without_host_memory)
{
    note_without_host_memory(ACRE_POLICY_TORCH, "expandable_segments:True");
}

/* Blocks that another stream uses: their frees need host memory, and are done when there is some.
 * Until then nobody gets their memory. */
static void free_used_without_host_memory(acre_policy policy)
{
    enum { COUNT = 50 };
    struct share_bed bed = share_bed_open("memory:512MiB", policy, NULL);
    acre_allocator *allocator;
    acre_data_ptr ptrs[COUNT];
    void *streams[2], *pointers[COUNT], *again;

    REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &streams[i]));
    for (int i = 0; i < COUNT; i++) {
        REQUIRE_OK(acre_allocator_allocate(allocator, 3000, &ptrs[i]));
        pointers[i] = ptrs[i].data;
        REQUIRE_OK(acre_cache_record_stream(bed.cache, pointers[i], streams[i % 2]));
    }
    acre_host_limit_set(1);
    for (int i = 0; i < COUNT; i++)
        acre_data_ptr_clear(&ptrs[i]);
    acre_host_limit_set(0);
    EXPECT_EQ(live_now(&bed), COUNT);
    REQUIRE_OK(acre_cache_check(bed.cache));
    REQUIRE_OK(acre_cache_alloc(bed.cache, 3000, NULL, &again));
    for (int i = 0; i < COUNT; i++) {
        EXPECT(again != pointers[i]);
        EXPECT_EQ(acre_cache_free(bed.cache, pointers[i]), ACRE_ERR_INVALID);
    }
    REQUIRE_OK(acre_cache_free(bed.cache, again));
    REQUIRE_OK(acre_cache_empty(bed.cache));
    EXPECT_EQ(live_now(&bed), 0);
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_stream_native_destroy(bed.device, streams[i]));
    acre_allocator_destroy(allocator);
    share_bed_close(&bed);
}

TEST(acre_frees_of_used_blocks_are_noted_without_host_memory)
{
    free_used_without_host_memory(ACRE_POLICY_ACRE);
}

TEST(torch_frees_of_used_blocks_are_noted_without_host_memory)
{
    free_used_without_host_memory(ACRE_POLICY_TORCH);
}

/* The device has no memory for an event, as drivers say: the free is done later. */
TEST(frees_are_noted_whatever_the_device_says)
{
    if (ground_is_driver())
        T_SKIP("calls of a driver fail in test_driver_fault");
    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        struct share_bed bed = share_bed_open("memory:512MiB", policy, NULL);
        acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD,
                                .status = ACRE_ERR_DEVICE_MEMORY};
        acre_allocator *allocator;
        acre_data_ptr ptr;
        void *stream;

        REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
        REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
        REQUIRE_OK(acre_allocator_allocate(allocator, 3000, &ptr));
        REQUIRE_OK(acre_cache_record_stream(bed.cache, ptr.data, stream));
        REQUIRE_OK(acre_sim_fault_arm(bed.sim.backend, &fault));
        acre_data_ptr_clear(&ptr);
        EXPECT(acre_sim_fault_disarm(bed.sim.backend) > 0);
        EXPECT_EQ(live_now(&bed), 1);
        REQUIRE_OK(acre_cache_empty(bed.cache));
        EXPECT_EQ(live_now(&bed), 0);
        REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
        acre_allocator_destroy(allocator);
        share_bed_close(&bed);
    }
}

/* Memory that was not cached is not given back during a capture, which may be the first that is
 * noted, too. */
TEST(frees_of_uncached_memory_are_noted_without_host_memory)
{
    struct share_bed bed = share_bed_open("memory:512MiB", ACRE_POLICY_ACRE, NULL);
    acre_recording *recording;
    acre_allocator *allocator;
    acre_data_ptr ptrs[2];
    void *stream;

    REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
    REQUIRE_OK(acre_cache_allocator(bed.cache, &allocator));
    acre_cache_enable(bed.cache, false);
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_allocator_allocate(allocator, 3000, &ptrs[i]));
    acre_cache_enable(bed.cache, true);
    REQUIRE_OK(acre_recording_begin(bed.cache, stream, NULL, &recording));
    void *pointer = ptrs[0].data;
    acre_host_limit_set(1);
    acre_data_ptr_clear(&ptrs[0]);
    acre_host_limit_set(0);
    EXPECT_EQ(acre_cache_free(bed.cache, pointer), ACRE_ERR_INVALID);
    EXPECT_EQ(bed_usage(&bed.sim).alloc_count, 2);
    REQUIRE_OK(acre_recording_end(recording));
    acre_recording_destroy(recording);
    REQUIRE_OK(acre_cache_empty(bed.cache));
    EXPECT_EQ(bed_usage(&bed.sim).alloc_count, 1);
    acre_data_ptr_clear(&ptrs[1]);
    EXPECT_EQ(bed_usage(&bed.sim).alloc_count, 0);
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    acre_allocator_destroy(allocator);
    share_bed_close(&bed);
}

/* Host memory fails after the device gave memory, which it does not take back then. Whether host
 * memory failed. */
static bool return_without_host_memory(acre_policy policy, bool is_cached, uint64_t nth)
{
    struct share_bed bed = share_bed_open("memory:512MiB", policy, "stitched_memory:False");
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_FREE, .nth = 1,
                            .status = ACRE_ERR_DEVICE};
    void *pointer;

    acre_cache_enable(bed.cache, is_cached);
    REQUIRE_OK(acre_sim_fault_arm(bed.sim.backend, &fault));
    heap_fail_nth(nth);
    acre_status status = acre_cache_alloc(bed.cache, 3 * MIB, NULL, &pointer);
    bool was_failed = heap_fail_disarm();
    acre_sim_fault_disarm(bed.sim.backend);
    REQUIRE_OK(acre_cache_check(bed.cache));
    EXPECT_EQ(live_now(&bed), is_cached && status == ACRE_OK);
    if (status == ACRE_OK)
        REQUIRE_OK(acre_cache_free(bed.cache, pointer));
    else
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
    REQUIRE_OK(acre_cache_empty(bed.cache));
    EXPECT_EQ(bed_usage(&bed.sim).alloc_count, 0);
    share_bed_close(&bed);
    return was_failed;
}

TEST(what_is_not_taken_back_without_host_memory_is_offered_again)
{
    if (ground_is_driver())
        T_SKIP("calls of a driver fail in test_driver_fault");
    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++)
        for (int is_cached = 0; is_cached < 2; is_cached++)
            for (uint64_t nth = 1; return_without_host_memory(policy, is_cached, nth);)
                nth++;
}

T_MAIN()
