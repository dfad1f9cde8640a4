/* SPDX-License-Identifier: MIT */
/* Policy acre through its public calls: memory of other streams, hard sizes, full
 * devices, switching caching off, failing calls. */
#include "cache/acre/reuse.h"

#include "base/heap.h"
#include "tests/support/lab.h"
#include "tests/support/sim_rig.h"

static void open_acre(struct lab *lab, const struct fake_config *device, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE, .conf = conf};

    lab_open_with(lab, device, &config);
}

TEST(memory_of_an_idle_stream_serves_another)
{
    struct fake_config device = {.completes_at_once = true};
    struct lab lab;

    open_acre(&lab, &device, NULL);
    lab_free(&lab, lab_alloc_on(&lab, 100 * MIB, 1));
    uint64_t held_bytes = fake_bytes(lab.fake);
    void *a = lab_alloc_on(&lab, 60 * MIB, 2), *b = lab_alloc_on(&lab, 40 * MIB, 3);
    EXPECT_EQ(fake_bytes(lab.fake), held_bytes);
    lab_free(&lab, a);
    lab_free(&lab, b);
    void *c = lab_alloc_on(&lab, 100 * MIB, 4); /* parts of two streams, joined */
    EXPECT_EQ(fake_bytes(lab.fake), held_bytes);
    lab_free(&lab, c);
    lab_close(&lab);
}

TEST(memory_of_a_busy_stream_does_not_without_the_option)
{
    struct lab lab;

    open_acre(&lab, NULL, "cross_stream_reuse:False");
    void *a = lab_alloc_on(&lab, 100 * MIB, 1);
    lab_free(&lab, a);
    uint64_t held_bytes = fake_bytes(lab.fake);
    void *b = lab_alloc_on(&lab, 100 * MIB, 2);
    EXPECT(b != a);
    EXPECT_GT(fake_bytes(lab.fake), held_bytes);
    lab_free(&lab, b);
    lab_close(&lab);
}

/* The event of stream B was recorded once. When recording it again fails, the old record says
 * nothing about the work queued since: B keeps its memory, and A gets other memory. */
TEST(a_failed_event_record_does_not_lend_memory_of_a_busy_stream)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD};
    acre_cache_config config = {.struct_size = sizeof config, .conf = "stitched_memory:False"};
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    acre_device *device;
    acre_cache *cache;
    void *p, *q;

    rig_open(NULL);
    REQUIRE_OK(acre_backend_device(rig.backend, 0, &device));
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
    void *a = rig_stream(0), *b = rig_stream(0);
    REQUIRE_OK(acre_cache_alloc(cache, 24 * MIB, b, &p));
    REQUIRE_OK(acre_cache_free(cache, p));
    REQUIRE_OK(acre_cache_alloc(cache, 24 * MIB, a, &q)); /* B is marked, and idle */
    EXPECT(p == q);
    REQUIRE_OK(acre_cache_free(cache, q));
    REQUIRE_OK(acre_cache_alloc(cache, 24 * MIB, b, &p));
    REQUIRE_OK(acre_launch_host(device, b, rig_gate_task, &gate));
    REQUIRE_OK(acre_cache_free(cache, p)); /* B still uses it */
    REQUIRE_OK(acre_sim_fault_arm(rig.backend, &fault));
    REQUIRE_OK(acre_cache_alloc(cache, 24 * MIB, a, &q));
    acre_sim_fault_disarm(rig.backend);
    EXPECT(p != q);
    rig_gate_open(&gate);
    acre_cache_destroy(cache);
    REQUIRE_OK(OP(stream_destroy, 0, a));
    REQUIRE_OK(OP(stream_destroy, 0, b));
    rig_close();
}

/* ---- Hard cases --------------------------------------------------------------------------- */

