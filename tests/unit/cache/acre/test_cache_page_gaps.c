/* SPDX-License-Identifier: MIT */
/* Choosing pages by what is free at their edges. */
#include "cache/acre/page_gaps.h"

#include "base/bits.h"
#include "cache/acre/arena.h"
#include "cache/segment.h"
#include "cache/torch/expand.h"
#include "tests/support/t.h"

#define PAGE (2 * MIB)

/* Pages given by prefix and suffix. */
static struct edge table[40];
static uint64_t entered;
static struct page_gaps page_gaps = {.pages = table, .entered = &entered, .page_bytes = PAGE};

static void set(size_t page, size_t prefix, size_t suffix)
{
    table[page] = (struct edge){.prefix = prefix, .suffix = suffix};
    entered |= (uint64_t)(prefix || suffix) << page;
    page_gaps.full_count += prefix == PAGE;
    if (page >= page_gaps.count)
        page_gaps.count = page + 1;
}

static void clear(void)
{
    page_gaps.count = page_gaps.full_count = entered = 0;
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

/* The choice as its words say it: every suffix with every prefix. */
static struct page_choice choose_plainly(size_t bytes)
{
    size_t whole = (bytes + PAGE - 1) / PAGE, least = whole * PAGE - bytes;
    struct page_choice best = {PAGE_GAPS_NONE, PAGE_GAPS_NONE, whole};

    for (size_t i = 0; i <= page_gaps.count; i++)
        for (size_t k = 0; k <= page_gaps.count; k++) {
            size_t suffix = i ? table[i - 1].suffix : 0, prefix = k ? table[k - 1].prefix : 0;
            size_t sum = suffix + prefix;
            size_t need = bytes > sum ? (bytes - sum + PAGE - 1) / PAGE : 0;
            size_t left = sum + need * PAGE - bytes;
            if ((i && i == k) || (i && !suffix) || (k && !prefix) || suffix == PAGE ||
                prefix == PAGE || need > best.whole || (need == best.whole && left >= least))
                continue;
            best = (struct page_choice){i ? i - 1 : PAGE_GAPS_NONE, k ? k - 1 : PAGE_GAPS_NONE,
                                        need};
            least = left;
        }
    return best;
}

TEST(random_edges_give_the_best_choice)
{
    uint64_t state = t_seed();

    for (int round = 0; round < 2000; round++) {
        clear();
        size_t count = 1 + t_random(&state) % 40;
        for (size_t i = 0; i < count; i++) {
            bool is_full = t_random(&state) % 8 == 0;
            /* Few sizes, so that sums are equal often. */
            size_t prefix = t_random(&state) % 12 * (PAGE / 16);
            size_t suffix = t_random(&state) % 4 * (PAGE / 16);
            set(i, is_full ? PAGE : prefix, is_full ? PAGE : suffix);
        }
        size_t bytes = (1 + t_random(&state) % 80) * (PAGE / 16);
        struct page_choice choice = page_gaps_choose(&page_gaps, bytes, SIZE_MAX / 2);
        struct page_choice plain = choose_plainly(bytes);
        REQUIRE_EQ(choice.whole, plain.whole);
        REQUIRE_EQ(choice.first, plain.first);
        REQUIRE_EQ(choice.last, plain.last);
    }
}

/* Requests that are refused, one after another, look at the free blocks once. */
TEST(what_has_not_changed_is_not_looked_at_again)
{
    static char base[1];
    struct expand_page pages[2] = {{.has_handle = true, .is_mapped = true}};
    struct expand page_space = {.base = base, .page_bytes = PAGE, .page_end = 2, .pages = pages};
    struct segment segment = {.expand = &page_space};
    struct block block = {.segment = &segment, .base = base, .bytes = PAGE};
    struct arena arena = {0};
    struct page_gaps gaps = {0};

    bins_init(&arena.bins);
    bins_insert(&arena.bins, &block);
    REQUIRE(page_gaps_scan(&gaps, &page_space, &arena));
    EXPECT_EQ(gaps.free_bytes, PAGE);
    EXPECT_EQ(gaps.full_count, 1);
    gaps.free_bytes = 7; /* a mark that looking again would wipe out */
    REQUIRE(page_gaps_scan(&gaps, &page_space, &arena));
    EXPECT_EQ(gaps.free_bytes, 7);
    bins_resize(&arena.bins, &block, PAGE / 2);
    REQUIRE(page_gaps_scan(&gaps, &page_space, &arena));
    EXPECT_EQ(gaps.free_bytes, PAGE / 2);
    EXPECT_EQ(gaps.full_count, 0);
    EXPECT_EQ(gaps.pages[0].prefix, PAGE / 2);
    pages[0].has_handle = false;
    page_space.change_count++;
    REQUIRE(page_gaps_scan(&gaps, &page_space, &arena));
    EXPECT_EQ(gaps.pages[0].prefix, 0);
    bins_remove(&arena.bins, &block);
    REQUIRE(page_gaps_scan(&gaps, &page_space, &arena));
    EXPECT_EQ(gaps.free_bytes, 0);
    page_gaps_fini(&gaps);
    bins_fini(&arena.bins);
}

T_MAIN()
