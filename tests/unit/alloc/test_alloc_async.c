/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory, on the CUDA driver backend over its stand-in. */
#include "alloc/async.h"

#include "alloc/async_lane.h"
#include "tests/support/driver_bed.h"
#include "tests/support/gate.h"

#include <acre/acre.h>

#define EXPECT_OK(call) EXPECT_EQ(call, ACRE_OK)
#define MIB ((size_t)1 << 20)

struct bed {
    acre_backend *backend;
    acre_device *device;
    acre_allocator *allocator;
};

static struct bed async_bed(void)
{
    struct bed bed = {0};

    REQUIRE_OK(bed_open(&vendor_cuda, &bed.backend));
    REQUIRE_OK(acre_backend_device(bed.backend, 0, &bed.device));
    REQUIRE_OK(acre_async_allocator_create(ACRE_DEVICE_CUDA, &bed.allocator));
    return bed;
}

static void async_bed_close(struct bed *bed)
{
    acre_allocator_destroy(bed->allocator);
    bed_close(&vendor_cuda, bed->backend);
}

static uint64_t used(const struct bed *bed)
{
    acre_allocator_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_allocator_stats_get(bed->allocator, 0, &stats));
    return (uint64_t)stats.allocated_bytes.current;
}

static void *stream_of(const struct bed *bed)
{
    void *stream;

    REQUIRE_OK(acre_stream_native_create(bed->device, 0, 0, &stream));
    return stream;
}

TEST(memory_comes_and_goes_in_the_order_of_its_stream)
{
    struct bed bed = async_bed();
    void *stream = stream_of(&bed), *a = NULL, *b = NULL;
    char host[64] = {1}, back[64] = {0};

    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &a));
    EXPECT_GE(used(&bed), MIB);
    REQUIRE_OK(acre_copy_async(bed.device, a, host, 64, ACRE_COPY_HOST_TO_DEVICE, stream));
    REQUIRE_OK(acre_copy_async(bed.device, back, a, 64, ACRE_COPY_DEVICE_TO_HOST, stream));
    REQUIRE_OK(acre_async_free(bed.allocator, a));
    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &b));
    REQUIRE_OK(acre_async_free(bed.allocator, b));
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    EXPECT_EQ(back[0], 1);
    EXPECT_EQ(used(&bed), 0);
    EXPECT_EQ(acre_async_free(bed.allocator, b), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_async_free(bed.allocator, host), ACRE_ERR_INVALID);
    EXPECT_OK(acre_async_free(bed.allocator, NULL));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    async_bed_close(&bed);
}

TEST(recorded_streams_are_waited_for)
{
    struct bed bed = async_bed();
    void *stream = stream_of(&bed), *other = stream_of(&bed), *a = NULL;
    struct standin_control control = bed_control(&vendor_cuda);
    uint64_t waits = control.calls("cuStreamWaitEvent");
    char host[64] = {7}, back[64] = {0};
    struct gate gate = {0};

    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &a));
    REQUIRE_OK(acre_copy_async(bed.device, a, host, 64, ACRE_COPY_HOST_TO_DEVICE, stream));
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    REQUIRE_OK(acre_async_record_stream(bed.allocator, a, other));
    REQUIRE_OK(acre_async_record_stream(bed.allocator, a, other));
    REQUIRE_OK(acre_async_record_stream(bed.allocator, a, stream));
    EXPECT_EQ(acre_async_record_stream(bed.allocator, &gate, other), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_launch_host(bed.device, other, gate_task, &gate));
    REQUIRE_OK(acre_copy_async(bed.device, back, a, 64, ACRE_COPY_DEVICE_TO_HOST, other));
    REQUIRE_OK(acre_async_free(bed.allocator, a));
    EXPECT_EQ(control.calls("cuStreamWaitEvent") - waits, 2); /* the helper, for both streams */
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    gate_wait_reached(&gate);
    gate_open(&gate);
    REQUIRE_OK(acre_device_synchronize(bed.device));
    EXPECT_EQ(back[0], 7);
    EXPECT_EQ(used(&bed), 0);
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, other));
    async_bed_close(&bed);
}

TEST(a_free_inside_a_capture_is_put_off)
{
    struct bed bed = async_bed();
    void *stream = stream_of(&bed), *a = NULL, *b = NULL, *graph;

    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &a));
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    REQUIRE_OK(acre_capture_begin(bed.device, stream));
    REQUIRE_OK(acre_async_free(bed.allocator, a));
    EXPECT_GE(used(&bed), MIB);
    EXPECT_EQ(acre_async_free(bed.allocator, a), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_capture_end(bed.device, stream, &graph));
    EXPECT_GE(used(&bed), MIB);
    REQUIRE_OK(acre_async_alloc(bed.allocator, 512, 0, stream, &b));
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    EXPECT(used(&bed) < MIB);
    REQUIRE_OK(acre_async_free(bed.allocator, b));
    REQUIRE_OK(acre_graph_destroy(bed.device, graph));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    async_bed_close(&bed);
}

