/* SPDX-License-Identifier: MIT */
/* Choosing pages by what is free at their edges. */
#include "cache/acre/page_gaps.h"

#include "base/bits.h"
#include "tests/support/t.h"

#define PAGE (2 * MIB)

/* Pages given by prefix and suffix. */
static struct edge table[8];
static struct page_gaps page_gaps = {.pages = table, .page_bytes = PAGE};

static void set(size_t page, size_t prefix, size_t suffix)
{
    table[page] = (struct edge){.prefix = prefix, .suffix = suffix};
    page_gaps.full_count += prefix == PAGE;
    if (page >= page_gaps.count)
        page_gaps.count = page + 1;
}

static void clear(void)
{
    page_gaps.count = page_gaps.full_count = 0;
}

TEST(whole_pages_when_there_are_plenty)
{
    clear();
    for (size_t i = 0; i < 7; i++)
        set(i, PAGE, PAGE);
    set(7, MIB, 0);
    struct page_choice choice = page_gaps_choose(&page_gaps, 5 * MIB, 4);
    EXPECT_EQ(choice.whole, 3);
    EXPECT_EQ(choice.first, PAGE_GAPS_NONE);
    EXPECT_EQ(choice.last, PAGE_GAPS_NONE);
}

TEST(page_gaps_that_fit_best_when_pages_are_scarce)
{
    clear();
    set(0, PAGE, PAGE);
    set(1, PAGE, PAGE);
    set(2, 0, MIB + 512);
    set(3, 0, MIB);      /* fits exactly */
    set(4, MIB / 2, 0);
    struct page_choice choice = page_gaps_choose(&page_gaps, 5 * MIB, 4);
    EXPECT_EQ(choice.whole, 2);
    EXPECT_EQ(choice.first, 3);
    EXPECT_EQ(choice.last, PAGE_GAPS_NONE);
}

TEST(two_edges_of_one_page_are_not_used_together)
{
    clear();
    set(0, PAGE, PAGE);
    set(1, MIB, MIB - 512);
    struct page_choice choice = page_gaps_choose(&page_gaps, 2 * PAGE - 512, 0);
    EXPECT_EQ(choice.whole, 2); /* one more than there is */
    set(2, MIB, 0);
    choice = page_gaps_choose(&page_gaps, 2 * PAGE - 512, 0);
    EXPECT_EQ(choice.whole, 1);
    EXPECT_EQ(choice.first, 1);
    EXPECT_EQ(choice.last, 2);
}

T_MAIN()