TEST(W9_sizes_near_overflow_fail_cleanly)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 510, SIZE_MAX - 511, SIZE_MAX - 512,
                                   (size_t)1 << 63, (size_t)1 << 60, ((size_t)1 << 60) - 1,
                                   (size_t)1 << 57, (size_t)1 << 40};
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    for (int warm = 0; warm < 2; warm++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            void *pointer = &lab;
            EXPECT_EQ(acre_cache_alloc(lab.cache, sizes[i], NULL, &pointer),
                      ACRE_ERR_DEVICE_MEMORY);
            EXPECT_PTR_EQ(pointer, &lab);
        }
        void *none = &lab;
        REQUIRE_OK(acre_cache_alloc(lab.cache, 0, NULL, &none));
        EXPECT_PTR_EQ(none, NULL);
        EXPECT_EQ(CURRENT(&lab, allocation), 0);
        lab_free(&lab, lab_alloc(&lab, 512));
    }
    lab_close(&lab);
}

TEST(one_block_as_large_as_the_device)
{
    struct fake_config device = {.bytes = 64 * MIB};
    struct lab lab;

    open_acre(&lab, &device, NULL);
    for (int i = 0; i < 3; i++) {
        lab_free(&lab, lab_alloc(&lab, 64 * MIB));
        lab_free(&lab, lab_alloc(&lab, 512));
        EXPECT_EQ(lab_try(&lab, 64 * MIB + 1), ACRE_ERR_DEVICE_MEMORY);
    }
    lab_close(&lab);
}

TEST(a_full_device_serves_again_after_a_free)
{
    struct fake_config device = {.bytes = 64 * MIB};
    void *blocks[200];
    int count = 0;
    struct lab lab;

    open_acre(&lab, &device, NULL);
    while (acre_cache_alloc(lab.cache, 512 * 1024, NULL, &blocks[count]) == ACRE_OK)
        count++;
    EXPECT_EQ(count, 128);
    EXPECT_EQ(fake_bytes(lab.fake), 64 * MIB);
    lab_free(&lab, blocks[5]);
    blocks[5] = lab_alloc(&lab, 512 * 1024);
    EXPECT_EQ(lab_try(&lab, 512), ACRE_ERR_DEVICE_MEMORY);
    while (count)
        lab_free(&lab, blocks[--count]);
    lab_free(&lab, lab_alloc(&lab, 64 * MIB));
    lab_close(&lab);
}

TEST(small_requests_use_large_memory_rather_than_fail)
{
    struct fake_config device = {.bytes = 64 * MIB};
    struct lab lab;

    open_acre(&lab, &device, NULL);
    void *a = lab_alloc(&lab, 40 * MIB), *b = lab_alloc(&lab, 24 * MIB);
    lab_free(&lab, a);
    void *keep = lab_alloc(&lab, 2 * MIB); /* a part of the segment stays in use */
    void *small = lab_alloc(&lab, 4096);
    EXPECT_EQ(fake_bytes(lab.fake), 64 * MIB);
    lab_free(&lab, small);
    lab_free(&lab, keep);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(a_limit_of_zero_forbids_everything)
{
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    acre_cache_limit_set(lab.cache, 0);
    EXPECT_EQ(lab_try(&lab, 1), ACRE_ERR_DEVICE_MEMORY);
    acre_cache_limit_set(lab.cache, ACRE_CACHE_NO_LIMIT);
    EXPECT_EQ(lab_try(&lab, 1), ACRE_OK);
    lab_close(&lab);
}

TEST(a_million_tiny_blocks)
{
    /* With every structure walked at every call, a few must do. */
    size_t count = ACRE_CHECK >= 2 ? 1000 : t_count(100000, 1000000);
    void **blocks = calloc(count, sizeof *blocks);
    struct lab lab;

    REQUIRE(blocks);
    open_acre(&lab, NULL, NULL);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++)
            blocks[i] = lab_alloc(&lab, 1 + i % 512);
        EXPECT_EQ(CURRENT(&lab, allocated_bytes), 512 * count);
        for (size_t i = 0; i < count; i++)
            lab_free(&lab, blocks[(i * 7919) % count]);
        EXPECT_EQ(CURRENT(&lab, allocation), 0);
    }
    EXPECT_LE(fake_bytes(lab.fake), 512 * count + 512 * count / 8 + 2 * MIB);
    free(blocks);
    lab_close(&lab);
}

