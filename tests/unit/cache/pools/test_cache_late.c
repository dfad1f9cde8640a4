/* SPDX-License-Identifier: MIT */
/* What deleters free while its pool sleeps, when things go wrong; see test_cache_sleep.c for the
 * rest. */
#include "cache/pools/late.h"

#include "cache/cache.h"
#include "tests/support/share_bed.h"

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

T_MAIN()
