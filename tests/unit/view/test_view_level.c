/* SPDX-License-Identifier: MIT */
#include "view/level.h"

#include "base/heap.h"
#include "tests/support/t.h"

#define STACKS 40

static struct view_history history;
static struct totals totals;
static uint32_t *order;

static bool is_there(const struct span *span, uint32_t moment)
{
    return span->begin <= moment && moment < span->end;
}

/* Random allocations of many sizes, few of them large. */
static void begin(uint32_t event_count)
{
    enum { PLACES = 256 };
    bool live[PLACES] = {false};
    uint64_t seed = t_seed();

    history_init(&history);
    for (uint32_t i = 0; i < event_count; i++) {
        unsigned place = (unsigned)(t_random(&seed) % PLACES);
        acre_view_event event = {.action = live[place] ? ACRE_VIEW_FREE_COMPLETED : ACRE_VIEW_ALLOC,
                                 .address = (uint64_t)place << 30,
                                 .stack = 1 + place % (STACKS - 1),
                                 .bytes = (uint64_t)512 << t_random(&seed) % 16};
        REQUIRE_EQ(history_event(&history, &event, 0, 0), ACRE_OK);
        live[place] = !live[place];
        if (i % 1000 == 0) {
            event = (acre_view_event){.action = ACRE_VIEW_SEGMENT_ALLOC, .bytes = 1 << 20,
                                      .address = (uint64_t)i << 40};
            REQUIRE_EQ(history_event(&history, &event, 0, 0), ACRE_OK);
        }
    }
    REQUIRE_EQ(totals_init(&totals, &history, STACKS), ACRE_OK);
    REQUIRE_EQ(spans_order(&history.blocks, &order), ACRE_OK);
}

static void end(void)
{
    heap_free(order);
    totals_fini(&totals);
    history_fini(&history);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(shifts_leave_enough_columns_and_not_too_many)
{
    EXPECT_EQ(level_first(1), 0);
    EXPECT_EQ(level_first(LEVEL_COLUMNS), 0);
    EXPECT_EQ(level_first(LEVEL_COLUMNS + 1), 1);
    EXPECT_EQ(level_first(1000000), 8);
    EXPECT_EQ(level_next(1000000, 8), 6);
    EXPECT_EQ(level_next(1000000, 6), 4);
    EXPECT_EQ(level_next(1000000, 4), 0);
    EXPECT_EQ(level_next(LEVEL_COLUMNS + 1, 1), 0);
    EXPECT_EQ(level_first(UINT32_MAX), 20);
}

TEST(totals_are_sums_over_what_is_there)
{
    begin(9000);
    for (uint32_t moment = 0; moment < totals.moments; moment += 97) {
        uint64_t sum = 0;
        for (size_t i = 0; i < history.blocks.count; i++)
            if (is_there(&history.blocks.items[i], moment))
                sum += history.blocks.items[i].block_bytes;
        EXPECT(sum == totals.allocated[moment]);
        EXPECT(sum <= totals.allocated[totals.peak]);
    }
    EXPECT_EQ(totals.reserved_peak, totals.reserved[totals.moments - 1]);
    EXPECT_EQ(totals.reserved_peak, 9 << 20);
    EXPECT_EQ(totals.group_count, LEVEL_GROUPS - 1);
    end();
}

/* Every column shows the most of its moments, and kept and summed blocks are
 * together exactly what is there at that moment. */
TEST(a_level_shows_peaks_and_loses_nothing)
{
    struct level level;
    static uint64_t sums[LEVEL_GROUPS][LEVEL_COLUMNS_MAX];

    begin(9000);
    REQUIRE_EQ(level_init(&level, &history, &totals, order, 3), ACRE_OK);
    for (unsigned group = 0; group < LEVEL_GROUPS; group++)
        level_sum(&level, &history, &totals, group, sums[group]);
    for (uint32_t column = 0; column < level.columns; column++) {
        uint32_t shown = level.shown[column];
        uint64_t sum = 0, most = 0;
        REQUIRE_EQ(shown >> 3, column);
        for (uint32_t i = column << 3; i < (column + 1) << 3 && i < totals.moments; i++)
            most = totals.allocated[i] > most ? totals.allocated[i] : most;
        EXPECT(totals.allocated[shown] == most);
        for (size_t i = 0; i < level.kept_count; i++) {
            const struct span *block = &history.blocks.items[order[level.kept[i]]];
            EXPECT(block->block_bytes >= totals.threshold);
            if (is_there(block, shown))
                sum += block->block_bytes;
        }
        for (unsigned group = 0; group < LEVEL_GROUPS; group++)
            sum += sums[group][column];
        REQUIRE(sum == most);
    }
    EXPECT_LT(level.kept_count, history.blocks.count);
    level_fini(&level);
    end();
}

TEST(blocks_that_no_column_shows_are_left_out)
{
    struct level level;
    acre_view_event event = {.bytes = 1 << 20};

    history_init(&history);
    for (int i = 0; i < 64; i++) { /* of each eight, the second moment has most */
        event.action = i % 2 ? ACRE_VIEW_FREE_COMPLETED : ACRE_VIEW_ALLOC;
        event.bytes = i % 8 == 0 ? 2 << 20 : 1 << 20;
        REQUIRE_EQ(history_event(&history, &event, 0, 0), ACRE_OK);
    }
    REQUIRE_EQ(totals_init(&totals, &history, 1), ACRE_OK);
    REQUIRE_EQ(spans_order(&history.blocks, &order), ACRE_OK);
    REQUIRE_EQ(level_init(&level, &history, &totals, order, 3), ACRE_OK);
    EXPECT_EQ(history.blocks.count, 32);
    EXPECT_EQ(level.kept_count, 8);
    level_fini(&level);
    end();
}

TEST(a_state_without_events_has_one_moment)
{
    struct span block = {.address = 4096, .bytes = 100, .block_bytes = 512};

    history_init(&history);
    REQUIRE_EQ(history_last_block(&history, &block), ACRE_OK);
    REQUIRE_EQ(totals_init(&totals, &history, 1), ACRE_OK);
    EXPECT_EQ(totals.moments, 1);
    EXPECT_EQ(totals.allocated[0], 512);
    REQUIRE_EQ(spans_order(&history.blocks, &order), ACRE_OK);
    end();
}

T_MAIN()
