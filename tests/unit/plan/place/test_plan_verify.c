/* SPDX-License-Identifier: MIT */
/* The check of placements finds what is wrong. */
#include "tests/support/t.h"

#include <acre/plan.h>

TEST(a_wrong_placement_is_found)
{
    acre_plan_buffer buffers[2] = {{.start = 0, .end = 2, .size = 10, .alignment = 4},
                                   {.start = 1, .end = 3, .size = 10}};
    uint64_t offsets[2] = {0, 9};

    EXPECT_EQ(acre_plan_verify(buffers, 2, offsets, 0), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "overlap at 1");
    offsets[1] = 10;
    REQUIRE_OK(acre_plan_verify(buffers, 2, offsets, 20));
    EXPECT_EQ(acre_plan_verify(buffers, 2, offsets, 19), ACRE_ERR_INVALID);
    offsets[0] = 22;
    EXPECT_EQ(acre_plan_verify(buffers, 2, offsets, 0), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "aligned");
}

TEST(what_never_lives_may_lie_anywhere)
{
    acre_plan_buffer buffers[2] = {{.start = 0, .end = 2, .size = 10},
                                   {.start = 1, .end = 1, .size = 10}};
    uint64_t offsets[2] = {0, 5};

    REQUIRE_OK(acre_plan_verify(buffers, 2, offsets, 10));
    buffers[1].end = 2;
    EXPECT_EQ(acre_plan_verify(buffers, 2, offsets, 0), ACRE_ERR_INVALID);
}

TEST(a_gap_lets_another_in)
{
    acre_plan_gap gap = {2, 4};
    acre_plan_buffer buffers[2] = {
        {.start = 0, .end = 6, .size = 10, .gaps = &gap, .gap_count = 1},
        {.start = 2, .end = 4, .size = 10}};
    uint64_t offsets[2] = {0, 0};

    REQUIRE_OK(acre_plan_verify(buffers, 2, offsets, 10));
    buffers[1].end = 5;
    EXPECT_EQ(acre_plan_verify(buffers, 2, offsets, 0), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "overlap at 4");
}

T_MAIN()