TEST(switching_caching_off_and_on)
{
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    void *cached = lab_alloc(&lab, 4096);
    acre_cache_enable(lab.cache, false);
    uint64_t before = fake_alloc_count(lab.fake);
    void *direct = lab_alloc(&lab, 4096);
    EXPECT_EQ(fake_alloc_count(lab.fake), before + 1);
    EXPECT_EQ(CURRENT(&lab, allocation), 1);
    lab_free(&lab, cached);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    acre_cache_enable(lab.cache, true);
    EXPECT_PTR_EQ(lab_alloc(&lab, 4096), cached);
    lab_free(&lab, direct);
    EXPECT_EQ(fake_alloc_count(lab.fake), before);
    EXPECT_EQ(acre_cache_free(lab.cache, direct), ACRE_ERR_INVALID);
    lab_free(&lab, cached);
    lab_close(&lab);
}

TEST(missing_arguments_are_refused)
{
    struct lab lab;
    void *pointer;

    open_acre(&lab, NULL, NULL);
    lab_free(&lab, lab_alloc(&lab, 512));
    EXPECT_EQ(acre_cache_alloc(NULL, 512, NULL, &pointer), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_free(NULL, &lab), ACRE_ERR_INVALID);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    lab_close(&lab);
}

/* Allocates, uses on other streams, frees; every failing call leaves things as
 * they were. */
static acre_status scenario(struct lab *lab)
{
    void *a = NULL, *b = NULL;
    acre_status status = acre_cache_alloc(lab->cache, 3000, fake_stream(1), &a);

    if (status == ACRE_OK)
        status = acre_cache_alloc(lab->cache, 9 * MIB, fake_stream(2), &b);
    if (status == ACRE_OK)
        status = acre_cache_record_stream(lab->cache, b, fake_stream(1));
    if (status == ACRE_OK)
        status = acre_cache_free(lab->cache, a);
    if (status == ACRE_OK)
        a = NULL;
    if (status == ACRE_OK)
        status = acre_cache_free(lab->cache, b);
    if (status == ACRE_OK)
        b = NULL;
    REQUIRE_OK(acre_cache_check(lab->cache));
    EXPECT_EQ(CURRENT(lab, allocation), (a != NULL) + (b != NULL));
    lab_free(lab, a);
    lab_free(lab, b);
    return status;
}

TEST(every_host_allocation_may_fail)
{
    for (uint64_t nth = 1;; nth++) {
        struct lab lab;
        open_acre(&lab, NULL, NULL);
        heap_fail_nth(nth);
        acre_status status = scenario(&lab);
        int failed = heap_fail_disarm();
        EXPECT(status == ACRE_OK || (failed && status == ACRE_ERR_HOST_MEMORY));
        fake_finish(lab.fake, fake_stream(1));
        REQUIRE_OK(scenario(&lab));
        fake_finish(lab.fake, fake_stream(1));
        lab_close(&lab);
        if (!failed)
            break;
    }
}

TEST(every_device_call_may_fail)
{
    for (uint64_t nth = 1;; nth++) {
        struct lab lab;
        open_acre(&lab, NULL, NULL);
        fake_fail(lab.fake, FAKE_ANY, nth, ACRE_ERR_DEVICE);
        acre_status status = scenario(&lab);
        bool failed = fake_disarm(lab.fake);
        EXPECT(status == ACRE_OK || (failed && status == ACRE_ERR_DEVICE));
        fake_finish(lab.fake, fake_stream(1));
        lab_close(&lab);
        if (!failed)
            break;
    }
}

T_MAIN()
