/* SPDX-License-Identifier: MIT */
/* The ladder from a miss to a block: limits, callbacks, refusals, retries
 * (B42, B44, B45, B51 to B55). */
#include "tests/support/lab.h"

TEST(B42_the_limit_may_be_reached_exactly)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 100 * MIB);
    lab_alloc(&lab, 80 * MIB);
    lab_alloc(&lab, 3 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 100 * MIB);
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    lab_close(&lab);
}

TEST(B43_everything_idle_goes_before_an_oom)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 100 * MIB);
    void *a = lab_alloc(&lab, 80 * MIB), *b = lab_alloc(&lab, 3 * MIB);
    lab_free(&lab, a);
    lab_free(&lab, b);
    EXPECT_EQ(lab_try(&lab, 101 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "102.00 MiB");
    EXPECT_HAS(acre_last_error(), "100.00 MiB allowed");
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    EXPECT_EQ(COUNT(&lab, num_ooms), 1);
    lab_close(&lab);
}

TEST(B44_fraction_zero_and_one)
{
    struct lab lab;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_memory_fraction_set(lab.cache, 0));
    EXPECT_EQ(lab_try(&lab, 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "0 bytes allowed");
    EXPECT_EQ(lab_try(&lab, GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT(acre_cache_memory_fraction_get(lab.cache) == 0);
    REQUIRE_OK(acre_cache_memory_fraction_set(lab.cache, 1));
    EXPECT(acre_cache_memory_fraction_get(lab.cache) == 1.0);
    EXPECT_EQ(lab_try(&lab, 1), ACRE_OK);
    lab_close(&lab);
}

TEST(B45_fractions_out_of_range)
{
    static const double bad[] = {1.5, 2.0, -0.1, 0.0 / 0.0};
    struct lab lab;

    lab_open(&lab, NULL);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(acre_cache_memory_fraction_set(lab.cache, bad[i]), ACRE_ERR_RANGE);
    EXPECT(acre_cache_memory_fraction_get(lab.cache) == 1.0);
    lab_close(&lab);
}

TEST(fraction_is_rounded_half_away)
{
    struct fake_config device = {.bytes = 1001 * 512};
    struct lab lab;

    lab_open_with(&lab, &device, NULL);
    REQUIRE_OK(acre_cache_memory_fraction_set(lab.cache, 0.5));
    EXPECT_EQ(acre_cache_limit_get(lab.cache), 256256);
    acre_cache_limit_set(lab.cache, 12345);
    EXPECT_EQ(acre_cache_limit_get(lab.cache), 12345);
    acre_cache_limit_set(lab.cache, ACRE_CACHE_NO_LIMIT);
    EXPECT(acre_cache_memory_fraction_get(lab.cache) == 1.0);
    lab_close(&lab);
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
    struct lab lab;

    lab_open(&lab, "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.01");
    acre_cache_limit_set(lab.cache, ACRE_CACHE_NO_LIMIT);
    REQUIRE_OK(acre_cache_rejection_observer_add(lab.cache, observe, &told));
    REQUIRE_OK(acre_cache_oom_observer_add(lab.cache, observe, &oom));
    EXPECT_EQ(lab_try(&lab, 200 * MIB), ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "preemptively rejected");
    EXPECT_HAS(acre_last_error(), "209715200");
    EXPECT_EQ(COUNT(&lab, num_oom_rejections), 1);
    EXPECT_EQ(COUNT(&lab, num_ooms), 0);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 0);
    EXPECT_EQ(told.count, 1);
    EXPECT_EQ(told.device, 0);
    EXPECT_EQ(told.bytes, 209715200);
    EXPECT_EQ(told.second, 0);
    EXPECT_EQ(told.third, 8589934592);
    EXPECT_EQ(oom.count, 0);
    EXPECT_EQ(lab_try(&lab, 10 * MIB), ACRE_OK);
    lab_close(&lab);
}

TEST(B52_the_option_does_not_move_the_limit_later)
{
    struct lab lab;

    lab_open(&lab, "per_process_memory_fraction:0.5");
    EXPECT(acre_cache_memory_fraction_get(lab.cache) == 0.5);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "per_process_memory_fraction:0.25"));
    EXPECT(acre_cache_memory_fraction_get(lab.cache) == 0.5);
    lab_close(&lab);
}

