/* SPDX-License-Identifier: MIT */
/* A memo gives what was put into it, whether its pages keep values or only steps. */
#include "format/snapshot/memo.h"

#include "base/heap.h"
#include "tests/support/dice.h"
#include "tests/support/t.h"

#define PAGES 12
#define COUNT (PAGES * MEMO_PAGE + 7)

static uint64_t expected[COUNT];

static void expect_all(const struct memo *memo)
{
    EXPECT_EQ(memo->count, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        EXPECT_EQ(memo_get(memo, i), expected[i]);
}

static size_t pages_with_values(const struct memo *memo)
{
    size_t count = 0;

    for (size_t i = 0; i < memo->page_count; i++)
        count += memo->pages[i].values != NULL;
    return count;
}

/* Numbers that go up by step, and between them, unless it is 0, always another. */
static void fill(struct memo *memo, uint64_t step, uint64_t other)
{
    for (size_t i = 0; i < COUNT; i++) {
        expected[i] = other && i % 2 ? other : UINT64_MAX - 9 + i * step;
        REQUIRE_OK(memo_push(memo, expected[i]));
    }
}

TEST(pages_of_even_steps_keep_no_values)
{
    static const struct {
        uint64_t step, other;
    } shapes[] = {{8, 0}, {0, 0}, {8, 5}, {(uint64_t)1 << 40, 0}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct memo memo = {0};
        fill(&memo, shapes[i].step, shapes[i].other);
        expect_all(&memo);
        EXPECT_EQ(pages_with_values(&memo), 1);
        memo_fini(&memo);
        EXPECT_EQ(heap_live_count(), 0);
    }
}

TEST(a_value_that_differs_keeps_its_page_as_it_is)
{
    struct memo memo = {0};

    for (size_t i = 0; i < COUNT; i++) {
        expected[i] = i / MEMO_PAGE == 3 && i % MEMO_PAGE == MEMO_PAGE - 1 ? 1 : 8 * i;
        REQUIRE_OK(memo_push(&memo, expected[i]));
    }
    expect_all(&memo);
    EXPECT_EQ(pages_with_values(&memo), 2);
    memo_fini(&memo);
}

TEST(any_value_may_be_changed)
{
    struct memo memo = {0};

    dice_begin();
    fill(&memo, 8, 0);
    for (int i = 0; i < 40; i++) {
        size_t at = (size_t)below(COUNT);
        expected[at] = below(1000);
        REQUIRE_OK(memo_set(&memo, at, expected[at]));
    }
    expect_all(&memo);
    memo_fini(&memo);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(a_failed_allocation_changes_nothing)
{
    struct memo memo = {0};

    heap_fail_nth(1);
    EXPECT_EQ(memo_push(&memo, 1), ACRE_ERR_HOST_MEMORY);
    heap_fail_nth(2);
    EXPECT_EQ(memo_push(&memo, 1), ACRE_ERR_HOST_MEMORY);
    heap_fail_disarm();
    EXPECT_EQ(memo.count, 0);
    fill(&memo, 8, 0);
    heap_fail_nth(1);
    EXPECT_EQ(memo_set(&memo, 5, 1), ACRE_ERR_HOST_MEMORY);
    heap_fail_disarm();
    expect_all(&memo);
    while (memo.count % MEMO_PAGE)
        REQUIRE_OK(memo_push(&memo, memo.count * memo.count));
    heap_fail_nth(1);
    EXPECT_EQ(memo_push(&memo, 1), ACRE_ERR_HOST_MEMORY);
    heap_fail_disarm();
    EXPECT_EQ(memo.count, COUNT + MEMO_PAGE - 7);
    memo_fini(&memo);
    EXPECT_EQ(heap_live_count(), 0);
}

T_MAIN()