/* Makes a stream wait for what another has queued. */
static void wait_for(const struct bed *bed, void *waiter, void *stream)
{
    void *event;

    REQUIRE_OK(acre_event_native_create(bed->device, 0, &event));
    REQUIRE_OK(acre_event_native_record(bed->device, event, stream));
    REQUIRE_OK(acre_stream_native_wait(bed->device, waiter, event));
    REQUIRE_OK(acre_event_native_destroy(bed->device, event));
}

/* A capture ends only when all streams that took part have come back to its first one. */
TEST(memory_of_a_capture_may_be_used_on_its_other_streams)
{
    struct bed bed = async_bed();
    void *stream = stream_of(&bed), *other = stream_of(&bed), *a = NULL, *b = NULL, *graph;
    void *outside[2] = {stream_of(&bed), stream_of(&bed)};

    REQUIRE_OK(acre_capture_begin(bed.device, stream));
    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &a));
    wait_for(&bed, other, stream);
    REQUIRE_OK(acre_async_record_stream(bed.allocator, a, other));
    wait_for(&bed, stream, other);
    REQUIRE_OK(acre_async_free(bed.allocator, a));
    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, outside[0], &b));
    REQUIRE_OK(acre_async_record_stream(bed.allocator, b, outside[1]));
    REQUIRE_OK(acre_async_free(bed.allocator, b));
    REQUIRE_OK(acre_capture_end(bed.device, stream, &graph));
    EXPECT_EQ(used(&bed), 0);
    REQUIRE_OK(acre_graph_destroy(bed.device, graph));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, outside[0]));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, outside[1]));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, other));
    async_bed_close(&bed);
}

/* What a capture allocated and outlived is nothing of another capture. */
TEST(memory_of_a_capture_that_ended_is_freed_outside_of_others)
{
    struct bed bed = async_bed();
    void *stream = stream_of(&bed), *other = stream_of(&bed), *a = NULL, *b = NULL, *graphs[3];

    REQUIRE_OK(acre_capture_begin(bed.device, stream));
    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &a));
    REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &b));
    REQUIRE_OK(acre_capture_end(bed.device, stream, &graphs[0]));
    REQUIRE_OK(acre_async_record_stream(bed.allocator, a, other));
    REQUIRE_OK(acre_capture_begin(bed.device, other));
    REQUIRE_OK(acre_async_free(bed.allocator, a));
    EXPECT_EQ(used(&bed), 2 * MIB);
    EXPECT_OK(acre_capture_end(bed.device, other, &graphs[1]));
    REQUIRE_OK(acre_allocator_empty_cache(bed.allocator));
    EXPECT_EQ(used(&bed), MIB);
    REQUIRE_OK(acre_capture_begin(bed.device, stream));
    REQUIRE_OK(acre_async_free(bed.allocator, b));
    EXPECT_EQ(used(&bed), MIB);
    REQUIRE_OK(acre_capture_end(bed.device, stream, &graphs[2]));
    REQUIRE_OK(acre_allocator_empty_cache(bed.allocator));
    EXPECT_EQ(used(&bed), 0);
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(acre_graph_destroy(bed.device, graphs[i]));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, other));
    async_bed_close(&bed);
}

/* The caller was told that it is done: whatever the device refuses, it is tried again. */
TEST(a_free_that_was_put_off_is_tried_again)
{
    struct standin_control control = bed_control(&vendor_cuda);
    uint64_t failed = 1;

    control.spare(1);
    for (uint64_t nth = 1; failed; nth++) {
        struct bed bed = async_bed();
        void *stream = stream_of(&bed), *other = stream_of(&bed), *a = NULL, *graph;

        REQUIRE_OK(acre_async_alloc(bed.allocator, MIB, 0, stream, &a));
        REQUIRE_OK(acre_async_record_stream(bed.allocator, a, other));
        REQUIRE_OK(acre_capture_begin(bed.device, stream));
        REQUIRE_OK(acre_async_free(bed.allocator, a));
        REQUIRE_OK(acre_capture_end(bed.device, stream, &graph));
        control.fail_nth(nth, 999);
        acre_allocator_empty_cache(bed.allocator);
        failed = control.fail_end();
        EXPECT_EQ(acre_async_free(bed.allocator, a), ACRE_ERR_INVALID);
        REQUIRE_OK(acre_allocator_empty_cache(bed.allocator));
        EXPECT_EQ(used(&bed), 0);
        REQUIRE_OK(acre_graph_destroy(bed.device, graph));
        REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
        REQUIRE_OK(acre_stream_native_destroy(bed.device, other));
        async_bed_close(&bed);
        REQUIRE(nth < 300);
    }
    control.spare(0);
}

