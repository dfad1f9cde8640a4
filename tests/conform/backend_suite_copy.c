/* SPDX-License-Identifier: MIT */
/* Copies and fills. Where a device has streams, queued ones go through a stream;
 * otherwise they are done when the call returns. */
#include "tests/conform/backend_suite.h"

#define BYTES 10007

void suite_copy(void)
{
}

/* A stream where there are streams, else NULL. */
static void *stream_take(acre_device *device)
{
    void *stream = NULL;

    if (suite_has(device, ACRE_CAP_STREAMS))
        REQUIRE_OK(acre_stream_native_create(device, 0, suite_info(device).priority_least,
                                             &stream));
    return stream;
}

static acre_status stream_wait(acre_device *device, void *stream)
{
    return stream ? acre_stream_native_synchronize(device, stream) : ACRE_OK;
}

static void stream_put(acre_device *device, void *stream)
{
    if (stream)
        EXPECT_OK(acre_stream_native_destroy(device, stream));
}

TEST(bytes_survive_a_round_trip)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    char *a, *b;

    REQUIRE_OK(acre_device_alloc(s.device, BYTES, (void **)&a));
    REQUIRE_OK(acre_device_alloc(s.second ? s.second : s.device, BYTES, (void **)&b));
    suite_fill(s.device, a, BYTES, 1);
    EXPECT_OK(acre_copy(s.device, b, a, BYTES, ACRE_COPY_DEVICE_TO_DEVICE));
    suite_expect(s.device, b, BYTES, 1);
    EXPECT_OK(acre_device_free(s.device, a));
    EXPECT_OK(acre_device_free(s.second ? s.second : s.device, b));
    suite_end(&s);
}

TEST(fresh_memory_is_zero)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    unsigned char host[4096];
    void *base;

    if (!backend_suite.fresh_is_zero || backend_suite.is_dry) {
        suite_end(&s);
        T_SKIP("not promised");
    }
    for (int round = 0; round < 3; round++) {
        REQUIRE_OK(acre_device_alloc(s.device, sizeof host, &base));
        memset(host, 1, sizeof host);
        REQUIRE_OK(acre_copy(s.device, host, base, sizeof host, ACRE_COPY_DEVICE_TO_HOST));
        for (size_t i = 0; i < sizeof host; i++)
            REQUIRE_EQ(host[i], 0);
        suite_fill(s.device, base, sizeof host, 3);
        REQUIRE_OK(acre_device_free(s.device, base));
    }
    suite_end(&s);
}

/* Of the sixteen pairs of a kind with what the sides are, four are right. */
TEST(wrong_kinds_are_refused_and_move_nothing)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    char host_a[256] = {1}, host_b[256] = {2};
    char *side[2][2] = {{host_a, NULL}, {host_b, NULL}};

    REQUIRE_OK(acre_device_alloc(s.device, 256, (void **)&side[0][1]));
    REQUIRE_OK(acre_device_alloc(s.device, 256, (void **)&side[1][1]));
    suite_fill(s.device, side[0][1], 256, 1);
    suite_fill(s.device, side[1][1], 256, 2);
    for (int kind = 0; kind < 4; kind++)
        for (int pair = 0; pair < 4; pair++) {
            char *dst = side[0][pair & 1], *src = side[1][pair >> 1];
            int right = ((pair & 1) == (kind & 1)) && ((pair >> 1) == (kind >> 1));

            /* Kinds: 0 HH, 1 HD, 2 DH, 3 DD: bit 0 destination, bit 1 source. */
            if (!right)
                EXPECT_REFUSED(acre_copy(s.device, dst, src, 256, (acre_copy_kind)kind));
        }
    EXPECT_EQ(host_a[0], 1);
    EXPECT_EQ(host_b[0], 2);
    suite_expect(s.device, side[0][1], 256, 1);
    suite_expect(s.device, side[1][1], 256, 2);
    EXPECT_OK(acre_device_free(s.device, side[0][1]));
    EXPECT_OK(acre_device_free(s.device, side[1][1]));
    suite_end(&s);
}

