/* SPDX-License-Identifier: MIT */
/* The planner: repetition is found and served from the arena, and what happens when
 * memory is missing. */
#include "tests/support/planner_ground.h"

/* ---- Following -------------------------------------------------------------------------- */

TEST(what_repeats_is_planned_and_followed)
{
    char *first = NULL;

    open_ground(NULL, 0, true);
    take(0, 3000000); /* lives throughout */
    for (int round = 0; round < 12; round++) {
        iterate(40, KB);
        acre_planner_stats now = stats();
        if (round == 3) {
            EXPECT_EQ(now.is_following, 1);
            EXPECT_EQ(now.plans, 1);
            EXPECT_EQ(now.period_events, 240);
            EXPECT_EQ(now.period_allocs, 120);
            EXPECT_EQ(now.arena_bytes, now.lower_bound);
            first = take(1, 3 * KB); /* departs, and is put back before the round */
            give(1);
        }
        if (round > 4)
            EXPECT_EQ(now.departures, 1);
    }
    EXPECT(first);
    EXPECT_GE(stats().rounds, 7);
    EXPECT_EQ(stats().drops, 0);
    give(0);
    EXPECT_EQ(stats().allocated_bytes.current, 0);
    close_ground();
}

TEST(rounds_give_the_same_addresses)
{
    char *seen[50];

    open_ground(NULL, 0, true);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 50; i++) {
            char *pointer = take(i, (size_t)(1 + i % 7) * KB);
            if (round > 4)
                EXPECT_PTR_EQ(pointer, seen[i]);
            seen[i] = pointer;
        }
        for (int i = 0; i < 50; i++)
            give(i);
    }
    EXPECT_EQ(stats().departures, 0);
    EXPECT_EQ(stats().is_following, 1);
    close_ground();
}

/* Gradients live until the next iteration frees them. */
TEST(what_lives_over_the_end_of_a_round_keeps_its_place)
{
    open_ground(NULL, 0, true);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 20; i++) {
            if (round)
                give(100 + i);
            take(i, (size_t)(8 + i) * KB);
        }
        for (int i = 19; i >= 0; i--) {
            take(100 + i, (size_t)(4 + i % 4) * KB);
            give(i);
        }
    }
    EXPECT_EQ(stats().is_following, 1);
    EXPECT_EQ(stats().departures, 0);
    EXPECT_EQ(stats().drops, 0);
    close_ground();
}

TEST(steps_say_where_iterations_begin)
{
    open_ground(NULL, 0, true);
    for (int round = 0; round < 8; round++) {
        REQUIRE_OK(acre_planner_step(ground.planner));
        EXPECT_EQ(stats().is_following, round > 2 || round == 2);
        iterate(3, KB);
    }
    EXPECT_EQ(stats().departures, 0);
    take(1, 5 * KB);
    iterate(2, 3 * KB); /* another one in between */
    give(1);
    uint64_t departures = stats().departures;
    EXPECT_GT(departures, 0);
    REQUIRE_OK(acre_planner_step(ground.planner));
    iterate(3, KB);
    EXPECT_EQ(stats().departures, departures); /* taken up again */
    EXPECT_EQ(acre_planner_step(NULL), ACRE_ERR_INVALID);
    close_ground();
}

/* ---- Trouble ---------------------------------------------------------------------------- */

TEST(without_room_for_the_arena_the_cache_serves)
{
    open_ground(NULL, 64 << 20, true);
    take(0, 18 << 20);
    for (int round = 0; round < 6; round++) { /* lives when the plan would be made */
        take(1, 30 << 20);
        for (int i = 0; i < 50; i++)
            take(10 + i, KB);
        for (int i = 0; i < 50; i++)
            give(10 + i);
        give(1);
    }
    EXPECT_EQ(stats().plans, 0);
    EXPECT_EQ(stats().departures, 0);
    close_ground();
}

TEST(an_idle_arena_gives_way)
{
    open_ground(NULL, 64 << 20, true);
    for (int round = 0; round < 6; round++)
        iterate(10, 512 * KB);
    EXPECT_EQ(stats().is_following, 1);
    EXPECT_GT(stats().arena_bytes, 20 << 20);
    take(0, 50 << 20); /* only possible without the arena */
    EXPECT_EQ(stats().is_following, 0);
    EXPECT_EQ(stats().drops, 1);
    close_ground();
}

TEST(every_host_allocation_may_fail_in_planning)
{
    for (uint64_t nth = 1;; nth++) {
        open_ground(NULL, 0, true);
        take(0, KB);
        void *pointer = NULL;
        bool has_failed = false;
        heap_fail_nth(nth);
        for (int i = 0; i < 200; i++) {
            if (acre_planner_alloc(ground.planner, 512 * (size_t)(1 + i % 20), NULL, &pointer))
                continue;
            acre_status status = acre_planner_free(ground.planner, pointer);
            EXPECT_EQ(status, ACRE_OK);
        }
        has_failed = heap_fail_disarm();
        if (!has_failed)
            EXPECT_GE(stats().plans, 1);
        close_ground();
        if (!has_failed)
            break;
    }
}

T_MAIN()