TEST(a_fraction_of_the_device_is_the_limit)
{
    struct bed bed = async_bed();
    uint64_t largest = 0;
    void *a = NULL, *b = &bed;

    EXPECT_EQ(acre_async_memory_fraction_set(bed.allocator, 0, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_async_memory_fraction_set(bed.allocator, 0, 1.5), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_async_memory_fraction_set(bed.allocator, 2, 0.5), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_async_memory_fraction_set(bed.allocator, 0, 1.0 / 256)); /* 4 MiB */
    REQUIRE_OK(acre_async_alloc(bed.allocator, 3 * MIB, 0, NULL, &a));
    EXPECT_EQ(acre_async_alloc(bed.allocator, 2 * MIB, 0, NULL, &b), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "would exceed allowed memory");
    EXPECT_PTR_EQ(b, &bed);
    REQUIRE_OK(acre_async_info(bed.allocator, 0, &largest));
    EXPECT(largest > 0 && largest <= MIB);
    REQUIRE_OK(acre_async_memory_fraction_set(bed.allocator, 0, 1));
    REQUIRE_OK(acre_async_free(bed.allocator, a));
    EXPECT_EQ(acre_async_alloc(bed.allocator, (size_t)1 << 50, 0, NULL, &b),
              ACRE_ERR_LIMIT);
    async_bed_close(&bed);
}

TEST(it_is_an_allocator_like_others)
{
    struct bed bed = async_bed();
    acre_data_ptr ptr, none;
    acre_allocator_stats stats = {.struct_size = sizeof stats};
    acre_stream pool;

    REQUIRE_OK(acre_allocator_allocate(bed.allocator, 0, &none));
    EXPECT(none.data == NULL);
    REQUIRE_OK(acre_allocator_allocate(bed.allocator, MIB, &ptr));
    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_CUDA);
    EXPECT_EQ(ptr.device.index, 0);
    REQUIRE_OK(acre_stream_from_pool(ACRE_DEVICE_CUDA, 0, 0, &pool));
    REQUIRE_OK(acre_allocator_record_stream(bed.allocator, &ptr, pool));
    acre_data_ptr_clear(&ptr);
    REQUIRE_OK(acre_device_synchronize(bed.device));
    REQUIRE_OK(acre_allocator_stats_get(bed.allocator, 0, &stats));
    EXPECT_EQ(stats.allocated_bytes.current, 0);
    EXPECT_GE(stats.allocated_bytes.peak, (int64_t)MIB);
    EXPECT_GE(stats.reserved_bytes.current, (int64_t)MIB); /* kept for the next */
    REQUIRE_OK(acre_allocator_empty_cache(bed.allocator));
    REQUIRE_OK(acre_allocator_stats_reset_peak(bed.allocator, 0));
    REQUIRE_OK(acre_allocator_stats_get(bed.allocator, 0, &stats));
    EXPECT_EQ(stats.reserved_bytes.current, 0);
    EXPECT_EQ(stats.allocated_bytes.peak, 0);
    EXPECT_EQ(acre_allocator_stats_get(bed.allocator, 7, &stats), ACRE_ERR_RANGE);
    async_bed_close(&bed);
}

TEST(the_environment_chooses_it)
{
    acre_backend *backend;
    acre_allocator *allocator, *again;
    void *a = NULL;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", 1);
    REQUIRE_OK(acre_device_allocator(ACRE_DEVICE_CUDA, &allocator));
    REQUIRE_OK(acre_async_alloc(allocator, 512, 0, NULL, &a));
    REQUIRE_OK(acre_async_free(allocator, a));
    EXPECT(acre_cache_of_allocator(allocator, 0) == NULL);
    acre_allocator_destroy(allocator);
    setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:native", 1);
    REQUIRE_OK(acre_device_allocator(ACRE_DEVICE_CUDA, &again));
    EXPECT_EQ(acre_async_alloc(again, 512, 0, NULL, &a), ACRE_ERR_INVALID);
    EXPECT(acre_cache_of_allocator(again, 0) != NULL);
    acre_allocator_destroy(again);
    unsetenv("PYTORCH_CUDA_ALLOC_CONF");
    bed_close(&vendor_cuda, backend);
}

TEST(devices_without_it_say_so)
{
    acre_allocator *allocator = NULL;

    EXPECT_EQ(acre_async_allocator_create(ACRE_DEVICE_PRIVATE, &allocator),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "stream-ordered memory");
    EXPECT_EQ(acre_async_allocator_create(ACRE_DEVICE_PRIVATE, NULL), ACRE_ERR_INVALID);
    EXPECT(allocator == NULL);
}

/* A life in which the n-th driver call fails: one clean error, nothing held. */
TEST(every_driver_call_may_fail)
{
    struct standin_control control = bed_control(&vendor_cuda);
    uint64_t failed = 1;

    control.spare(1);
    for (uint64_t nth = 1; failed; nth++) {
        struct bed bed = async_bed();
        void *stream = stream_of(&bed), *other = stream_of(&bed), *a = NULL;

        control.fail_nth(nth, 999);
        acre_status status = acre_async_alloc(bed.allocator, MIB, 0, stream, &a);
        if (status == ACRE_OK) {
            REQUIRE_OK(acre_async_record_stream(bed.allocator, a, other));
            if (acre_async_free(bed.allocator, a) != ACRE_OK)
                EXPECT_OK(acre_async_free(bed.allocator, a)); /* it is still ours */
        }
        failed = control.fail_end();
        REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
        REQUIRE_OK(acre_stream_native_destroy(bed.device, other));
        async_bed_close(&bed);
        REQUIRE(nth < 300);
    }
    control.spare(0);
}

T_MAIN()
