/* SPDX-License-Identifier: MIT */
/* Native work: what the public calls refuse never reaches the backend, and what
 * they let through arrives once. */
#include "backend/device.h"

#include "tests/support/sim_pair.h"
#include "tests/support/tracing_backend.h"

static acre_backend *inner, *traced;
static acre_device *device;
static void *stream;

static void begin(void)
{
    const struct wrap_config config = {.name = "traced", .type = ACRE_DEVICE_OPENCL};

    inner = sim_pair("inner", ACRE_DEVICE_PRIVATE, ACRE_STREAM_CODEC_REFERENCE);
    REQUIRE_OK(tracing_create(inner, &config, &traced));
    REQUIRE_OK(acre_backend_device(traced, 0, &device));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    tracing_reset(traced);
}

static void end(void)
{
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
    acre_backend_unregister(traced);
    acre_backend_unregister(inner);
}

static void nothing(void *unused)
{
    (void)unused;
}

TEST(bad_arguments_do_not_reach_the_backend)
{
    uint32_t word[2] = {0};
    void *out = NULL;
    double ms;

    begin();
    EXPECT_EQ(acre_stream_native_create(device, 0, 2, &out), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "[0, 1]");
    EXPECT_EQ(acre_stream_native_create(device, 0, -1, &out), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_native_create(device, 0, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_native_destroy(device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_native_wait(device, stream, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_native_priority(device, stream, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_create(device, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_record(device, NULL, stream), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_synchronize(device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_elapsed(device, NULL, word, &ms), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_elapsed(device, word, NULL, &ms), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_copy(device, word, word, 0, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_copy(device, NULL, word, 4, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_copy(device, word, NULL, 4, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_copy(device, word, word, 4, (acre_copy_kind)4), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_copy(device, word, word, SIZE_MAX, ACRE_COPY_HOST_TO_HOST),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_launch_host(device, stream, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_launch_kernel(device, stream, NULL, NULL, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_write_value32(device, stream, (char *)word + 1, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_write_value32(device, stream, NULL, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_wait_value32(device, stream, word, 1, (acre_wait_condition)4),
              ACRE_ERR_INVALID);
    EXPECT_EQ(tracing_at(traced, 0), WRAP_ENTRY_COUNT);
    EXPECT_PTR_EQ(out, NULL);
    end();
}

TEST(good_calls_arrive_once_and_in_order)
{
    static const enum wrap_entry want[] = {
        WRAP_event_create, WRAP_launch_host, WRAP_event_record, WRAP_stream_wait_event,
        WRAP_event_synchronize, WRAP_event_query, WRAP_stream_synchronize, WRAP_stream_query,
        WRAP_device_synchronize, WRAP_event_destroy};
    void *event;

    begin();
    REQUIRE_OK(acre_event_native_create(device, 0, &event));
    REQUIRE_OK(acre_launch_host(device, stream, nothing, NULL));
    REQUIRE_OK(acre_event_native_record(device, event, stream));
    REQUIRE_OK(acre_stream_native_wait(device, stream, event));
    REQUIRE_OK(acre_event_native_synchronize(device, event));
    REQUIRE_OK(acre_event_native_query(device, event));
    REQUIRE_OK(acre_stream_native_synchronize(device, stream));
    REQUIRE_OK(acre_stream_native_query(device, stream));
    REQUIRE_OK(acre_device_synchronize(device));
    REQUIRE_OK(acre_event_native_destroy(device, event));
    for (unsigned i = 0; i < sizeof want / sizeof want[0]; i++)
        EXPECT_STR_EQ(wrap_entry_name(tracing_at(traced, i)), wrap_entry_name(want[i]));
    EXPECT_EQ(tracing_at(traced, sizeof want / sizeof want[0]), WRAP_ENTRY_COUNT);
    end();
}

TEST(devices_of_other_backends_are_refused_in_peer_copies)
{
    acre_device *cpu;
    char bytes[8];

    begin();
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &cpu));
    EXPECT_EQ(acre_copy_peer_async(device, bytes, cpu, bytes, device, 8, stream),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "host");
    EXPECT_EQ(acre_copy_peer_async(device, bytes, device, bytes, cpu, 8, stream),
              ACRE_ERR_INVALID);
    EXPECT_EQ(tracing_count(traced, WRAP_copy_peer_async), 0);
    end();
}

/* A device without streams has nothing to wait for. */
TEST(synchronizing_without_streams_is_done_at_once)
{
    acre_device *cpu;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &cpu));
    REQUIRE_OK(acre_device_synchronize(cpu));
}

T_MAIN()