TEST(B53_pending_blocks_are_reclaimed_by_the_retry)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 100 * MIB);
    void *a = lab_alloc(&lab, 80 * MIB);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    lab_free(&lab, a);
    EXPECT_EQ(CURRENT(&lab, active_bytes), 80 * MIB);
    lab_alloc(&lab, 90 * MIB);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    EXPECT_EQ(COUNT(&lab, num_sync_all_streams), 1);
    EXPECT_EQ(COUNT(&lab, num_ooms), 0);
    lab_close(&lab);
}

TEST(B54_another_device_error_ends_it_at_once)
{
    struct lab lab;

    lab_open(&lab, NULL);
    LAB_CACHE(&lab, 40);
    fake_fail(lab.fake, FAKE_ALLOC, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(lab_try(&lab, 100 * MIB), ACRE_ERR_DEVICE);
    EXPECT(fake_disarm(lab.fake));
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 0);
    EXPECT_EQ(COUNT(&lab, num_ooms), 0);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 40 * MIB);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_FREE), 0);
    lab_close(&lab);
}

TEST(B55_usable_after_an_oom)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 5 * GIB);
    EXPECT_EQ(lab_try(&lab, 4 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(COUNT(&lab, num_ooms), 1);
    lab_free(&lab, a);
    EXPECT_EQ(lab_try(&lab, 4 * GIB), ACRE_OK);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    lab_close(&lab);
}

TEST(B16_beyond_and_just_below_an_exbibyte)
{
    struct lab lab;

    lab_open(&lab, NULL);
    EXPECT_EQ(lab_try(&lab, (size_t)1 << 60), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1EB");
    EXPECT_EQ(COUNT(&lab, num_ooms), 0);
    EXPECT_EQ(lab_try(&lab, ((size_t)1 << 60) - 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1073741824.00 GiB");
    EXPECT_EQ(COUNT(&lab, num_ooms), 1);
    EXPECT_EQ(lab_try(&lab, SIZE_MAX), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(lab_try(&lab, SIZE_MAX - 511), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 0);
    lab_close(&lab);
}

/* Rounding to a size class, to a division, to a segment or to pages must not come out at
 * nothing and hand over a piece of the neighbour; nor must a limit be passed by a wrapped sum. */
TEST(W9_sizes_that_would_wrap_leave_the_neighbour_alone)
{
    static const char *const confs[] = {
        "", "roundup_power2_divisions:4", "expandable_segments:True", "max_split_size_mb:40",
        "garbage_collection_threshold:0.5", "expandable_segments:True,max_split_size_mb:40",
    };
    static const size_t below_bytes[] = {0, 1, 510, 511, 512, 2 * MIB - 1, 2 * MIB, 20 * MIB};

    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        acre_cache_config config = {.policy = ACRE_POLICY_TORCH, .conf = confs[i]};
        struct lab lab;

        lab_open_with(&lab, &(struct fake_config){.page_bytes = 2 * MIB}, &config);
        lab_limit(&lab, 4 * GIB);
        void *neighbour = lab_alloc(&lab, 3 * MIB);
        char before[256];
        snprintf(before, sizeof before, "%s", lab_layout(&lab));
        for (size_t k = 0; k < sizeof below_bytes / sizeof *below_bytes; k++) {
            EXPECT_EQ(lab_try(&lab, SIZE_MAX - below_bytes[k]), ACRE_ERR_DEVICE_MEMORY);
            EXPECT_EQ(lab_try(&lab, SIZE_MAX / 2 - below_bytes[k]), ACRE_ERR_DEVICE_MEMORY);
            EXPECT_EQ(lab_try(&lab, ((size_t)1 << 60) - 1 - below_bytes[k]),
                      ACRE_ERR_DEVICE_MEMORY);
        }
        EXPECT_STR_EQ(lab_layout(&lab), before);
        EXPECT_EQ(CURRENT(&lab, requested_bytes), 3 * MIB);
        EXPECT_EQ(CURRENT(&lab, allocation), 1);
        lab_free(&lab, neighbour);
        lab_close(&lab);
    }
}

/* ---- Callbacks ------------------------------------------------------------------- */

struct giver {
    struct lab *lab;
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
        lab_free(giver->lab, block);
    return block != NULL;
}

TEST(callbacks_are_asked_before_the_device)
{
    struct lab lab;
    struct giver full = {&lab, NULL, 0}, empty = {&lab, NULL, 0};

    lab_open(&lab, NULL);
    full.block = lab_alloc(&lab, 40 * MIB);
    REQUIRE_OK(acre_cache_reclaimer_add(lab.cache, give, &full));
    REQUIRE_OK(acre_cache_reclaimer_add(lab.cache, give, &empty));
    void *expected = full.block;
    EXPECT_PTR_EQ(lab_alloc(&lab, 40 * MIB), expected);
    EXPECT_EQ(full.asked, 1);
    EXPECT_EQ(empty.asked, 1); /* all of them, whoever freed something */
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 1);
    lab_alloc(&lab, 40 * MIB);
    EXPECT_EQ(full.asked, 2);
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 2);
    acre_cache_reclaimer_remove(lab.cache, give, &full);
    acre_cache_reclaimer_remove(lab.cache, give, &empty);
    acre_cache_reclaimer_remove(lab.cache, give, &empty);
    lab_alloc(&lab, 40 * MIB);
    EXPECT_EQ(full.asked, 2);
    lab_close(&lab);
}

TEST(an_observer_may_call_back)
{
    struct told told = {0};
    struct lab lab;

    lab_open(&lab, NULL);
    told.cache = lab.cache;
    REQUIRE_OK(acre_cache_oom_observer_add(lab.cache, observe, &told));
    EXPECT_EQ(lab_try(&lab, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.count, 1);
    EXPECT(told.allocated != NULL);
    EXPECT_HAS(acre_last_error(), "Tried to allocate 9.00 GiB");
    acre_cache_oom_observer_remove(lab.cache, observe, &told);
    EXPECT_EQ(lab_try(&lab, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.count, 1);
    lab_close(&lab);
}

/* ---- The device, with the lock dropped ------------------------------------------------ */

struct meanwhile {
    struct lab *lab;
    int depth;
    void *small;
};

/* Runs inside the device's alloc; would deadlock if the lock were held. */
static void allocate_meanwhile(void *arg)
{
    struct meanwhile *meanwhile = arg;

    if (meanwhile->depth++ == 0)
        meanwhile->small = lab_alloc(meanwhile->lab, 512);
}

TEST(other_work_goes_on_while_the_device_is_asked)
{
    struct lab lab;
    struct meanwhile meanwhile = {&lab, 0, NULL};

    lab_open(&lab, "release_lock_on_cudamalloc:True");
    lab_limit(&lab, 22 * MIB);
    fake_on_alloc(lab.fake, allocate_meanwhile, &meanwhile);
    lab_alloc(&lab, 20 * MIB); /* charged before the lock was dropped */
    EXPECT(meanwhile.small != NULL);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 22 * MIB);
    meanwhile.depth = 0;
    EXPECT_EQ(lab_try(&lab, 20 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 22 * MIB);
    lab_close(&lab);
}

TEST(requests_of_the_device_keep_its_granularity)
{
    struct fake_config device = {.granularity = 4 * MIB};
    struct lab lab;

    lab_open_with(&lab, &device, NULL);
    lab_alloc(&lab, 1);
    lab_alloc(&lab, 12 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 16 * MIB);
    lab_close(&lab);
}

TEST(a_success_leaves_the_last_error)
{
    struct lab lab;

    lab_open(&lab, NULL);
    EXPECT_EQ(acre_cache_free(lab.cache, &lab), ACRE_ERR_INVALID);
    LAB_CACHE(&lab, 20);
    lab_alloc_on(&lab, 8 * GIB, 1); /* fails once inside, then fits */
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    lab_close(&lab);
}

T_MAIN()
