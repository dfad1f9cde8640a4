/* SPDX-License-Identifier: MIT */
/* Rounds made into tables. */
#include "plan/follow/budget.h"
#include "plan/follow/timetable.h"

#include "tests/support/t.h"

static const acre_planner_config defaults = {.struct_size = sizeof defaults};
static char other[3], arena[1 << 20];

TEST(a_round_is_turned_to_where_little_lives)
{
    const struct timetable_record records[] = {
        /* e1 of the round before lives here */
        {1000, NULL, 0, ACRE_TRACE_ALLOC}, {0, NULL, 1, ACRE_TRACE_FREE},
        {0, NULL, 0, ACRE_TRACE_FREE},     {600, NULL, 1, ACRE_TRACE_ALLOC},
    };
    struct timetable *table;
    uint32_t turn;

    REQUIRE_OK(timetable_create(records, 4, &defaults, &table, &turn));
    EXPECT_EQ(turn, 1); /* the first record comes second now */
    EXPECT_EQ(table->event_count, 4);
    EXPECT_EQ(table->entries[0].bytes, 600);
    EXPECT_EQ(table->entries[0].alloc_at, 0);
    EXPECT_EQ(table->entries[0].free_at, 2);
    EXPECT_EQ(table->arena_bytes, 2048);
    EXPECT_EQ(table->levels[2].live, 2048);
    EXPECT_EQ(table->levels[4].live, 0);
    EXPECT_EQ(table->levels[4].live_peak, 2048);
    EXPECT_EQ(table->levels[4].total, 2048);
    timetable_settle(table, arena);
    EXPECT_PTR_EQ(table->events[0].address, arena + table->entries[0].offset);
    EXPECT_PTR_EQ(table->events[2].freed, table->events[0].address);
    EXPECT_EQ(table->events[4].bytes, 0);
    timetable_destroy(table);
}

TEST(what_is_used_elsewhere_or_stays_is_left_to_the_cache)
{
    const struct timetable_record records[] = {
        {512, NULL, 0, ACRE_TRACE_ALLOC}, {0, other, 0, ACRE_TRACE_USE},
        {0, NULL, 0, ACRE_TRACE_FREE},    {512, NULL, 1, ACRE_TRACE_ALLOC},
        {512, NULL, 2, ACRE_TRACE_ALLOC}, {0, NULL, 2, ACRE_TRACE_FREE},
    };
    struct timetable *table;
    uint32_t turn;

    REQUIRE_OK(timetable_create(records, 6, &defaults, &table, &turn));
    EXPECT_EQ(table->entries[0].offset, OFFSET_CACHE);
    EXPECT_EQ(table->entries[1].offset, OFFSET_CACHE);
    EXPECT_EQ(table->entries[2].offset, 0);
    EXPECT_EQ(table->event_count, 4);
    EXPECT_EQ(table->arena_bytes, 512);
    timetable_settle(table, arena);
    EXPECT_EQ(table->events[0].bytes, 0); /* never served at once */
    timetable_destroy(table);
}

/* A walk over two streams in turn, where sharing would need many guards. */
TEST(streams_have_regions_of_their_own)
{
    struct timetable_record records[400];
    struct timetable *table;
    uint32_t turn;

    for (uint32_t i = 0; i < 200; i++) {
        records[2 * i] = (struct timetable_record){4096, i % 2 ? other : NULL, i, ACRE_TRACE_ALLOC};
        records[2 * i + 1] = (struct timetable_record){0, NULL, i, ACRE_TRACE_FREE};
    }
    REQUIRE_OK(timetable_create(records, 400, &defaults, &table, &turn));
    EXPECT_EQ(table->arena_bytes, 8192);
    for (uint32_t i = 0; i < 200; i++) {
        EXPECT_EQ(table->entries[i].offset, table->entries[i % 2].offset);
        EXPECT(!table->entries[i].is_guarded);
    }
    EXPECT_NE(table->entries[0].offset, table->entries[1].offset);
    timetable_destroy(table);
}

TEST(the_time_of_a_round_is_shared_by_its_placements)
{
    struct budget budget = budget_make(8, 4, 100);

    EXPECT(budget_next(&budget, 100) == 2);
    EXPECT(budget_next(&budget, 100.5) == 2.5);  /* the first used little */
    EXPECT(budget_next(&budget, 107) == 0.5);
    EXPECT(budget_next(&budget, 107.5) == 0.5);
    EXPECT(budget_next(&budget, 107.75) == 0.25); /* one more than was foreseen */
    EXPECT(budget_next(&budget, 200) == BUDGET_LEAST); /* late, and made all the same */
    budget = budget_make(0, 1, 100);
    EXPECT(budget_next(&budget, 100) == BUDGET_DEFAULT);
    budget = budget_make(INFINITY, 2, 100);
    EXPECT(budget_next(&budget, 100) == 0 && budget_next(&budget, 1e9) == 0);
}

/* Lives of one round that have no simple placement, on three streams. */
static void fill_tangle(struct timetable_record *records, uint32_t count, uint64_t seed)
{
    uint32_t live[16], live_count = 0, at = 0;

    for (uint32_t e = 0; e < count; e++) {
        if (live_count == 16) {
            uint32_t k = (uint32_t)(t_random(&seed) % live_count);
            records[at++] = (struct timetable_record){0, NULL, live[k], ACRE_TRACE_FREE};
            live[k] = live[--live_count];
        }
        size_t bytes = 512 * (1 + t_random(&seed) % 50);
        records[at++] = (struct timetable_record){bytes, other + e % 3, e, ACRE_TRACE_ALLOC};
        live[live_count++] = e;
    }
    while (live_count)
        records[at++] = (struct timetable_record){0, NULL, live[--live_count], ACRE_TRACE_FREE};
}

TEST(a_fixed_amount_of_work_is_repeatable)
{
    enum { COUNT = 120 };
    const acre_planner_config config = {.struct_size = sizeof config, .seconds = INFINITY};
    struct timetable_record records[2 * COUNT];
    struct timetable *first, *second;
    uint32_t turn;

    fill_tangle(records, COUNT, 7);
    REQUIRE_OK(timetable_create(records, 2 * COUNT, &config, &first, &turn));
    REQUIRE_OK(timetable_create(records, 2 * COUNT, &config, &second, &turn));
    EXPECT_EQ(first->arena_bytes, second->arena_bytes);
    for (uint32_t e = 0; e < COUNT; e++)
        EXPECT_EQ(first->entries[e].offset, second->entries[e].offset);
    timetable_destroy(first);
    timetable_destroy(second);
}

T_MAIN()
