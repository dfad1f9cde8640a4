/* SPDX-License-Identifier: MIT */
/* Stitched ranges alone: pages in slots, changes, failures, peers. */
#include "cache/acre/range.h"

#include "backend/backend.h"
#include "base/bits.h"
#include "base/heap.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#define PAGE (2 * MIB)

static struct fake *fake;
static struct expand *page_space;
static struct range *range;
static struct list ranges;
static uint64_t heap_before;

static void open_range(size_t capacity)
{
    static const struct expand_peers nobody;

    heap_before = heap_live_count();
    fake = fake_create(&(struct fake_config){.bytes = 64 * MIB, .devices = 2,
                                             .page_bytes = PAGE});
    REQUIRE_OK(expand_create(fake_device(fake, 0), PAGE, ACRE_HANDLE_NONE, &nobody, &page_space));
    REQUIRE_OK(expand_map(page_space, 0, 8 * PAGE));
    REQUIRE_OK(range_create(page_space, capacity, &range));
    list_init(&ranges);
    list_push_back(&ranges, &range->link);
}

static void close_range(void)
{
    size_t gone;

    REQUIRE_OK(range_destroy(range));
    REQUIRE_OK(expand_unmap(page_space, 0, 8 * PAGE, &gone));
    REQUIRE_OK(expand_destroy(page_space));
    EXPECT_EQ(fake_alloc_count(fake), 0);
    EXPECT_EQ(fake_bytes(fake), 0);
    fake_destroy(fake);
    EXPECT_EQ(heap_live_count(), heap_before);
}

TEST(slots_get_pages_change_and_grow)
{
    size_t a[] = {6, 1, 3}, b[] = {6, 2, 4, 0};

    open_range(5);
    EXPECT_EQ(range_cost(range, a, 3), 3);
    REQUIRE_OK(range_set(range, a, 3));
    EXPECT(fake_reaches(fake, 0, range->base, 3 * PAGE));
    EXPECT_EQ(fake_mapping_count(fake), 8 + 3);
    EXPECT_EQ(fake_bytes(fake), 8 * PAGE); /* no memory of its own */
    EXPECT_EQ(range_cost(range, a, 3), 0);
    EXPECT_EQ(range_cost(range, b, 4), 1 + 3); /* one unmap, three maps */
    uint64_t maps = fake_calls(fake, FAKE_MAP), unmaps = fake_calls(fake, FAKE_UNMAP);
    REQUIRE_OK(range_set(range, b, 4));
    EXPECT_EQ(fake_calls(fake, FAKE_MAP), maps + 3);
    EXPECT_EQ(fake_calls(fake, FAKE_UNMAP), unmaps + 1);
    EXPECT_EQ(range->count, 4);
    for (size_t i = 0; i < 4; i++)
        EXPECT_EQ(range->pages[i], b[i]);
    REQUIRE_OK(range_set(range, a, 2)); /* the rest stays */
    EXPECT_EQ(range->pages[1], 1);
    EXPECT_EQ(range->pages[2], 4);
    EXPECT_EQ(range->count, 4);
    close_range();
}

TEST(a_failing_call_leaves_what_was_there)
{
    size_t a[] = {6, 1, 3}, b[] = {5, 2, 3, 0, 7};

    open_range(5);
    REQUIRE_OK(range_set(range, a, 3));
    for (uint64_t nth = 1;; nth++) {
        fake_fail(fake, FAKE_ANY, nth, ACRE_ERR_DEVICE);
        acre_status status = range_set(range, b, 5);
        if (!fake_disarm(fake)) {
            REQUIRE_OK(status);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_DEVICE);
        EXPECT_EQ(range->count, 3);
        for (size_t i = 0; i < 3; i++)
            EXPECT_EQ(range->pages[i], a[i]);
        EXPECT(fake_reaches(fake, 0, range->base, 3 * PAGE));
        EXPECT_EQ(fake_mapping_count(fake), 8 + 3);
    }
    for (size_t i = 0; i < 5; i++)
        EXPECT_EQ(range->pages[i], b[i]);
    close_range();
}

TEST(peers_reach_all_slots_now_and_later)
{
    size_t a[] = {6, 1}, b[] = {6, 2, 4};

    open_range(4);
    REQUIRE_OK(range_set(range, a, 2));
    EXPECT(!fake_reaches(fake, 1, range->base, PAGE));
    REQUIRE_OK(expand_admit(page_space, 1));
    REQUIRE_OK(range_admit(range, 1));
    EXPECT(fake_reaches(fake, 1, range->base, 2 * PAGE));
    REQUIRE_OK(range_set(range, b, 3));
    EXPECT(fake_reaches(fake, 1, range->base, 3 * PAGE));
    range_expel(range, 1);
    EXPECT(!fake_reaches(fake, 1, range->base, PAGE));
    close_range();
}

T_MAIN()
