/* SPDX-License-Identifier: MIT */
/* The board of a search: floors, sections that fail, and taking back. */
#include "plan/search/board.h"

#include "base/heap.h"
#include "tests/support/t.h"

static const acre_plan_buffer three[] = {
    {.start = 0, .end = 4, .size = 10},
    {.start = 2, .end = 6, .size = 20},
    {.start = 5, .end = 8, .size = 30},
};

TEST(placing_raises_floors_and_fails_without_room)
{
    struct sections *sections;
    struct board *board;
    uint32_t whose = 9;

    REQUIRE_OK(sections_create(three, 3, &sections));
    REQUIRE_OK(board_create(sections, &board));
    for (uint32_t s = 0; s < board->section_count; s++)
        board->weight[s] = 1;
    EXPECT(!board_reset(board, 29)); /* the largest does not fit */
    EXPECT(board_reset(board, 50));
    struct board_mark start = board_now(board);
    EXPECT_EQ(board->left, 3);
    EXPECT_EQ(board_lowest_top(board, 1), 10);
    EXPECT_EQ(board_lowest(board, 1, 10), 0);
    EXPECT(board_place(board, 1)); /* 20 and 30 fill what there is */
    EXPECT_EQ(board->floor[0], 20);
    EXPECT_EQ(board->floor[2], 20);
    EXPECT(board_place(board, 2));
    EXPECT(board_place(board, 0));
    EXPECT_EQ(board->left, 0);
    EXPECT_EQ(board->offset[2], 20);
    EXPECT_EQ(board_lowest_top(board, 1), FLOOR_PLACED);
    board_undo(board, start);
    EXPECT(board_place(board, 0));
    conflict_clear(&board->conflict);
    EXPECT(!board_skip(board, 1, 31)); /* 31 + 20 is too much */
    EXPECT(conflict_take_last(&board->conflict, &whose)); /* as 0 was placed */
    EXPECT_EQ(whose, 0);
    EXPECT(!conflict_take_last(&board->conflict, &whose));
    board_destroy(board);
    sections_destroy(sections);
}

/* Whatever is placed and skipped, taking everything back gives the same board. */
TEST(undo_restores_everything)
{
    uint64_t random = t_seed();
    acre_plan_buffer buffers[40];
    struct sections *sections;
    struct board *board;

    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 40; i++) {
            buffers[i] = (acre_plan_buffer){.start = t_random(&random) % 30,
                                            .size = 1 + t_random(&random) % 50};
            buffers[i].end = buffers[i].start + 1 + t_random(&random) % 10;
        }
        REQUIRE_OK(sections_create(buffers, 40, &sections));
        REQUIRE_OK(board_create(sections, &board));
        board_reset(board, sections->lower_bound + 20);
        struct board_mark start = board_now(board);
        for (int step = 0; step < 30; step++) {
            uint32_t buffer = (uint32_t)(t_random(&random) % 40);
            if (board->floor[buffer] == FLOOR_PLACED)
                continue;
            int64_t lowest = board_lowest_top(board, buffer);
            conflict_clear(&board->conflict);
            bool is_good = t_random(&random) % 3 && lowest < FLOOR_PLACED
                               ? board_place(board, buffer)
                               : lowest == FLOOR_PLACED || board_skip(board, buffer, lowest);
            if (!is_good)
                break;
        }
        board_undo(board, start);
        EXPECT_EQ(board->depth, 0);
        EXPECT_EQ(board->left, 40);
        for (uint32_t i = 0; i < 40; i++) {
            EXPECT_EQ(board->floor[i], 0);
            EXPECT_EQ(board->skipped[i], 0);
            EXPECT_EQ(board->conflict.cause[i], CAUSE_NONE);
        }
        for (uint32_t s = 0; s < board->section_count; s++) {
            EXPECT_EQ(board->room[s], sections->lower_bound + 20 - sections->load[s]);
            EXPECT_EQ(board->unplaced[s], board->member_start[s + 1] - board->member_start[s]);
        }
        board_destroy(board);
        sections_destroy(sections);
    }
}

T_MAIN()