TEST(bad_copies_are_refused)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    size_t bytes = 1 << 21;
    char *host = calloc(1, 2 * bytes), *base;

    REQUIRE_OK(acre_device_alloc(s.device, bytes, (void **)&base));
    suite_fill(s.device, base, 4096, 5);
    EXPECT_REFUSED(acre_copy(s.device, base, host, 0, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT_REFUSED(acre_copy(s.device, NULL, host, 16, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT_REFUSED(acre_copy(s.device, base, NULL, 16, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT_REFUSED(acre_copy(s.device, base, host, 16, (acre_copy_kind)4));
    EXPECT_REFUSED(acre_copy(s.device, base, host, 16, (acre_copy_kind)7));
    EXPECT_REFUSED(acre_copy(s.device, base, host, 16, (acre_copy_kind)-1));
    EXPECT_REFUSED(acre_copy(s.device, base, host, SIZE_MAX, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT_REFUSED(acre_copy(s.device, base, host, bytes + 1, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT_REFUSED(acre_copy(s.device, base + 1, host, bytes, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT_REFUSED(acre_copy(s.device, host, base + 1, bytes, ACRE_COPY_DEVICE_TO_HOST));
    suite_expect(s.device, base, 4096, 5);
    EXPECT_OK(acre_device_free(s.device, base));
    free(host);
    suite_end(&s);
}

TEST(overlapping_copies_go_as_through_a_temporary)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    unsigned char host[1000], want[1000];
    char *base;

    for (int direction = 0; direction < 2; direction++) {
        size_t from = direction ? 0 : 100, to = direction ? 100 : 0;

        REQUIRE_OK(acre_device_alloc(s.device, 1000, (void **)&base));
        for (size_t i = 0; i < 1000; i++)
            host[i] = want[i] = (unsigned char)(i * 7 + i / 256);
        memmove(want + to, want + from, 900);
        REQUIRE_OK(acre_copy(s.device, base, host, 1000, ACRE_COPY_HOST_TO_DEVICE));
        EXPECT_OK(acre_copy(s.device, base + to, base + from, 900,
                            ACRE_COPY_DEVICE_TO_DEVICE));
        REQUIRE_OK(acre_copy(s.device, host, base, 1000, ACRE_COPY_DEVICE_TO_HOST));
        if (!backend_suite.is_dry)
            EXPECT_EQ(memcmp(host, want, 1000), 0);
        EXPECT_OK(acre_device_free(s.device, base));
    }
    suite_end(&s);
}

TEST(queued_copies_and_fills_arrive)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    void *stream = stream_take(s.device);
    unsigned char host[BYTES], back[BYTES] = {0};
    char *a, *b;

    for (size_t i = 0; i < BYTES; i++)
        host[i] = (unsigned char)(i * 13);
    REQUIRE_OK(acre_device_alloc(s.device, BYTES, (void **)&a));
    REQUIRE_OK(acre_device_alloc(s.device, BYTES, (void **)&b));
    EXPECT_OK(acre_copy_async(s.device, a, host, BYTES, ACRE_COPY_HOST_TO_DEVICE, stream));
    EXPECT_OK(acre_copy_async(s.device, b, a, BYTES, ACRE_COPY_DEVICE_TO_DEVICE, stream));
    EXPECT_OK(acre_fill_async(s.device, b + 10, 0x1ab, 20, stream));
    EXPECT_OK(acre_copy_async(s.device, back, b, BYTES, ACRE_COPY_DEVICE_TO_HOST, stream));
    EXPECT_OK(stream_wait(s.device, stream));
    memset(host + 10, 0xab, 20);
    if (!backend_suite.is_dry)
        EXPECT_EQ(memcmp(host, back, BYTES), 0);
    stream_put(s.device, stream);
    EXPECT_OK(acre_device_free(s.device, a));
    EXPECT_OK(acre_device_free(s.device, b));
    suite_end(&s);
}

/* A bad queued copy answers at once or at the next synchronize, and only once. */
TEST(bad_queued_copies_are_reported)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    void *stream = stream_take(s.device);
    char host[64];
    acre_status status;
    char *base;

    REQUIRE_OK(acre_device_alloc(s.device, 64, (void **)&base));
    status = acre_copy_async(s.device, base, host, 64, ACRE_COPY_DEVICE_TO_HOST, stream);
    if (status == ACRE_OK)
        status = stream_wait(s.device, stream);
    EXPECT_NE(status, ACRE_OK);
    status = acre_copy_async(s.device, NULL, host, 64, ACRE_COPY_HOST_TO_DEVICE, stream);
    if (status == ACRE_OK)
        status = stream_wait(s.device, stream);
    EXPECT_NE(status, ACRE_OK);
    status = acre_fill_async(s.device, base, 1, (size_t)1 << 40, stream);
    if (status == ACRE_OK)
        status = stream_wait(s.device, stream);
    EXPECT_NE(status, ACRE_OK);
    EXPECT_OK(stream_wait(s.device, stream));
    EXPECT_OK(acre_copy_async(s.device, base, host, 64, ACRE_COPY_HOST_TO_DEVICE, stream));
    EXPECT_OK(stream_wait(s.device, stream));
    stream_put(s.device, stream);
    EXPECT_OK(acre_device_free(s.device, base));
    suite_end(&s);
}

TEST(copies_between_devices_need_no_peer_access)
{
    struct suite s = suite_begin(ACRE_CAP_COPY);
    void *stream = stream_take(s.device);
    acre_device *other = s.second ? s.second : s.device;
    char *a, *b;

    REQUIRE_OK(acre_device_alloc(s.device, BYTES, (void **)&a));
    REQUIRE_OK(acre_device_alloc(other, BYTES, (void **)&b));
    suite_fill(s.device, a, BYTES, 4);
    EXPECT_OK(acre_copy_peer_async(s.device, b, other, a, s.device, BYTES, stream));
    EXPECT_OK(stream_wait(s.device, stream));
    suite_expect(other, b, BYTES, 4);
    EXPECT_EQ(acre_copy_peer_async(s.device, b, NULL, a, s.device, BYTES, stream),
              ACRE_ERR_INVALID);
    stream_put(s.device, stream);
    EXPECT_OK(acre_device_free(s.device, a));
    EXPECT_OK(acre_device_free(other, b));
    suite_end(&s);
}
