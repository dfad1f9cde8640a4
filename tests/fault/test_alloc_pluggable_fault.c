/* SPDX-License-Identifier: MIT */
/* A plug-in and a cache on top of it when each host allocation fails in turn: one
 * clean error each time, and nothing is left. */
#include "base/heap.h"
#include "tests/support/sim_pair.h"

#include <acre/acre.h>

#define TYPE ACRE_DEVICE_OPENCL
#define POINTERS 6

static acre_status fill(acre_allocator *allocator, acre_cache *cache, acre_data_ptr *ptrs,
                        void **blocks)
{
    acre_status status = ACRE_OK;
    acre_stream side;

    for (int i = 0; i < POINTERS && status == ACRE_OK; i++) {
        status = acre_allocator_allocate(allocator, 1000 * (size_t)i, &ptrs[i]);
        if (status == ACRE_OK)
            status = acre_stream_from_pool(TYPE, 0, 0, &side);
        if (status == ACRE_OK)
            status = acre_allocator_record_stream(allocator, &ptrs[i], side);
        if (status == ACRE_OK)
            status = acre_cache_alloc(cache, (size_t)1 << (12 + 2 * i), NULL, &blocks[i]);
    }
    return status;
}

static acre_status scenario(void)
{
    acre_pluggable_config config = {.struct_size = sizeof config,
                                    .flags = ACRE_PLUGGABLE_HOST_MEMORY};
    acre_data_ptr ptrs[POINTERS];
    void *blocks[POINTERS] = {NULL};
    acre_allocator *allocator;
    acre_cache *cache;
    acre_status status = acre_pluggable_open(TYPE, ACRE_BUILD "/tests/plug_good.so", "good_alloc",
                                             "good_free", &config, &allocator);

    if (status != ACRE_OK)
        return status;
    status = acre_pluggable_cache(allocator, 0, NULL, &cache, NULL);
    if (status != ACRE_OK) {
        REQUIRE_OK(acre_pluggable_close(allocator));
        return status;
    }
    for (int i = 0; i < POINTERS; i++)
        acre_data_ptr_init(&ptrs[i]);
    status = fill(allocator, cache, ptrs, blocks);
    EXPECT_EQ(acre_cache_check(cache), ACRE_OK);
    for (int i = 0; i < POINTERS; i++) {
        acre_data_ptr_clear(&ptrs[i]);
        REQUIRE_OK(acre_cache_free(cache, blocks[i]));
    }
    acre_cache_destroy(cache);
    REQUIRE_OK(acre_pluggable_close(allocator));
    return status;
}

TEST(every_host_allocation_may_fail)
{
    uint64_t before = heap_live_count();
    int has_failed = 1, count = 0;

    for (uint64_t nth = 1; has_failed; nth++) {
        acre_backend *backend = sim_pair("faulty", TYPE, ACRE_STREAM_CODEC_REFERENCE);
        heap_fail_nth(nth);
        acre_status status = scenario();
        has_failed = heap_fail_disarm();
        if (status != ACRE_OK)
            EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        count += status != ACRE_OK;
        REQUIRE_OK(acre_device_set(TYPE, 0));
        acre_backend_unregister(backend);
        EXPECT_EQ(heap_live_count(), before);
    }
    EXPECT_GT(count, 10);
}

T_MAIN()
