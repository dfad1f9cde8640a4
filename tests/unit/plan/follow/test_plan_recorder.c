/* SPDX-License-Identifier: MIT */
/* Repetition in what was recorded. */
#include "plan/follow/recorder.h"

#include "base/heap.h"
#include "tests/support/t.h"

static char memory[1000];

/* Allocations and frees of a round of eight events; the last one frees what the round
 * before left. */
static void record_round(struct recorder *recorder, size_t unit)
{
    recorder_alloc(recorder, memory + 1, 1 * unit, NULL);
    recorder_alloc(recorder, memory + 2, 2 * unit, NULL);
    recorder_free(recorder, memory + 1);
    recorder_alloc(recorder, memory + 3, 3 * unit, NULL);
    recorder_free(recorder, memory + 2);
    recorder_free(recorder, memory + 4);
    recorder_alloc(recorder, memory + 4, 4 * unit, NULL);
    recorder_free(recorder, memory + 3);
}

TEST(two_rounds_are_a_period)
{
    struct recorder recorder;
    struct timetable_record *records;
    uint32_t period = 0, count, allocs = 0;

    recorder_init(&recorder, 4, 1000);
    record_round(&recorder, 7); /* has one event less, as nothing was left */
    for (int round = 0; round < 4 && !period; round++) {
        EXPECT(!recorder_find(&recorder, &period));
        record_round(&recorder, 512);
        recorder_find(&recorder, &period);
    }
    EXPECT_EQ(period, 8);
    REQUIRE_OK(recorder_round(&recorder, period, &records, &count));
    EXPECT_EQ(count, 8);
    for (uint32_t i = 0; i < count; i++)
        if (records[i].kind == ACRE_TRACE_ALLOC)
            EXPECT_EQ(records[i].entry, allocs++);
    EXPECT_EQ(allocs, 4);
    heap_free(records);
    recorder_fini(&recorder);
}

TEST(a_loop_that_keeps_what_it_allocates_is_none)
{
    struct recorder recorder;
    uint32_t period;

    recorder_init(&recorder, 4, 1000);
    for (int i = 0; i < 100; i++) {
        recorder_alloc(&recorder, memory + 100 + i, 512, NULL);
        recorder_alloc(&recorder, memory + 1, 1024, NULL);
        recorder_free(&recorder, memory + 1);
        EXPECT(!recorder_find(&recorder, &period));
    }
    EXPECT_EQ(recorder.distance, 3);
    recorder_fini(&recorder);
}

TEST(steps_compare_iterations_only)
{
    struct recorder recorder;
    uint32_t period;

    recorder_init(&recorder, 4, 1000);
    record_round(&recorder, 9);
    EXPECT(!recorder_step(&recorder, &period));
    for (int i = 0; i < 6; i++)
        record_round(&recorder, 512);
    EXPECT(!recorder_find(&recorder, &period));
    EXPECT(!recorder_step(&recorder, &period));
    for (int i = 0; i < 5; i++)
        record_round(&recorder, 512);
    EXPECT(!recorder_step(&recorder, &period)); /* five after six */
    for (int i = 0; i < 5; i++)
        record_round(&recorder, 512);
    EXPECT(recorder_step(&recorder, &period));
    EXPECT_EQ(period, 40);
    recorder_fini(&recorder);
}

TEST(too_much_is_forgotten)
{
    struct recorder recorder;
    uint32_t period;

    recorder_init(&recorder, 4, 1000);
    for (size_t i = 0; i < 10000; i++) {
        recorder_alloc(&recorder, memory + i % 900, 512 * (i * i % 7919 + 1), NULL);
        recorder_free(&recorder, memory + (i + 1) % 900);
        EXPECT(!recorder_find(&recorder, &period));
        EXPECT_LE(recorder.count, 8192);
    }
    recorder_fini(&recorder);
}

T_MAIN()
