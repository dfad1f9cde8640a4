/* SPDX-License-Identifier: MIT */
/* Streams, events, guards, peers and masquerade with each host allocation and
 * each backend call failing in turn: one clean error, nothing left behind. */
#include "base/heap.h"
#include "tests/support/fault_backend.h"
#include "tests/support/sim_pair.h"

#define TYPE ACRE_DEVICE_OPENCL
#define CALLS_MAX 200 /* more than the scenario makes */

static acre_backend *inner, *faulty;

/* What the inner device holds. */
static uint64_t held(void)
{
    acre_sim_usage u = {.struct_size = sizeof u};

    REQUIRE_OK(acre_sim_usage_get(inner, &u));
    return u.alloc_count + u.host_count + u.reserve_count + u.handle_count + u.map_count +
           u.stream_count + u.event_count + u.graph_count + u.bytes_used;
}

/* Records on one stream and waits on another, of two devices, under guards. */
static acre_status events_under_guards(acre_stream a, acre_stream b)
{
    acre_event *first = NULL, *second = NULL;
    acre_guard guard;
    acre_status status = acre_guard_stream(&guard, b);
    double ms;

    if (status == ACRE_OK)
        status = acre_event_create(TYPE, ACRE_EVENT_TIMING, &first);
    if (status == ACRE_OK)
        status = acre_event_create(TYPE, ACRE_EVENT_TIMING, &second);
    if (status == ACRE_OK)
        status = acre_event_record(first, a);
    if (status == ACRE_OK)
        status = acre_event_block(first, b);
    if (status == ACRE_OK)
        status = acre_event_record(second, a);
    if (status == ACRE_OK)
        status = acre_event_synchronize(second);
    if (status == ACRE_OK)
        status = acre_stream_synchronize(b);
    if (status == ACRE_OK)
        status = acre_event_elapsed(first, second, &ms);
    acre_event_destroy(first);
    acre_event_destroy(second);
    acre_guard_end(&guard);
    return status;
}

static acre_status virtual_page(acre_device *device)
{
    size_t page = (size_t)2 << 20;
    void *base = NULL, *handle = NULL;
    acre_status status = acre_virtual_reserve(device, page, &base);

    if (status == ACRE_OK)
        status = acre_virtual_create(device, page, ACRE_HANDLE_NONE, &handle);
    if (status == ACRE_OK)
        status = acre_virtual_map(device, base, page, 0, handle);
    if (status == ACRE_OK) {
        status = acre_virtual_set_access(device, base, page, 0, ACRE_ACCESS_READ_WRITE);
        EXPECT_EQ(acre_virtual_unmap(device, base, page), ACRE_OK);
    }
    if (handle)
        EXPECT_EQ(acre_virtual_release(device, handle), ACRE_OK);
    if (base)
        EXPECT_EQ(acre_virtual_unreserve(device, base, page), ACRE_OK);
    return status;
}

static acre_status memory_and_peers(acre_device *device)
{
    void *memory = NULL, *pinned = NULL;
    uint64_t bytes_free, bytes_total;
    bool can;
    acre_status status = acre_device_alloc(device, 1000, &memory);

    if (status == ACRE_OK)
        status = acre_host_alloc(device, 1000, &pinned);
    if (status == ACRE_OK)
        status = acre_copy(device, memory, pinned, 1000, ACRE_COPY_HOST_TO_DEVICE);
    if (status == ACRE_OK)
        status = acre_device_memory(device, &bytes_free, &bytes_total);
    if (status == ACRE_OK)
        status = acre_peer_access(TYPE, 0, 1, &can);
    EXPECT_EQ(acre_device_free(device, memory), ACRE_OK);
    EXPECT_EQ(acre_host_free(device, pinned), ACRE_OK);
    return status;
}

static acre_status scenario(void)
{
    acre_stream a, b;
    acre_device *device;
    acre_status status = acre_device_get(TYPE, 0, &device);

    if (status == ACRE_OK)
        status = acre_stream_from_pool(TYPE, 0, 0, &a);
    if (status == ACRE_OK)
        status = acre_stream_from_pool(TYPE, 1, 1, &b);
    if (status == ACRE_OK)
        status = events_under_guards(a, b);
    if (status == ACRE_OK)
        status = memory_and_peers(device);
    return status == ACRE_OK ? virtual_page(device) : status;
}

/* A fresh pair, so that pools and caches are empty each time. */
static void begin(void)
{
    const struct wrap_config config = {.name = "faulty", .type = TYPE};

    inner = sim_pair("inner", ACRE_DEVICE_PRIVATE, ACRE_STREAM_CODEC_REFERENCE);
    REQUIRE_OK(fault_create(inner, &config, &faulty));
}

/* The thread's choices are as before, and nothing is held once the pools go. */
static void end(void)
{
    acre_stream stream;
    int index;

    REQUIRE_OK(acre_device_current(TYPE, &index));
    EXPECT_EQ(index, 0);
    REQUIRE_OK(acre_stream_current(TYPE, 1, &stream));
    EXPECT_EQ(stream.id, 13);
    acre_backend_unregister(faulty);
    EXPECT_EQ(held(), 0);
    acre_backend_unregister(inner);
}

TEST(every_backend_call_may_fail)
{
    uint64_t live = heap_live_count();

    for (uint64_t nth = 1;; nth++) {
        acre_status status;
        bool has_failed;

        REQUIRE(nth < CALLS_MAX);
        begin();
        fault_arm(faulty, FAULT_ANY, nth, ACRE_ERR_DEVICE);
        status = scenario();
        has_failed = fault_disarm(faulty);
        /* An event query says yes or no; its failure reads as "not ready". */
        if (has_failed && status != ACRE_ERR_NOT_READY) {
            EXPECT_EQ(status, ACRE_ERR_DEVICE);
            EXPECT_HAS(acre_last_error(), "on demand");
        }
        if (has_failed)
            EXPECT_NE(status, ACRE_OK);
        else
            EXPECT_EQ(status, ACRE_OK);
        if (has_failed)
            EXPECT_EQ(scenario(), ACRE_OK);
        end();
        EXPECT_EQ(heap_live_count(), live);
        if (!has_failed) {
            EXPECT_GT(nth, 15);
            break;
        }
    }
}

/* Failing to give back is logged or told, and the rest is still given back. */
TEST(destroying_may_fail_and_does_not_crash)
{
    static const enum wrap_entry entries[] = {WRAP_event_destroy, WRAP_stream_destroy};

    for (int i = 0; i < 2; i++) {
        begin();
        fault_arm(faulty, entries[i], 1, ACRE_ERR_DEVICE);
        EXPECT_EQ(scenario(), ACRE_OK);
        acre_backend_unregister(faulty);
        EXPECT_EQ(held(), 1);
        acre_backend_unregister(inner);
    }
}

TEST(every_host_allocation_may_fail)
{
    uint64_t live = heap_live_count();

    for (uint64_t nth = 1;; nth++) {
        acre_status status;
        int has_failed;

        REQUIRE(nth < CALLS_MAX);
        begin();
        heap_fail_nth(nth);
        status = scenario();
        has_failed = heap_fail_disarm();
        if (has_failed)
            EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        else
            EXPECT_EQ(status, ACRE_OK);
        if (has_failed)
            EXPECT_EQ(scenario(), ACRE_OK);
        end();
        EXPECT_EQ(heap_live_count(), live);
        if (!has_failed) {
            EXPECT_GT(nth, 4);
            break;
        }
    }
}

T_MAIN()
