/* SPDX-License-Identifier: MIT */
/* Stream values: D62 to D64, D67, D68, D94. */
#include "backend/stream.h"

#include "tests/support/fault_backend.h"
#include "tests/support/sim_pair.h"
#include "tests/support/tracing_backend.h"

#include <pthread.h>

#define TYPE ACRE_DEVICE_PRIVATE

static int64_t take(acre_device_type type, int index, int priority)
{
    acre_stream stream = {-1, -1, -1};

    REQUIRE_OK(acre_stream_from_pool(type, index, priority, &stream));
    EXPECT_EQ(stream.type, type);
    EXPECT_EQ(stream.index, index);
    return stream.id;
}

static acre_stream value(int64_t id, int index)
{
    return (acre_stream){.id = id, .index = index, .type = TYPE};
}

TEST(D62_ids_of_the_reference)
{
    acre_backend *backend = sim_pair("ids", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    acre_stream stream;

    REQUIRE_OK(acre_stream_default(TYPE, 0, &stream));
    EXPECT_EQ(stream.id, 13);
    REQUIRE_OK(acre_stream_default(TYPE, 1, &stream));
    EXPECT_EQ(stream.id, 13);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(take(TYPE, 0, 0), 16 * i + 1);
        EXPECT_EQ(take(TYPE, 0, 1), 16 * i + 3);
    }
    acre_backend_unregister(backend);
}

TEST(D63_the_33rd_is_the_1st_and_counters_are_apart)
{
    acre_backend *backend = sim_pair("turns", TYPE, ACRE_STREAM_CODEC_REFERENCE);

    for (int i = 0; i < 33; i++)
        EXPECT_EQ(take(TYPE, 0, 0), 16 * (i % 32) + 1);
    EXPECT_EQ(take(TYPE, 0, 1), 3);
    EXPECT_EQ(take(TYPE, 1, 0), 1);
    EXPECT_EQ(take(TYPE, 1, 1), 3);
    EXPECT_EQ(take(TYPE, 0, 0), 17);
    acre_backend_unregister(backend);
}

TEST(D64_priorities_are_clamped)
{
    acre_backend *backend = sim_pair("clamped", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    acre_stream stream;
    int priority;

    EXPECT_EQ(take(TYPE, 0, -5), 1);
    EXPECT_EQ(take(TYPE, 0, 9), 3);
    EXPECT_EQ(take(TYPE, 0, INT32_MIN), 17);
    EXPECT_EQ(take(TYPE, 0, INT32_MAX), 19);
    REQUIRE_OK(acre_stream_from_pool_high(TYPE, 0, true, &stream));
    EXPECT_EQ(stream.id, 35);
    REQUIRE_OK(acre_stream_priority(stream, &priority));
    EXPECT_EQ(priority, 1);
    REQUIRE_OK(acre_stream_from_pool_high(TYPE, 0, false, &stream));
    EXPECT_EQ(stream.id, 33);
    REQUIRE_OK(acre_stream_priority(stream, &priority));
    EXPECT_EQ(priority, 0);
    acre_backend_unregister(backend);
}

TEST(D67_external_streams_and_ids_that_name_nothing)
{
    static const int64_t bad[] = {5, 7, 9, 11, 15, 13 + 16, 16 * 32 + 1, -1};
    acre_backend *backend = sim_pair("external", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    acre_device *device;
    acre_stream stream;
    void *native, *found;

    REQUIRE_OK(acre_device_get(TYPE, 1, &device));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &native));
    REQUIRE_OK(acre_stream_external(TYPE, 1, native, &stream));
    EXPECT_EQ(stream.id, (int64_t)(uintptr_t)native);
    REQUIRE_OK(acre_stream_native(stream, &found));
    EXPECT_PTR_EQ(found, native);
    EXPECT(acre_stream_query(stream));
    REQUIRE_OK(acre_stream_synchronize(stream));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_EQ(acre_stream_native(value(bad[i], 0), &found), ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "type field");
        EXPECT(!acre_stream_query(value(bad[i], 0)));
        EXPECT_EQ(acre_stream_set_current(value(bad[i], 0)), ACRE_ERR_INVALID);
    }
    /* Id 0 is an external NULL stream, not the default one. */
    EXPECT(!acre_stream_query(value(0, 0)));
    EXPECT_EQ(acre_stream_synchronize(value(0, 0)), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_external(TYPE, 0, NULL, &stream), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_external(TYPE, 0, (char *)native + 1, &stream), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_stream_native_destroy(device, native));
    acre_backend_unregister(backend);
}

