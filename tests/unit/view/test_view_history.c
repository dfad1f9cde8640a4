/* SPDX-License-Identifier: MIT */
#include "view/history.h"

#include "base/heap.h"
#include "tests/support/t.h"

static struct view_history history;

static void begin(void)
{
    history_init(&history);
}

static void end(void)
{
    history_fini(&history);
    EXPECT_EQ(heap_live_count(), 0);
}

static void tell(uint32_t action, uint64_t address, uint64_t bytes)
{
    acre_view_event event = {.action = action, .address = address, .bytes = bytes, .stack = 7};

    REQUIRE_EQ(history_event(&history, &event, 0, 0), ACRE_OK);
}

static const struct span *block(size_t i)
{
    REQUIRE(i < history.blocks.count);
    return &history.blocks.items[i];
}

static const struct span *range(size_t i)
{
    REQUIRE(i < history.ranges.count);
    return &history.ranges.items[i];
}

TEST(a_block_lives_from_its_allocation_to_its_free)
{
    begin();
    tell(ACRE_VIEW_ALLOC, 4096, 100);
    tell(ACRE_VIEW_ALLOC, 8192, 1024);
    tell(ACRE_VIEW_FREE_REQUESTED, 4096, 100);
    tell(ACRE_VIEW_FREE_COMPLETED, 4096, 100);
    EXPECT_EQ(history.blocks.count, 2);
    EXPECT_EQ(block(0)->begin, 0);
    EXPECT_EQ(block(0)->asked, 2);
    EXPECT_EQ(block(0)->end, 3);
    EXPECT_EQ(block(0)->block_bytes, 512);
    EXPECT_EQ(block(0)->stack, 7);
    EXPECT_EQ(span_end(block(1), 4), 4);
    EXPECT_EQ(history_moments(&history), 4);
    end();
}

TEST(what_is_freed_unseen_was_there_from_the_start)
{
    uint32_t *order;

    begin();
    tell(ACRE_VIEW_ALLOC, 8192, 1024);
    tell(ACRE_VIEW_FREE_COMPLETED, 4096, 100);
    tell(ACRE_VIEW_SEGMENT_FREE, 1 << 20, 4096);
    EXPECT_EQ(block(1)->begin, 0);
    EXPECT_EQ(block(1)->end, 1);
    EXPECT_EQ(block(1)->stack, 0);
    EXPECT(block(1)->flags & SPAN_EARLY);
    EXPECT_EQ(range(0)->begin, 0);
    EXPECT_EQ(range(0)->end, 2);
    REQUIRE_EQ(spans_order(&history.blocks, &order), ACRE_OK);
    EXPECT_EQ(order[0], 1); /* the early one first */
    EXPECT_EQ(order[1], 0);
    heap_free(order);
    end();
}

TEST(an_allocation_over_a_live_block_ends_it)
{
    begin();
    tell(ACRE_VIEW_ALLOC, 4096, 100);
    tell(ACRE_VIEW_ALLOC, 4096, 200);
    tell(ACRE_VIEW_FREE_COMPLETED, 4096, 200);
    EXPECT_EQ(block(0)->end, 1);
    EXPECT_EQ(block(1)->end, 2);
    EXPECT_EQ(history.blocks.count, 2);
    end();
}

TEST(requests_count_as_frees_where_completions_are_not_told)
{
    begin();
    tell(ACRE_VIEW_ALLOC, 4096, 100);
    tell(ACRE_VIEW_FREE_REQUESTED, 4096, 100);
    history_settle(&history);
    EXPECT_EQ(block(0)->end, 1);
    end();
    begin();
    tell(ACRE_VIEW_ALLOC, 4096, 100);
    tell(ACRE_VIEW_ALLOC, 8192, 100);
    tell(ACRE_VIEW_FREE_REQUESTED, 4096, 100);
    tell(ACRE_VIEW_FREE_COMPLETED, 8192, 100);
    history_settle(&history);
    EXPECT_EQ(span_end(block(0), 4), 4); /* still waits */
    end();
}

TEST(ranges_grow_and_shrink_in_parts)
{
    begin();
    tell(ACRE_VIEW_SEGMENT_ALLOC, 1000, 100); /* 0 */
    tell(ACRE_VIEW_SEGMENT_ALLOC, 1100, 100); /* 1: beside it */
    tell(ACRE_VIEW_SEGMENT_ALLOC, 1050, 300); /* 2: only what is new, [1200, 1350) */
    EXPECT_EQ(history.ranges.count, 3);
    EXPECT_EQ(range(2)->address, 1200);
    EXPECT_EQ(range(2)->bytes, 150);
    tell(ACRE_VIEW_SEGMENT_FREE, 1050, 100); /* 3: the end of one, the start of the next */
    EXPECT_EQ(range(0)->end, 3);
    EXPECT_EQ(range(1)->end, 3);
    EXPECT_EQ(history.ranges.count, 5);
    EXPECT_EQ(range(3)->address, 1000);
    EXPECT_EQ(range(3)->bytes, 50);
    EXPECT_EQ(range(3)->begin, 3);
    EXPECT_EQ(range(4)->address, 1150);
    EXPECT_EQ(range(4)->bytes, 50);
    tell(ACRE_VIEW_SEGMENT_FREE, 0, UINT64_MAX); /* 4: everything */
    for (size_t i = 0; i < history.ranges.count; i++)
        EXPECT(range(i)->end <= 4);
    end();
}

