/* SPDX-License-Identifier: MIT */
/* Generic events: D69 to D71. */
#include "tests/support/gate.h"
#include "tests/support/fault_backend.h"
#include "tests/support/sim_pair.h"

#define TYPE ACRE_DEVICE_PRIVATE

static acre_backend *backend;

static acre_stream pooled(int index)
{
    acre_stream stream;

    REQUIRE_OK(acre_stream_from_pool(TYPE, index, 0, &stream));
    return stream;
}

static acre_event *event_new(uint32_t flags)
{
    acre_event *event;

    REQUIRE_OK(acre_event_create(TYPE, flags, &event));
    return event;
}

static void *native_of(acre_stream stream)
{
    void *native;

    REQUIRE_OK(acre_stream_native(stream, &native));
    return native;
}

static void begin(void)
{
    backend = sim_pair("events", TYPE, ACRE_STREAM_CODEC_REFERENCE);
}

static void end(void)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    EXPECT_EQ(usage.event_count, 0);
    acre_backend_unregister(backend);
}

TEST(D69_an_event_comes_with_its_first_record)
{
    acre_event *event;
    acre_sim_usage usage = {.struct_size = sizeof usage};
    acre_stream stream;

    begin();
    stream = pooled(1);
    event = event_new(0);
    EXPECT_EQ(acre_event_id(event), 0);
    EXPECT_EQ(acre_event_device_index(event), -1);
    EXPECT(acre_event_query(event));
    REQUIRE_OK(acre_event_synchronize(event));
    REQUIRE_OK(acre_event_block(event, stream));
    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    EXPECT_EQ(usage.event_count, 0);
    REQUIRE_OK(acre_event_record(event, stream));
    EXPECT_NE(acre_event_id(event), 0);
    EXPECT_EQ(acre_event_device_index(event), 1);
    REQUIRE_OK(acre_event_synchronize(event));
    EXPECT(acre_event_query(event));
    acre_event_destroy(event);
    acre_event_destroy(NULL);
    end();
}

TEST(D70_an_event_stays_on_its_device)
{
    acre_event *event;
    uint64_t id;
    int index;

    begin();
    event = event_new(0);
    REQUIRE_OK(acre_event_record(event, pooled(1)));
    id = acre_event_id(event);
    EXPECT_EQ(acre_event_record(event, pooled(0)), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "device 1");
    EXPECT_HAS(acre_last_error(), "device 0");
    EXPECT_EQ(acre_event_device_index(event), 1);
    EXPECT_EQ(acre_event_id(event), id);
    REQUIRE_OK(acre_event_record(event, pooled(1)));
    /* Waiting on another device is fine, and the current device never moves. */
    REQUIRE_OK(acre_event_block(event, pooled(0)));
    REQUIRE_OK(acre_device_current(TYPE, &index));
    EXPECT_EQ(index, 0);
    acre_event_destroy(event);
    end();
}

