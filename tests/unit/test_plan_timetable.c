/* SPDX-License-Identifier: MIT */
/* Rounds made into tables. */
#include "plan/timetable.h"

#include "tests/support/t.h"

static const acre_planner_config defaults = {.struct_size = sizeof defaults};
static char other[1], arena[1 << 20];

TEST(a_round_is_turned_to_where_little_lives)
{
    const struct record records[] = {
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
    const struct record records[] = {
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
    struct record records[400];
    struct timetable *table;
    uint32_t turn;

    for (uint32_t i = 0; i < 200; i++) {
        records[2 * i] = (struct record){4096, i % 2 ? other : NULL, i, ACRE_TRACE_ALLOC};
        records[2 * i + 1] = (struct record){0, NULL, i, ACRE_TRACE_FREE};
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

T_MAIN()
