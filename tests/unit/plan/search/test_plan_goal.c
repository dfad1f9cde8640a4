/* SPDX-License-Identifier: MIT */
/* Which heights are searched for, and from which ranks. */
#include "plan/search/goal.h"

#include "plan/search/rank.h"
#include "tests/support/t.h"

static struct sections *make(const acre_plan_buffer *buffers, size_t count)
{
    struct sections *sections;

    REQUIRE_OK(sections_create(buffers, count, &sections));
    return sections;
}

TEST(units_divide_sizes_alignments_and_fixed_offsets)
{
    acre_plan_buffer buffers[] = {{.start = 0, .end = 4, .size = 4096},
                                  {.start = 1, .end = 3, .size = 6144, .alignment = 512},
                                  {.start = 5, .end = 5, .size = 7}}; /* never lives */
    struct goal goal;
    struct sections *sections = make(buffers, 3);

    goal_init(&goal, sections);
    EXPECT_EQ(goal.unit, 2048);
    EXPECT_EQ(goal.proved, 10240);
    sections_destroy(sections);
    buffers[1].alignment = 3072;
    buffers[0].flags = ACRE_PLAN_FIXED;
    buffers[0].offset = 2560;
    sections = make(buffers, 3);
    goal_init(&goal, sections);
    EXPECT_EQ(goal.unit, 512);
    sections_destroy(sections);
    sections = make(NULL, 0);
    goal_init(&goal, sections);
    EXPECT_EQ(goal.unit, 1);
    EXPECT(!goal_next(&goal, 0));
    sections_destroy(sections);
}

TEST(goals_go_down_in_steps_that_halve_to_one_unit)
{
    const acre_plan_buffer buffers[] = {{.start = 0, .end = 1, .size = 1000}};
    struct sections *sections = make(buffers, 1);
    struct goal goal;

    goal_init(&goal, sections);
    goal.unit = 10;
    EXPECT(goal_next(&goal, 1200)); /* the bound first */
    EXPECT_EQ(goal.height, 1000);
    EXPECT(goal.is_race);
    goal_note(&goal, SEARCH_LIMIT, 10);
    for (int64_t step = 50; step >= 10; step /= 2) { /* then 50, 20 and 10 below */
        EXPECT(goal_next(&goal, 1200));
        EXPECT_EQ(goal.height, 1200 - step / 10 * 10 + 9);
        EXPECT(!goal.is_race);
        goal_note(&goal, SEARCH_LIMIT, 10);
    }
    EXPECT(goal_next(&goal, 1200)); /* then what could exclude it */
    EXPECT_EQ(goal.height, 1199);
    EXPECT(goal.is_race);
    goal_note(&goal, SEARCH_LIMIT, 10);
    EXPECT(goal_next(&goal, 1200)); /* and large steps again */
    EXPECT_EQ(goal.work, 40);
    EXPECT_EQ(goal.raced, 10);
    EXPECT_EQ(goal.height, 1159);
    goal_note(&goal, SEARCH_FOUND, 10);
    EXPECT(goal_next(&goal, 1140)); /* as long as they are found */
    EXPECT_EQ(goal.height, 1119);
    goal_note(&goal, SEARCH_NONE, 10);
    EXPECT(!goal_next(&goal, 1120));
    sections_destroy(sections);
}

TEST(what_is_blamed_moves_forward_and_what_is_drawn_anew_is_forgotten)
{
    acre_plan_buffer buffers[20];
    struct ranks ranks = {0};

    for (uint64_t i = 0; i < 20; i++)
        buffers[i] = (acre_plan_buffer){.start = 0, .end = 10, .size = 2000 - 2 * i};
    struct sections *sections = make(buffers, 20);
    REQUIRE_OK(ranks_init(&ranks, sections));
    ranks_seed(&ranks, 1);
    ranks_draw(&ranks, 1, 1, 0);
    ranks_sort(&ranks, 0);
    for (uint32_t i = 0; i < 20; i++) {
        EXPECT_EQ(ranks.rank[i], i);
        EXPECT_EQ(ranks.by_rank[i], i);
    }
    ranks.blame[19] = 4;
    ranks.blame[7] = 2;
    ranks_learn(&ranks);
    ranks_sort(&ranks, 0);
    EXPECT_EQ(ranks.rank[19], 0);
    EXPECT_EQ(ranks.rank[7], 1);
    EXPECT_EQ(ranks.rank[0], 2);
    EXPECT_EQ(ranks.blame[19], 0);
    ranks_draw(&ranks, 1, 1, 0);
    ranks_sort(&ranks, 0);
    EXPECT_EQ(ranks.rank[19], 19);
    ranks_fini(&ranks);
    sections_destroy(sections);
}

T_MAIN()
