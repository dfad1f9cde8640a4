/* SPDX-License-Identifier: MIT */
/* The ring, and that a change of capacity keeps order and bounds at every
 * position it can have wrapped to. */
#include "base/ring.h"

#include "base/heap.h"
#include "tests/support/t.h"

static int dropped[100], dropped_count;

static void note_drop(void *arg, void *item)
{
    EXPECT_PTR_EQ(arg, dropped);
    dropped[dropped_count++] = *(int *)item;
}

static void expect_numbers(const struct ring *ring, int first, int last)
{
    EXPECT_EQ(ring->count, last - first + 1);
    for (int i = 0; first + i <= last; i++)
        EXPECT_EQ(*(int *)ring_at(ring, (size_t)i), first + i);
}

TEST(reads_oldest_first_and_drops_the_oldest)
{
    struct ring ring;

    dropped_count = 0;
    REQUIRE_OK(ring_init(&ring, sizeof(int), 4, note_drop, dropped));
    for (int i = 0; i < 4; i++)
        EXPECT(!ring_append(&ring, &i));
    expect_numbers(&ring, 0, 3);
    for (int i = 4; i < 11; i++) {
        EXPECT(ring_append(&ring, &i));
        expect_numbers(&ring, i - 3, i);
    }
    EXPECT_EQ(dropped_count, 7);
    EXPECT_EQ(dropped[6], 6);
    ring_clear(&ring);
    EXPECT_EQ(ring.count, 0);
    EXPECT_EQ(dropped_count, 11);
    ring_fini(&ring);
}

TEST(a_capacity_of_zero_counts_as_one)
{
    struct ring ring;
    int a = 1, b = 2;

    REQUIRE_OK(ring_init(&ring, sizeof(int), 0, NULL, NULL));
    EXPECT(!ring_append(&ring, &a));
    EXPECT(ring_append(&ring, &b));
    expect_numbers(&ring, 2, 2);
    REQUIRE_OK(ring_resize(&ring, 0));
    expect_numbers(&ring, 2, 2);
    ring_fini(&ring);
}

TEST(W3_resizing_keeps_the_newest_in_order)
{
    for (int capacity = 1; capacity <= 6; capacity++)
        for (int appended = 0; appended <= 14; appended++)
            for (int to = 1; to <= 9; to++) {
                struct ring ring;
                int kept = appended < capacity ? appended : capacity;

                dropped_count = 0;
                REQUIRE_OK(ring_init(&ring, sizeof(int), (size_t)capacity, note_drop, dropped));
                for (int i = 0; i < appended; i++)
                    ring_append(&ring, &i);
                REQUIRE_OK(ring_resize(&ring, (size_t)to));
                kept = kept < to ? kept : to;
                expect_numbers(&ring, appended - kept, appended - 1);
                for (int i = appended; i < appended + 12; i++)
                    ring_append(&ring, &i);
                expect_numbers(&ring, appended + 12 - (kept + 12 < to ? kept + 12 : to),
                               appended + 11);
                ring_fini(&ring);
                EXPECT_EQ(dropped_count, appended + 12);
                for (int i = 0; i < dropped_count; i++)
                    EXPECT_EQ(dropped[i], i);
            }
}

TEST(failed_memory_leaves_the_ring_alone)
{
    uint64_t live = heap_live_count();
    struct ring ring;

    heap_fail_nth(1);
    EXPECT_EQ(ring_init(&ring, 8, 10, NULL, NULL), ACRE_ERR_HOST_MEMORY);
    EXPECT_EQ(heap_fail_disarm(), 1);
    REQUIRE_OK(ring_init(&ring, sizeof(int), 3, NULL, NULL));
    for (int i = 0; i < 5; i++)
        ring_append(&ring, &i);
    heap_fail_nth(1);
    EXPECT_EQ(ring_resize(&ring, 2), ACRE_ERR_HOST_MEMORY);
    EXPECT_EQ(heap_fail_disarm(), 1);
    expect_numbers(&ring, 2, 4);
    EXPECT_EQ(ring_resize(&ring, SIZE_MAX / 2), ACRE_ERR_HOST_MEMORY);
    expect_numbers(&ring, 2, 4);
    ring_fini(&ring);
    EXPECT_EQ(heap_live_count(), live);
}

TEST(a_zeroed_ring_can_be_finished)
{
    struct ring ring = {0};

    ring_fini(&ring);
    EXPECT_EQ(ring.count, 0);
}

T_MAIN()
