/* SPDX-License-Identifier: MIT */
/* Tables of others whose entries fail without a word, or with one. */
#include "base/heap.h"
#include "base/status.h"
#include "tests/support/small_backend.h"
#include "tests/support/t.h"

#define TYPE ACRE_DEVICE_PRIVATE

static acre_status silent_alloc(void *self, int device, size_t bytes, void **out_base)
{
    (void)self, (void)device, (void)bytes, (void)out_base;
    return ACRE_ERR_DEVICE;
}

static acre_status speaking_free(void *self, int device, void *base)
{
    (void)self, (void)device, (void)base;
    return acre_error_set(ACRE_ERR_BUSY, 17, "it is in use");
}

static acre_status silent_copy(void *self, void *dst, const void *src, size_t bytes,
                               acre_copy_kind kind)
{
    (void)self, (void)dst, (void)src, (void)bytes, (void)kind;
    return ACRE_ERR_NOT_READY;
}

static acre_backend_ops silent_ops(void)
{
    acre_backend_ops ops = small_ops;

    ops.alloc = silent_alloc;
    ops.free = speaking_free;
    return ops;
}

/* Something that went wrong before, with the very status that the device will answer. */
static void fail_before(void)
{
    acre_error_set(ACRE_ERR_DEVICE, 5, "an older failure");
}

static void expect_told(uint32_t flags)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend_desc desc = small_desc("silent", TYPE, &small);
    acre_backend_ops ops = silent_ops();
    uint64_t before = heap_live_count();
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;
    char text[8] = "";
    void *base;

    if (flags & ACRE_BACKEND_SYNCHRONOUS)
        ops.copy = silent_copy;
    desc.ops = &ops;
    desc.flags = flags;
    REQUIRE_OK(acre_backend_register(&desc, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    fail_before();
    EXPECT_EQ(acre_device_alloc(device, 512, &base), ACRE_ERR_DEVICE);
    EXPECT_STR_EQ(acre_last_error(),
                  "backend \"silent\": its \"alloc\" answers "
                  "\"the device or its driver reported a failure\"");
    EXPECT_EQ(acre_last_native(), 0);
    REQUIRE_OK(acre_cache_create(device, NULL, &cache));
    fail_before();
    EXPECT_EQ(acre_cache_alloc(cache, 512, NULL, &base), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "its \"alloc\" answers");
    acre_cache_destroy(cache);
    /* What an entry says itself stays, and what is not ready is no failure. */
    EXPECT_EQ(acre_device_free(device, text), ACRE_ERR_BUSY);
    EXPECT_STR_EQ(acre_last_error(), "it is in use");
    EXPECT_EQ(acre_last_native(), 17);
    if (flags & ACRE_BACKEND_SYNCHRONOUS) {
        EXPECT_EQ(acre_copy(device, text, text + 1, 1, ACRE_COPY_HOST_TO_HOST),
                  ACRE_ERR_NOT_READY);
        EXPECT_STR_EQ(acre_last_error(), "it is in use");
    }
    acre_backend_unregister(backend);
    EXPECT_EQ(small.destroyed, 1);
    EXPECT_EQ(heap_live_count(), before);
}

TEST(a_failure_without_a_word_gets_one)
{
    expect_told(0);
    expect_told(ACRE_BACKEND_SYNCHRONOUS);
}

static acre_status silent_count(void *self, int *out_count)
{
    (void)self, (void)out_count;
    return ACRE_ERR_DEVICE;
}

TEST(a_backend_that_cannot_start_is_named)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend_desc desc = small_desc("silent", TYPE, &small);
    acre_backend_ops ops = small_ops;
    acre_backend *backend;

    ops.device_count = silent_count;
    desc.ops = &ops;
    fail_before();
    EXPECT_EQ(acre_backend_register(&desc, &backend), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "backend \"silent\": its \"device_count\" answers");
}

/* Every host allocation of a registration fails in turn; nothing stays. */
TEST(registering_survives_every_failing_host_allocation)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend *backend = NULL;
    uint64_t before = heap_live_count(), nth = 0;
    acre_status status;

    do {
        heap_fail_nth(++nth);
        status = small_register("small", TYPE, &small, &backend);
        heap_fail_disarm();
        EXPECT(status == ACRE_OK || status == ACRE_ERR_HOST_MEMORY);
        if (status != ACRE_OK)
            EXPECT_EQ(heap_live_count(), before);
    } while (status != ACRE_OK && nth < 100);
    EXPECT_GT(nth, 3);
    acre_backend_unregister(backend);
    EXPECT_EQ(heap_live_count(), before);
}

T_MAIN()
