/* SPDX-License-Identifier: MIT */
#include "view/intern.h"

#include "base/heap.h"
#include "tests/support/t.h"

TEST(equal_bytes_give_one_number)
{
    struct intern intern = {0};
    uint32_t first, second, again, empty;

    EXPECT_EQ(intern_put(&intern, "one", 3, &first), ACRE_OK);
    EXPECT_EQ(intern_put(&intern, "one\0", 4, &second), ACRE_OK);
    EXPECT_EQ(intern_put(&intern, "", 0, &empty), ACRE_OK);
    EXPECT_EQ(intern_put(&intern, "one", 3, &again), ACRE_OK);
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 1);
    EXPECT_EQ(empty, 2);
    EXPECT_EQ(again, first);
    EXPECT_EQ(intern.count, 3);
    intern_fini(&intern);
}

TEST(many_strings_are_found_again)
{
    struct intern intern = {0};
    uint32_t number;
    size_t length;

    for (uint32_t i = 0; i < 5000; i++) {
        REQUIRE_EQ(intern_put(&intern, &i, sizeof i, &number), ACRE_OK);
        REQUIRE_EQ(number, i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        REQUIRE_EQ(intern_put(&intern, &i, sizeof i, &number), ACRE_OK);
        REQUIRE_EQ(number, i);
        EXPECT_EQ(memcmp(intern_get(&intern, i, &length), &i, sizeof i), 0);
        EXPECT_EQ(length, sizeof i);
    }
    intern_fini(&intern);
}

TEST(lost_memory_changes_nothing)
{
    for (unsigned nth = 1; nth <= 3; nth++) {
        struct intern intern = {0};
        uint32_t number;
        heap_fail_nth(nth);
        EXPECT_EQ(intern_put(&intern, "x", 1, &number), ACRE_ERR_HOST_MEMORY);
        EXPECT(heap_fail_disarm());
        EXPECT_EQ(intern.count, 0);
        EXPECT_EQ(intern_put(&intern, "x", 1, &number), ACRE_OK);
        intern_fini(&intern);
    }
}

T_MAIN()