TEST(D71_elapsed_checks_in_order)
{
    acre_event *timed_a, *timed_b, *silent, *other;
    struct gate gate = {0};
    acre_device *device;
    acre_stream stream;
    double ms = -1;

    begin();
    stream = pooled(0);
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
    timed_a = event_new(ACRE_EVENT_TIMING);
    timed_b = event_new(ACRE_EVENT_TIMING);
    silent = event_new(0);
    REQUIRE_OK(acre_event_create(ACRE_DEVICE_CUDA, 0, &other));
    /* Type before timing before recorded before complete. */
    EXPECT_EQ(acre_event_elapsed(silent, other, &ms), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "types");
    EXPECT_EQ(acre_event_elapsed(timed_a, silent, &ms), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "ACRE_EVENT_TIMING");
    EXPECT_EQ(acre_event_elapsed(timed_a, timed_b, &ms), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "recorded");
    REQUIRE_OK(acre_event_record(timed_a, stream));
    EXPECT_EQ(acre_event_elapsed(timed_a, timed_b, &ms), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "end");
    REQUIRE_OK(acre_launch_host(device, native_of(stream), gate_task, &gate));
    REQUIRE_OK(acre_event_record(timed_b, stream));
    EXPECT(!acre_event_query(timed_b));
    EXPECT_EQ(acre_event_elapsed(timed_a, timed_b, &ms), ACRE_ERR_NOT_READY);
    EXPECT_EQ(ms, -1);
    gate_open(&gate);
    REQUIRE_OK(acre_event_synchronize(timed_b));
    REQUIRE_OK(acre_event_elapsed(timed_a, timed_b, &ms));
    EXPECT(ms >= 0);
    EXPECT_EQ(acre_event_elapsed(timed_a, timed_b, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_elapsed(NULL, timed_b, &ms), ACRE_ERR_INVALID);
    acre_event_destroy(timed_a);
    acre_event_destroy(timed_b);
    acre_event_destroy(silent);
    acre_event_destroy(other);
    end();
}

TEST(only_known_flags_and_types)
{
    acre_event *event = NULL;

    begin();
    EXPECT_EQ(acre_event_create(TYPE, 2, &event), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_create(TYPE, 0x80000001u, &event), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_create((acre_device_type)99, 0, &event), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_create(TYPE, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(event, NULL);
    event = event_new(0);
    EXPECT_EQ(acre_event_record(event, (acre_stream){13, 0, ACRE_DEVICE_CUDA}),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "cuda");
    EXPECT_EQ(acre_event_record(event, (acre_stream){5, 0, TYPE}), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_record(event, (acre_stream){13, 9, TYPE}), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_event_device_index(event), -1);
    EXPECT_EQ(acre_event_record(NULL, pooled(0)), ACRE_ERR_INVALID);
    EXPECT(!acre_event_query(NULL));
    acre_event_destroy(event);
    end();
}

TEST(recording_once_and_waiting)
{
    struct gate gate = {0};
    acre_stream a, b;
    acre_device *device;
    acre_event *event;

    begin();
    a = pooled(0);
    b = pooled(0);
    event = event_new(0);
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
    REQUIRE_OK(acre_event_record_once(event, a));
    REQUIRE_OK(acre_launch_host(device, native_of(a), gate_task, &gate));
    REQUIRE_OK(acre_event_record_once(event, a));
    REQUIRE_OK(acre_event_synchronize(event));
    EXPECT(acre_event_query(event));
    REQUIRE_OK(acre_event_record(event, a));
    REQUIRE_OK(acre_event_block(event, b));
    EXPECT(!acre_stream_query(b));
    acre_event_destroy(event);
    gate_open(&gate);
    REQUIRE_OK(acre_stream_synchronize(b));
    end();
}

/* Each backend call of a first record fails in turn; the event stays empty. */
TEST(a_failed_record_leaves_the_event_empty)
{
    const struct wrap_config config = {.name = "faulty", .type = ACRE_DEVICE_OPENCL};
    acre_backend *faulty;
    acre_stream stream;

    begin();
    REQUIRE_OK(fault_create(backend, &config, &faulty));
    REQUIRE_OK(acre_stream_from_pool(ACRE_DEVICE_OPENCL, 0, 0, &stream));
    for (uint64_t nth = 1;; nth++) {
        acre_event *event;
        acre_sim_usage usage = {.struct_size = sizeof usage};
        acre_status status;

        REQUIRE_OK(acre_event_create(ACRE_DEVICE_OPENCL, 0, &event));
        fault_arm(faulty, FAULT_ANY, nth, ACRE_ERR_DEVICE);
        status = acre_event_record(event, stream);
        if (!fault_disarm(faulty)) {
            REQUIRE_OK(status);
            EXPECT_EQ(nth, 3);
            acre_event_destroy(event);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_DEVICE);
        EXPECT_HAS(acre_last_error(), "on demand");
        EXPECT_EQ(acre_event_id(event), 0);
        EXPECT(acre_event_query(event));
        REQUIRE_OK(acre_sim_usage_get(backend, &usage));
        EXPECT_EQ(usage.event_count, 0);
        acre_event_destroy(event);
    }
    acre_backend_unregister(faulty);
    end();
}

T_MAIN()
