/* SPDX-License-Identifier: MIT */
/* Caches as allocators when anything fails: each host allocation and each call of
 * the reference device in turn, over a scenario with two devices, streams, clones
 * and direct memory. Every failure is one clean error; what was got before it can
 * still be cleared, and at the end nothing is left on host or devices. */
#include "base/heap.h"
#include "tests/support/sim_pair.h"

#define TYPE ACRE_DEVICE_OPENCL
#define POINTERS 6

static acre_backend *backend;

/* Allocates on both devices and several streams; stops at the first failure. */
static acre_status fill(acre_allocator *allocator, acre_data_ptr *ptrs)
{
    acre_status status = ACRE_OK;
    acre_stream stream, side;

    for (int i = 0; i < 4 && status == ACRE_OK; i++) {
        status = acre_device_set(TYPE, i % 2);
        if (status == ACRE_OK)
            status = acre_stream_from_pool(TYPE, i % 2, 0, &stream);
        if (status == ACRE_OK)
            status = acre_stream_set_current(stream);
        if (status == ACRE_OK)
            status = acre_allocator_allocate(allocator, (size_t)(i + 1) * 700000, &ptrs[i]);
        if (status == ACRE_OK)
            status = acre_stream_from_pool(TYPE, i % 2, 0, &side);
        if (status == ACRE_OK)
            status = acre_allocator_record_stream(allocator, &ptrs[i], side);
    }
    if (status == ACRE_OK)
        status = acre_allocator_clone(allocator, ptrs[3].data, 5000, &ptrs[4]);
    if (status == ACRE_OK) {
        acre_cache_enable(acre_cache_of_allocator(allocator, 1), false);
        status = acre_allocator_allocate(allocator, 3000, &ptrs[5]);
    }
    return status;
}

/* The whole life of the shared allocator; the first failure, if any. */
static acre_status scenario(void)
{
    acre_data_ptr ptrs[POINTERS];
    acre_allocator *allocator = NULL;
    acre_status status = acre_device_allocator_install(TYPE, NULL);

    if (status != ACRE_OK)
        return status;
    REQUIRE_OK(acre_device_allocator(TYPE, &allocator));
    for (int i = 0; i < POINTERS; i++)
        acre_data_ptr_init(&ptrs[i]);
    status = fill(allocator, ptrs);
    for (int i = 0; i < POINTERS; i++)
        acre_data_ptr_clear(&ptrs[i]);
    acre_status emptied = acre_allocator_empty_cache(allocator);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(acre_cache_check(acre_cache_of_allocator(allocator, i)), ACRE_OK);
    acre_allocator_destroy(allocator);
    EXPECT(!acre_allocator_get(TYPE));
    return status != ACRE_OK ? status : emptied;
}

static acre_sim_usage usage(void)
{
    acre_sim_usage now = {.struct_size = sizeof now};

    REQUIRE_OK(acre_sim_usage_get(backend, &now));
    return now;
}

TEST(every_host_allocation_may_fail)
{
    uint64_t before = heap_live_count();
    int has_failed = 1;

    for (uint64_t nth = 1; has_failed; nth++) {
        backend = sim_pair("faulty", TYPE, ACRE_STREAM_CODEC_REFERENCE);
        heap_fail_nth(nth);
        acre_status status = scenario();
        has_failed = heap_fail_disarm();
        /* A deleter that failed to record an event has nobody to tell. */
        if (!has_failed)
            EXPECT_EQ(status, ACRE_OK);
        else if (status != ACRE_ERR_HOST_MEMORY)
            EXPECT_EQ(status, ACRE_OK);
        EXPECT_EQ(usage().bytes_used, 0);
        EXPECT_EQ(usage().event_count, 0);
        REQUIRE_OK(acre_device_set(TYPE, 0));
        acre_backend_unregister(backend);
        EXPECT_EQ(heap_live_count(), before);
    }
}

TEST(every_device_call_may_fail)
{
    const acre_sim_call calls[] = {ACRE_SIM_ALLOC, ACRE_SIM_STREAM_CREATE,
                                   ACRE_SIM_EVENT_CREATE, ACRE_SIM_EVENT_RECORD,
                                   ACRE_SIM_EVENT_QUERY, ACRE_SIM_EVENT_SYNC, ACRE_SIM_COPY};
    uint64_t before = heap_live_count();
    unsigned failures = 0;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint64_t has_failed = 1;
        for (uint64_t nth = 1; has_failed; nth++) {
            acre_sim_fault fault = {.struct_size = sizeof fault, .call = calls[i], .nth = nth};
            backend = sim_pair("faulty", TYPE, ACRE_STREAM_CODEC_REFERENCE);
            REQUIRE_OK(acre_sim_fault_arm(backend, &fault));
            acre_status status = scenario();
            has_failed = acre_sim_fault_disarm(backend);
            failures += has_failed != 0;
            if (status != ACRE_OK)
                EXPECT(has_failed && status == ACRE_ERR_DEVICE);
            EXPECT_EQ(usage().bytes_used, 0);
            EXPECT_EQ(usage().event_count, 0);
            REQUIRE_OK(acre_device_set(TYPE, 0));
            acre_backend_unregister(backend);
            EXPECT_EQ(heap_live_count(), before);
        }
    }
    EXPECT_GE(failures, 12);
}

T_MAIN()
