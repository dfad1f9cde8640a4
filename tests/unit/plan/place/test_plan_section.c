/* SPDX-License-Identifier: MIT */
/* The parts of placing, each alone: sections, orders, skyline, greedy, search. */
#include "base/heap.h"
#include "plan/place/greedy.h"
#include "plan/place/order.h"
#include "plan/search/search.h"
#include "plan/place/section.h"
#include "plan/place/skyline.h"
#include "tests/support/t.h"

#include <math.h>

/* The example of MiniMalloc; its lowest height is 12. */
static const acre_plan_buffer example[5] = {{.start = 0, .end = 3, .size = 4},
                                            {.start = 3, .end = 9, .size = 4},
                                            {.start = 0, .end = 9, .size = 4},
                                            {.start = 9, .end = 21, .size = 4},
                                            {.start = 0, .end = 21, .size = 4}};

static struct sections *cut_example(void)
{
    struct sections *sections = NULL;

    REQUIRE_OK(sections_create(example, 5, &sections));
    return sections;
}

static void expect_valid(const int64_t *offsets, uint64_t capacity)
{
    uint64_t plain[5];

    for (int i = 0; i < 5; i++)
        plain[i] = (uint64_t)offsets[i];
    REQUIRE_OK(acre_plan_verify(example, 5, plain, capacity));
}

TEST(sections_begin_where_a_start_follows_an_end)
{
    struct sections *sections = cut_example();

    EXPECT_EQ(sections->section_count, 3);
    EXPECT_EQ(sections->lower_bound, 12);
    EXPECT_EQ(sections->bound_time, 0);
    EXPECT_EQ(sections->load[1], 12);
    EXPECT_EQ(sections->load[2], 8);
    EXPECT_EQ(sections_first(sections, 1), 1);
    EXPECT_EQ(sections_last(sections, 1), 2);
    EXPECT_EQ(sections_last(sections, 4), 3);
    sections_destroy(sections);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(orders_hold_every_buffer_once)
{
    struct sections *sections = cut_example();
    struct order_facts facts = {0};
    struct order_work work = {0};

    REQUIRE_OK(order_facts_init(&facts, sections));
    REQUIRE_OK(order_work_init(&work, sections));
    for (uint32_t turn = 0; turn < 20; turn++) {
        unsigned seen = 0;
        order_make(&facts, &work, 1, turn);
        for (int n = 0; n < 5; n++)
            seen |= 1u << work.order[n];
        EXPECT_EQ(seen, 31);
        if (turn == 0)
            EXPECT_EQ(work.order[0], 4); /* the longest life first */
    }
    order_work_fini(&work);
    order_facts_fini(&facts);
    sections_destroy(sections);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(skyline_and_greedy_place_in_any_order)
{
    static const uint32_t orders[3][5] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}};
    struct sections *sections = cut_example();
    struct skyline *skyline = NULL;
    int64_t offsets[5], height;

    REQUIRE_OK(skyline_create(sections, &skyline));
    for (int n = 0; n < 3; n++) {
        height = skyline_place(skyline, orders[n], INFINITY, offsets);
        EXPECT_GE(height, 12);
        expect_valid(offsets, (uint64_t)height);
        REQUIRE_OK(greedy_place(sections, orders[n], offsets, &height));
        EXPECT_GE(height, 12);
        expect_valid(offsets, (uint64_t)height);
    }
    EXPECT_EQ(skyline_place(skyline, orders[1], INFINITY, offsets), 12);
    skyline_destroy(skyline);
    sections_destroy(sections);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(search_finds_excludes_and_stops)
{
    struct sections *sections = cut_example();
    struct search *search = NULL;
    _Atomic uint64_t limit = 100000;
    int64_t offsets[5];
    uint64_t nodes = 0;

    REQUIRE_OK(search_create(sections, &search));
    struct search_task wide = {0, 12, 1, &limit}, narrow = {0, 11, 1, &limit};
    EXPECT_EQ(search_run(search, &wide, offsets, &nodes), SEARCH_FOUND);
    expect_valid(offsets, 12);
    EXPECT_GE(nodes, 5);
    EXPECT_EQ(search_run(search, &narrow, offsets, &nodes), SEARCH_NONE);
    limit = 1;
    EXPECT_EQ(search_run(search, &wide, offsets, &nodes), SEARCH_LIMIT);
    search_destroy(search);
    sections_destroy(sections);
    EXPECT_EQ(heap_live_count(), 0);
}

T_MAIN()
