/* SPDX-License-Identifier: MIT */
/* The ladder from a miss to a block: limits, callbacks, refusals, retries
 * (B42, B44, B45, B51 to B55). */
#include "tests/support/rig.h"

TEST(B42_the_limit_may_be_reached_exactly)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_limit(&rig, 100 * MIB);
    rig_alloc(&rig, 80 * MIB);
    rig_alloc(&rig, 3 * MIB);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 100 * MIB);
    EXPECT_EQ(rig_try(&rig, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    rig_close(&rig);
}

TEST(B43_everything_idle_goes_before_an_oom)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_limit(&rig, 100 * MIB);
    void *a = rig_alloc(&rig, 80 * MIB), *b = rig_alloc(&rig, 3 * MIB);
    rig_free(&rig, a);
    rig_free(&rig, b);
    EXPECT_EQ(rig_try(&rig, 101 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "102.00 MiB");
    EXPECT_HAS(acre_last_error(), "100.00 MiB allowed");
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 0);
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 1);
    EXPECT_EQ(COUNT(&rig, num_ooms), 1);
    rig_close(&rig);
}

TEST(B44_fraction_zero_and_one)
{
    struct rig rig;

    rig_open(&rig, NULL);
    REQUIRE_OK(acre_cache_memory_fraction_set(rig.cache, 0));
    EXPECT_EQ(rig_try(&rig, 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "0 bytes allowed");
    EXPECT_EQ(rig_try(&rig, GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT(acre_cache_memory_fraction_get(rig.cache) == 0);
    REQUIRE_OK(acre_cache_memory_fraction_set(rig.cache, 1));
    EXPECT(acre_cache_memory_fraction_get(rig.cache) == 1.0);
    EXPECT_EQ(rig_try(&rig, 1), ACRE_OK);
    rig_close(&rig);
}

TEST(B45_fractions_out_of_range)
{
    static const double bad[] = {1.5, 2.0, -0.1, 0.0 / 0.0};
    struct rig rig;

    rig_open(&rig, NULL);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(acre_cache_memory_fraction_set(rig.cache, bad[i]), ACRE_ERR_RANGE);
    EXPECT(acre_cache_memory_fraction_get(rig.cache) == 1.0);
    rig_close(&rig);
}

TEST(fraction_is_rounded_half_away)
{
    struct fake_config device = {.bytes = 1001 * 512};
    struct rig rig;

    rig_open_with(&rig, &device, NULL);
    REQUIRE_OK(acre_cache_memory_fraction_set(rig.cache, 0.5));
    EXPECT_EQ(acre_cache_limit_get(rig.cache), 256256);
    acre_cache_limit_set(rig.cache, 12345);
    EXPECT_EQ(acre_cache_limit_get(rig.cache), 12345);
    acre_cache_limit_set(rig.cache, ACRE_CACHE_NO_LIMIT);
    EXPECT(acre_cache_memory_fraction_get(rig.cache) == 1.0);
    rig_close(&rig);
}

/* What an observer was told last. */
struct told {
    acre_cache *cache;
    int count, device;
    uint64_t bytes, second, third;
    void *allocated;
};

static void observe(void *arg, int device, uint64_t bytes, uint64_t second, uint64_t third)
{
    struct told *told = arg;

    told->count++;
    told->device = device;
    told->bytes = bytes;
    told->second = second;
    told->third = third;
    if (told->cache && !told->allocated) /* calling back is fine */
        acre_cache_alloc(told->cache, 512, NULL, &told->allocated);
}

TEST(B51_refused_ahead)
{
    struct told told = {0}, oom = {0};
    struct rig rig;

    rig_open(&rig, "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.01");
    acre_cache_limit_set(rig.cache, ACRE_CACHE_NO_LIMIT);
    REQUIRE_OK(acre_cache_rejection_observer_add(rig.cache, observe, &told));
    REQUIRE_OK(acre_cache_oom_observer_add(rig.cache, observe, &oom));
    EXPECT_EQ(rig_try(&rig, 200 * MIB), ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "preemptively rejected");
    EXPECT_HAS(acre_last_error(), "209715200");
    EXPECT_EQ(COUNT(&rig, num_oom_rejections), 1);
    EXPECT_EQ(COUNT(&rig, num_ooms), 0);
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 0);
    EXPECT_EQ(told.count, 1);
    EXPECT_EQ(told.device, 0);
    EXPECT_EQ(told.bytes, 209715200);
    EXPECT_EQ(told.second, 0);
    EXPECT_EQ(told.third, 8589934592);
    EXPECT_EQ(oom.count, 0);
    EXPECT_EQ(rig_try(&rig, 10 * MIB), ACRE_OK);
    rig_close(&rig);
}

TEST(B52_the_option_does_not_move_the_limit_later)
{
    struct rig rig;

    rig_open(&rig, "per_process_memory_fraction:0.5");
    EXPECT(acre_cache_memory_fraction_get(rig.cache) == 0.5);
    REQUIRE_OK(acre_cache_conf_set(rig.cache, "per_process_memory_fraction:0.25"));
    EXPECT(acre_cache_memory_fraction_get(rig.cache) == 0.5);
    rig_close(&rig);
}

TEST(B53_pending_blocks_are_reclaimed_by_the_retry)
{
    struct rig rig;

    rig_open(&rig, NULL);
    rig_limit(&rig, 100 * MIB);
    void *a = rig_alloc(&rig, 80 * MIB);
    REQUIRE_OK(acre_cache_record_stream(rig.cache, a, fake_stream(1)));
    rig_free(&rig, a);
    EXPECT_EQ(CURRENT(&rig, active_bytes), 80 * MIB);
    rig_alloc(&rig, 90 * MIB);
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 1);
    EXPECT_EQ(COUNT(&rig, num_sync_all_streams), 1);
    EXPECT_EQ(COUNT(&rig, num_ooms), 0);
    rig_close(&rig);
}

TEST(B54_another_device_error_ends_it_at_once)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RIG_CACHE(&rig, 40);
    fake_fail(rig.fake, FAKE_ALLOC, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(rig_try(&rig, 100 * MIB), ACRE_ERR_DEVICE);
    EXPECT(fake_disarm(rig.fake));
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 0);
    EXPECT_EQ(COUNT(&rig, num_ooms), 0);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 40 * MIB);
    EXPECT_EQ(fake_calls(rig.fake, FAKE_FREE), 0);
    rig_close(&rig);
}

