/* SPDX-License-Identifier: MIT */
#include "sim/sim_fault.h"

#include "tests/support/sim_bed.h"

#include <time.h>

static acre_status try_alloc(struct sim_bed *bed, size_t bytes)
{
    void *p;
    acre_status status = bed->ops->alloc(bed->sim, 0, bytes, &p);

    if (status == ACRE_OK)
        REQUIRE_OK(bed->ops->free(bed->sim, 0, p));
    return status;
}

static void arm(struct sim_bed *bed, acre_sim_fault fault)
{
    fault.struct_size = sizeof fault;
    REQUIRE_OK(acre_sim_fault_arm(bed->backend, &fault));
}

TEST(the_nth_call_fails_once)
{
    struct sim_bed bed = bed_open("dry:1");

    arm(&bed, (acre_sim_fault){.call = ACRE_SIM_ALLOC, .nth = 3});
    EXPECT_EQ(try_alloc(&bed, 1), ACRE_OK);
    EXPECT_EQ(try_alloc(&bed, 1), ACRE_OK);
    EXPECT_EQ(try_alloc(&bed, 1), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "alloc");
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(try_alloc(&bed, 1), ACRE_OK);
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), 1);
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), 0);
    EXPECT_EQ(atomic_load(&bed.sim->is_slow), false);
    bed_close(&bed);
}

TEST(any_call_by_size_and_with_a_status)
{
    struct sim_bed bed = bed_open("dry:1");
    void *p;

    arm(&bed, (acre_sim_fault){.call = ACRE_SIM_ANY, .bytes_min = 1 << 20,
                               .status = ACRE_ERR_DEVICE_MEMORY});
    EXPECT_EQ(try_alloc(&bed, (1 << 20) - 1), ACRE_OK);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(try_alloc(&bed, 1 << 20), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_NONE, &p),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->host_alloc(bed.sim, 1 << 20, &p), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), 5);
    EXPECT_EQ(try_alloc(&bed, 1 << 20), ACRE_OK);
    bed_close(&bed);
}

/* Which of 2000 calls a chance of one in ten strikes, as a count and a pattern. */
static int chance(uint32_t seed, unsigned char *out_pattern)
{
    struct sim_bed bed = bed_open("dry:1");
    int count = 0;

    arm(&bed, (acre_sim_fault){.call = ACRE_SIM_ALLOC, .probability_ppm = 100000,
                               .seed = seed});
    for (int i = 0; i < 2000; i++) {
        out_pattern[i] = try_alloc(&bed, 1) != ACRE_OK;
        count += out_pattern[i];
    }
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), count);
    bed_close(&bed);
    return count;
}

TEST(a_chance_is_repeatable_by_its_seed)
{
    static unsigned char a[2000], b[2000], c[2000];
    int count = chance(7, a);

    EXPECT_GT(count, 100);
    EXPECT_LT(count, 400);
    EXPECT_EQ(chance(7, b), count);
    EXPECT(memcmp(a, b, sizeof a) == 0);
    chance(8, c);
    EXPECT(memcmp(a, c, sizeof a) != 0);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TEST(late_calls_take_their_time_and_succeed)
{
    struct sim_bed bed = bed_open("dry:1");
    uint64_t begin = now_ns();

    arm(&bed, (acre_sim_fault){.call = ACRE_SIM_ALLOC, .nth = 2, .is_delay = 1,
                               .delay_ns = 3000000});
    EXPECT_EQ(try_alloc(&bed, 1), ACRE_OK);
    EXPECT_EQ(try_alloc(&bed, 1), ACRE_OK);
    EXPECT_GE(now_ns() - begin, 3000000);
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), 1);
    bed_close(&bed);
}

TEST(the_latency_model_charges_calls_and_bytes)
{
    struct sim_bed bed = bed_open("dry:1,call_ns:1000,byte_ps:1000");
    void *p;
    uint64_t begin = now_ns();

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 2000000, &p)); /* 1 ns a byte */
    EXPECT_GE(now_ns() - begin, 2001000);
    begin = now_ns();
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    EXPECT_GE(now_ns() - begin, 1000);
    bed_close(&bed);
}

TEST(calls_are_counted)
{
    struct sim_bed bed = bed_open("dry:1");
    acre_sim_usage before = bed_usage(&bed);

    for (int i = 0; i < 5; i++)
        try_alloc(&bed, 1);
    try_alloc(&bed, 0); /* refused ones too */
    acre_sim_usage after = bed_usage(&bed);
    EXPECT_EQ(after.calls[ACRE_SIM_ALLOC] - before.calls[ACRE_SIM_ALLOC], 6);
    EXPECT_EQ(after.calls[ACRE_SIM_FREE] - before.calls[ACRE_SIM_FREE], 5);
    EXPECT_EQ(after.calls[ACRE_SIM_MAP], 0);
    bed_close(&bed);
}

TEST(faults_that_cannot_be_are_refused)
{
    struct sim_bed bed = bed_open("dry:1");
    acre_backend *host;
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ALLOC, .nth = 1000};

    EXPECT_EQ(acre_sim_fault_arm(NULL, &fault), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_sim_fault_arm(bed.backend, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_backend_find("host", &host));
    EXPECT_EQ(acre_sim_fault_arm(host, &fault), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "not a reference device");
    EXPECT_EQ(acre_sim_fault_disarm(NULL), 0);
    fault.call = (acre_sim_call)999;
    EXPECT_EQ(acre_sim_fault_arm(bed.backend, &fault), ACRE_ERR_INVALID);
    fault.call = ACRE_SIM_CALL_COUNT;
    EXPECT_EQ(acre_sim_fault_arm(bed.backend, &fault), ACRE_ERR_INVALID);
    fault.call = ACRE_SIM_ALLOC;
    fault.probability_ppm = 1000001;
    EXPECT_EQ(acre_sim_fault_arm(bed.backend, &fault), ACRE_ERR_INVALID);
    fault.probability_ppm = 0;
    fault.struct_size = 1;
    EXPECT_EQ(acre_sim_fault_arm(bed.backend, &fault), ACRE_ERR_INVALID);
    fault.struct_size = sizeof fault;
    for (int i = 0; i < ACRE_SIM_FAULT_MAX; i++)
        REQUIRE_OK(acre_sim_fault_arm(bed.backend, &fault));
    EXPECT_EQ(acre_sim_fault_arm(bed.backend, &fault), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), 0);
    /* The host backend went on living: its memory is not the bed's. */
    acre_backend_unregister(bed.backend);
}

T_MAIN()
