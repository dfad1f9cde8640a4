/* SPDX-License-Identifier: MIT */
/* Which entries hand bytes on to another stream. */
#include "plan/follow/guard.h"

#include "tests/support/t.h"

static char red[1], blue[1];

TEST(those_before_another_stream_are_guarded)
{
    struct timetable_entry entries[] = {
        {.stream = red, .size = 100, .offset = 0},
        {.stream = red, .size = 50, .offset = 0},    /* covers half of the first */
        {.stream = blue, .size = 100, .offset = 25}, /* on both                  */
        {.stream = red, .size = 10, .offset = 200},  /* alone                    */
    };
    uint32_t guarded;

    REQUIRE_OK(guard_entries(entries, 4, &guarded));
    EXPECT_EQ(guarded, 3);
    EXPECT(entries[0].is_guarded && entries[1].is_guarded);
    EXPECT(entries[2].is_guarded); /* the first follows on it in the next round */
    EXPECT(!entries[3].is_guarded);
}

TEST(what_lies_below_one_of_its_own_stream_is_not)
{
    struct timetable_entry entries[] = {
        {.stream = red, .size = 50, .offset = 10},
        {.stream = red, .size = 100, .offset = 0},
        {.stream = blue, .size = 100, .offset = 0},
        {.stream = blue, .size = 512, .offset = OFFSET_CACHE},
        {.stream = blue, .size = 100, .offset = 0},
    };
    uint32_t guarded;

    REQUIRE_OK(guard_entries(entries, 5, &guarded));
    EXPECT(!entries[0].is_guarded);
    EXPECT(entries[1].is_guarded);
    EXPECT(!entries[2].is_guarded);
    EXPECT(!entries[3].is_guarded);
    EXPECT(entries[4].is_guarded);
    EXPECT_EQ(guarded, 2);
}

T_MAIN()