TEST(B55_usable_after_an_oom)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *a = rig_alloc(&rig, 5 * GIB);
    EXPECT_EQ(rig_try(&rig, 4 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(COUNT(&rig, num_ooms), 1);
    rig_free(&rig, a);
    EXPECT_EQ(rig_try(&rig, 4 * GIB), ACRE_OK);
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 1);
    rig_close(&rig);
}

TEST(B16_beyond_and_just_below_an_exbibyte)
{
    struct rig rig;

    rig_open(&rig, NULL);
    EXPECT_EQ(rig_try(&rig, (size_t)1 << 60), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1EB");
    EXPECT_EQ(COUNT(&rig, num_ooms), 0);
    EXPECT_EQ(rig_try(&rig, ((size_t)1 << 60) - 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1073741824.00 GiB");
    EXPECT_EQ(COUNT(&rig, num_ooms), 1);
    EXPECT_EQ(rig_try(&rig, SIZE_MAX), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(rig_try(&rig, SIZE_MAX - 511), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(CURRENT(&rig, requested_bytes), 0);
    rig_close(&rig);
}

/* ---- Callbacks ------------------------------------------------------------------- */

struct giver {
    struct rig *rig;
    void *block; /* freed when asked */
    int asked;
};

static bool give(void *arg)
{
    struct giver *giver = arg;
    void *block = giver->block;

    giver->asked++;
    giver->block = NULL;
    if (block)
        rig_free(giver->rig, block);
    return block != NULL;
}

TEST(callbacks_are_asked_before_the_device)
{
    struct rig rig;
    struct giver full = {&rig, NULL, 0}, empty = {&rig, NULL, 0};

    rig_open(&rig, NULL);
    full.block = rig_alloc(&rig, 40 * MIB);
    REQUIRE_OK(acre_cache_reclaimer_add(rig.cache, give, &full));
    REQUIRE_OK(acre_cache_reclaimer_add(rig.cache, give, &empty));
    void *expected = full.block;
    EXPECT_PTR_EQ(rig_alloc(&rig, 40 * MIB), expected);
    EXPECT_EQ(full.asked, 1);
    EXPECT_EQ(empty.asked, 1); /* all of them, whoever freed something */
    EXPECT_EQ(COUNT(&rig, num_device_alloc), 1);
    rig_alloc(&rig, 40 * MIB);
    EXPECT_EQ(full.asked, 2);
    EXPECT_EQ(COUNT(&rig, num_device_alloc), 2);
    acre_cache_reclaimer_remove(rig.cache, give, &full);
    acre_cache_reclaimer_remove(rig.cache, give, &empty);
    acre_cache_reclaimer_remove(rig.cache, give, &empty);
    rig_alloc(&rig, 40 * MIB);
    EXPECT_EQ(full.asked, 2);
    rig_close(&rig);
}

TEST(an_observer_may_call_back)
{
    struct told told = {0};
    struct rig rig;

    rig_open(&rig, NULL);
    told.cache = rig.cache;
    REQUIRE_OK(acre_cache_oom_observer_add(rig.cache, observe, &told));
    EXPECT_EQ(rig_try(&rig, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.count, 1);
    EXPECT(told.allocated != NULL);
    EXPECT_HAS(acre_last_error(), "Tried to allocate 9.00 GiB");
    acre_cache_oom_observer_remove(rig.cache, observe, &told);
    EXPECT_EQ(rig_try(&rig, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.count, 1);
    rig_close(&rig);
}

/* ---- The device, with the lock dropped ------------------------------------------------ */

struct meanwhile {
    struct rig *rig;
    int depth;
    void *small;
};

/* Runs inside the device's alloc; would deadlock if the lock were held. */
static void allocate_meanwhile(void *arg)
{
    struct meanwhile *meanwhile = arg;

    if (meanwhile->depth++ == 0)
        meanwhile->small = rig_alloc(meanwhile->rig, 512);
}

TEST(other_work_goes_on_while_the_device_is_asked)
{
    struct rig rig;
    struct meanwhile meanwhile = {&rig, 0, NULL};

    rig_open(&rig, "release_lock_on_cudamalloc:True");
    rig_limit(&rig, 22 * MIB);
    fake_on_alloc(rig.fake, allocate_meanwhile, &meanwhile);
    rig_alloc(&rig, 20 * MIB); /* charged before the lock was dropped */
    EXPECT(meanwhile.small != NULL);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 22 * MIB);
    meanwhile.depth = 0;
    EXPECT_EQ(rig_try(&rig, 20 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 22 * MIB);
    rig_close(&rig);
}

TEST(requests_of_the_device_keep_its_granularity)
{
    struct fake_config device = {.granularity = 4 * MIB};
    struct rig rig;

    rig_open_with(&rig, &device, NULL);
    rig_alloc(&rig, 1);
    rig_alloc(&rig, 12 * MIB);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 16 * MIB);
    rig_close(&rig);
}

TEST(a_success_leaves_the_last_error)
{
    struct rig rig;

    rig_open(&rig, NULL);
    EXPECT_EQ(acre_cache_free(rig.cache, &rig), ACRE_ERR_INVALID);
    RIG_CACHE(&rig, 20);
    rig_alloc_on(&rig, 8 * GIB, 1); /* fails once inside, then fits */
    EXPECT_EQ(COUNT(&rig, num_alloc_retries), 1);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    rig_close(&rig);
}

T_MAIN()