TEST(the_last_state_completes_what_events_told)
{
    struct span last_block = {.address = 4096, .bytes = 100, .block_bytes = 2048};
    struct span unknown = {.address = 65536, .bytes = 700, .block_bytes = 1024, .stack = 3};
    struct span last_range = {.address = 1000, .bytes = 300};

    begin();
    tell(ACRE_VIEW_SEGMENT_ALLOC, 1100, 100);
    tell(ACRE_VIEW_ALLOC, 4096, 100);
    REQUIRE_EQ(history_last_block(&history, &last_block), ACRE_OK);
    REQUIRE_EQ(history_last_block(&history, &unknown), ACRE_OK);
    REQUIRE_EQ(history_last_range(&history, &last_range), ACRE_OK);
    EXPECT_EQ(block(0)->block_bytes, 2048);
    EXPECT_EQ(history.blocks.count, 2);
    EXPECT_EQ(block(1)->stack, 3);
    EXPECT(block(1)->flags & SPAN_EARLY);
    EXPECT_EQ(history.ranges.count, 3); /* [1000, 1100) and [1200, 1300) are new */
    EXPECT_EQ(range(1)->address, 1000);
    EXPECT_EQ(range(1)->bytes, 100);
    EXPECT_EQ(range(2)->address, 1200);
    EXPECT_EQ(range(2)->bytes, 100);
    end();
}

TEST(hostile_addresses_do_no_harm)
{
    begin();
    tell(ACRE_VIEW_ALLOC, UINT64_MAX, UINT64_MAX);
    tell(ACRE_VIEW_ALLOC, 0, 0);
    tell(ACRE_VIEW_SEGMENT_ALLOC, UINT64_MAX - 10, UINT64_MAX);
    tell(ACRE_VIEW_SEGMENT_ALLOC, 5, 0);
    tell(ACRE_VIEW_SEGMENT_FREE, UINT64_MAX - 5, UINT64_MAX);
    tell(ACRE_VIEW_FREE_COMPLETED, UINT64_MAX, 1);
    EXPECT_EQ(block(0)->end, 5);
    EXPECT_EQ(block(1)->end, UINT32_MAX);
    end();
}

TEST(marks_and_times)
{
    acre_view_event event = {.action = ACRE_VIEW_MARK, .text = "here", .time_us = 10};

    begin();
    REQUIRE_EQ(history_event(&history, &event, 0, 0), ACRE_OK);
    event = (acre_view_event){.action = ACRE_VIEW_OOM, .bytes = 99, .address = 5, .time_us = 8};
    REQUIRE_EQ(history_event(&history, &event, 0, 0), ACRE_OK);
    EXPECT_EQ(history.mark_count, 2);
    EXPECT_STR_EQ(history.marks[0].text, "here");
    EXPECT_EQ(history.marks[1].moment, 1);
    EXPECT_EQ(history.marks[1].free_bytes, 5);
    EXPECT_EQ(history.times[1], 10); /* time never falls */
    event.action = 99;
    EXPECT_EQ(history_event(&history, &event, 0, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(history.event_count, 2);
    end();
}

/* Random events; the sum of spans at every moment is compared with a plain array. */
TEST(spans_agree_with_a_simple_count)
{
    enum { PLACES = 64, EVENTS = 2000 };
    uint64_t seed = t_seed();
    bool live[PLACES] = {false};
    static uint64_t expected[EVENTS];
    uint64_t bytes = 0;

    begin();
    for (int i = 0; i < EVENTS; i++) {
        unsigned place = (unsigned)(t_random(&seed) % PLACES);
        tell(live[place] ? ACRE_VIEW_FREE_COMPLETED : ACRE_VIEW_ALLOC, place * 4096,
             512 * (place + 1));
        bytes += live[place] ? 0 - (uint64_t)512 * (place + 1) : (uint64_t)512 * (place + 1);
        live[place] = !live[place];
        expected[i] = bytes;
    }
    for (uint32_t moment = 0; moment < EVENTS; moment++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < history.blocks.count; i++)
            if (block(i)->begin <= moment && moment < block(i)->end)
                sum += block(i)->block_bytes;
        REQUIRE_EQ(sum, expected[moment]);
    }
    end();
}

T_MAIN()
