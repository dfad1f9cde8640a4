/* SPDX-License-Identifier: MIT */
/* What the behaviour tests of the reference device share: one backend of two
 * devices that each test starts, and at whose end nothing may be left. */
#ifndef TESTS_UNIT_DEVICE_BEHAVIOUR_H
#define TESTS_UNIT_DEVICE_BEHAVIOUR_H

#include "tests/support/door.h"
#include "tests/support/t.h"

#include "base/heap.h"

#include <acre/acre.h>

#include <unistd.h>

#define REFUSED(call) EXPECT_EQ(call, ACRE_ERR_INVALID)
#define BUSY(call) EXPECT_EQ(call, ACRE_ERR_NOT_READY)

/* Starts a test named after its line in the list of behaviours: it gets two
 * devices, d[0] and d[1], in `backend`. */
#define DEVICE_TEST(name)                                                      \
    static void body_##name(acre_backend *backend, acre_device **d);           \
    TEST(name)                                                                 \
    {                                                                          \
        with_devices(body_##name);                                             \
    }                                                                          \
    static void body_##name(__attribute__((unused)) acre_backend *backend,     \
                            __attribute__((unused)) acre_device **d)

static inline void expect_nothing_left(acre_backend *backend)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    EXPECT_EQ(usage.alloc_count, 0);
    EXPECT_EQ(usage.host_count, 0);
    EXPECT_EQ(usage.stream_count, 0);
    EXPECT_EQ(usage.event_count, 0);
    EXPECT_EQ(usage.window_count, 0);
    EXPECT_EQ(usage.bytes_used, 0);
}

static inline void do_nothing(void *arg)
{
    (void)arg;
}

static inline void expect_threads(int count)
{
    EXPECT_LE(t_threads_left(count), count);
}

static inline void with_devices(void (*body)(acre_backend *, acre_device **))
{
    acre_sim_config config = {.struct_size = sizeof config};
    uint64_t pieces = heap_live_count();
    int threads, descriptors = t_fd_count();
    acre_backend *backend = NULL;
    acre_device *d[2];

    on_thread(do_nothing, NULL); /* sanitizers start a thread with the first one */
    threads = t_thread_count();
    REQUIRE_OK(acre_sim_create(&config, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &d[0]));
    REQUIRE_OK(acre_backend_device(backend, 1, &d[1]));
    body(backend, d);
    expect_nothing_left(backend);
    acre_backend_unregister(backend);
    EXPECT_EQ(heap_live_count(), pieces);
    expect_threads(threads);
    EXPECT_EQ(t_fd_count(), descriptors);
}

static inline void block_set(acre_device *device, void *block, size_t bytes, int value)
{
    void *host = malloc(bytes);

    REQUIRE(host != NULL);
    memset(host, value, bytes);
    REQUIRE_OK(acre_copy(device, block, host, bytes, ACRE_COPY_HOST_TO_DEVICE));
    free(host);
}

static inline void *new_block(acre_device *device, size_t bytes, int value)
{
    void *block = NULL;

    REQUIRE_OK(acre_device_alloc(device, bytes, &block));
    block_set(device, block, bytes, value);
    return block;
}

static inline int block_is(acre_device *device, const void *block, size_t bytes, int value)
{
    unsigned char *host = malloc(bytes);
    size_t same = 0;

    REQUIRE(host != NULL);
    memset(host, ~value, bytes);
    REQUIRE_OK(acre_copy(device, host, block, bytes, ACRE_COPY_DEVICE_TO_HOST));
    while (same < bytes && host[same] == (unsigned char)value)
        same++;
    free(host);
    return same == bytes;
}

static inline void read_byte(void *address)
{
    volatile unsigned char value = *(volatile unsigned char *)address;

    (void)value;
}

static inline int read_faults(const void *address)
{
    return t_faults(read_byte, (void *)address);
}

static inline size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

#endif