TEST(D68_devices_out_of_range_are_refused)
{
    acre_backend *backend = sim_pair("range", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    acre_stream stream = value(-1, -1);
    void *native;
    int priority;

    EXPECT_EQ(acre_stream_from_pool(TYPE, 9, 0, &stream), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "9");
    EXPECT_HAS(acre_last_error(), "[0, 2)");
    EXPECT_EQ(acre_stream_from_pool_high(TYPE, 9, true, &stream), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_default(TYPE, 9, &stream), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_external(TYPE, 9, &stream, &stream), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_set_current(value(13, 9)), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_set_current(value(13, -1)), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_native(value(13, 9), &native), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_priority(value(13, 9), &priority), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_synchronize(value(13, 9)), ACRE_ERR_RANGE);
    EXPECT(!acre_stream_query(value(13, 9)));
    EXPECT_EQ(stream.id, -1);
    EXPECT_EQ(acre_stream_from_pool(TYPE, 0, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_native(value(13, 0), NULL), ACRE_ERR_INVALID);
    acre_backend_unregister(backend);
}

TEST(the_default_stream_is_the_first_of_the_pool)
{
    acre_backend *backend = sim_pair("default", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    void *a, *b;

    REQUIRE_OK(acre_stream_native(value(13, 0), &a));
    REQUIRE_OK(acre_stream_native(value(1, 0), &b));
    EXPECT_PTR_EQ(a, b);
    REQUIRE_OK(acre_stream_native(value(13, 1), &b));
    EXPECT(a != b);
    acre_backend_unregister(backend);
}

/* One stream is paid for by one stream, and the pool takes all with it. */
TEST(native_streams_come_with_their_first_use)
{
    const struct wrap_config config = {.name = "lazy", .type = ACRE_DEVICE_OPENCL};
    acre_backend *inner = sim_pair("inner", TYPE, ACRE_STREAM_CODEC_REFERENCE), *lazy;
    acre_sim_usage usage = {.struct_size = sizeof usage};
    acre_stream stream;
    void *native;

    REQUIRE_OK(tracing_create(inner, &config, &lazy));
    REQUIRE_OK(acre_stream_default(ACRE_DEVICE_OPENCL, 0, &stream));
    REQUIRE_OK(acre_stream_set_current(stream));
    EXPECT_EQ(tracing_count(lazy, WRAP_stream_create), 0);
    REQUIRE_OK(acre_stream_native(stream, &native));
    EXPECT_EQ(tracing_count(lazy, WRAP_stream_create), 1);
    REQUIRE_OK(acre_stream_from_pool(ACRE_DEVICE_OPENCL, 0, 0, &stream));
    EXPECT_EQ(tracing_count(lazy, WRAP_stream_create), 1);
    for (int i = 0; i < 70; i++)
        REQUIRE_OK(acre_stream_from_pool(ACRE_DEVICE_OPENCL, 0, 0, &stream));
    EXPECT_EQ(tracing_count(lazy, WRAP_stream_create), 32);
    acre_backend_unregister(lazy);
    REQUIRE_OK(acre_sim_usage_get(inner, &usage));
    EXPECT_EQ(usage.stream_count, 0);
    acre_backend_unregister(inner);
}

/* A stream that cannot be made takes nobody's turn. */
TEST(a_failed_stream_takes_no_turn)
{
    const struct wrap_config config = {.name = "faulty", .type = ACRE_DEVICE_OPENCL};
    acre_backend *inner = sim_pair("inner", TYPE, ACRE_STREAM_CODEC_REFERENCE), *faulty;
    acre_stream stream = value(-1, -1);

    REQUIRE_OK(fault_create(inner, &config, &faulty));
    fault_arm(faulty, WRAP_stream_create, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_stream_from_pool(ACRE_DEVICE_OPENCL, 0, 0, &stream), ACRE_ERR_DEVICE);
    EXPECT(fault_disarm(faulty));
    EXPECT_EQ(stream.id, -1);
    EXPECT_EQ(take(ACRE_DEVICE_OPENCL, 0, 0), 1);
    acre_backend_unregister(faulty);
    acre_backend_unregister(inner);
}

TEST(D94_codec_of_cuda)
{
    acre_backend *backend = sim_pair("cuda-like", ACRE_DEVICE_CUDA, ACRE_STREAM_CODEC_CUDA);
    acre_stream stream, zero = {.id = 0, .index = 0, .type = ACRE_DEVICE_CUDA};
    void *native;

    REQUIRE_OK(acre_stream_default(ACRE_DEVICE_CUDA, 0, &stream));
    EXPECT_EQ(stream.id, 0);
    EXPECT(acre_stream_query(zero));
    REQUIRE_OK(acre_stream_synchronize(zero));
    /* Slot s of class c: 1 | (c + 1) << 1 | s << 5. Class is clamp(-p, 0, n - 1). */
    EXPECT_EQ(take(ACRE_DEVICE_CUDA, 0, 0), 3);
    EXPECT_EQ(take(ACRE_DEVICE_CUDA, 0, 5), 35);
    EXPECT_EQ(take(ACRE_DEVICE_CUDA, 0, -1), 5);
    EXPECT_EQ(take(ACRE_DEVICE_CUDA, 0, -7), 37);
    EXPECT_EQ(take(ACRE_DEVICE_CUDA, 0, INT32_MIN), 69);
    for (int64_t slot = 0; slot < 32; slot++) {
        stream.id = slot << 5 | 1;
        EXPECT_EQ(acre_stream_native(stream, &native), ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "type field is 0");
        stream.id = slot << 5 | 15 << 1 | 1;
        EXPECT_EQ(acre_stream_native(stream, &native), ACRE_ERR_INVALID);
        stream.id = slot << 5 | 4 << 1 | 1;
        EXPECT_EQ(acre_stream_native(stream, &native), ACRE_ERR_INVALID);
    }
    stream.id = 37;
    REQUIRE_OK(acre_stream_native(stream, &native));
    acre_backend_unregister(backend);
}

TEST(hash_and_text)
{
    acre_stream stream = {.id = 0x1234567890abcdef, .index = 3, .type = ACRE_DEVICE_CUDA};
    char text[64], cut[8];

    EXPECT(acre_stream_hash(stream) == 0x0103567890abcdefu);
    EXPECT_EQ(acre_stream_text(value(13, 1), text, sizeof text), (int)strlen(text));
    EXPECT_STR_EQ(text, "stream 13 on device openreg:1");
    EXPECT_EQ(acre_stream_text(value(13, 1), cut, sizeof cut), (int)strlen(text));
    EXPECT_STR_EQ(cut, "stream ");
}

TEST(devices_without_streams_say_so)
{
    acre_stream stream;
    void *native;

    REQUIRE_OK(acre_stream_default(ACRE_DEVICE_CPU, 0, &stream));
    EXPECT_EQ(acre_stream_native(stream, &native), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "streams");
    EXPECT_EQ(acre_stream_from_pool(ACRE_DEVICE_CPU, 0, 0, &stream), ACRE_ERR_UNSUPPORTED);
    EXPECT(!acre_stream_query(stream));
}

static void *take_many(void *arg)
{
    int *seen = arg;

    for (int i = 0; i < 320; i++) {
        acre_stream stream;
        void *native;

        EXPECT_EQ(acre_stream_from_pool(TYPE, 0, 0, &stream), ACRE_OK);
        EXPECT_EQ(acre_stream_native(stream, &native), ACRE_OK);
        seen[stream.id >> 4]++;
    }
    return NULL;
}

TEST(threads_share_the_turns_evenly)
{
    acre_backend *backend = sim_pair("shared", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    int seen[4][32] = {{0}};
    pthread_t threads[4];
    acre_sim_usage usage = {.struct_size = sizeof usage};

    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, take_many, seen[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int slot = 0; slot < 32; slot++)
        EXPECT_EQ(seen[0][slot] + seen[1][slot] + seen[2][slot] + seen[3][slot], 40);
    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    EXPECT_EQ(usage.stream_count, 32);
    acre_backend_unregister(backend);
}

T_MAIN()
