/* SPDX-License-Identifier: MIT */
#include "cache/observer.h"

#include "base/heap.h"
#include "tests/support/t.h"

static void first(void)
{
}

static void second(void)
{
}

TEST(added_and_removed)
{
    uint64_t before = heap_live_count();
    struct observers *list = NULL;
    int a, b;

    EXPECT_EQ(observers_add(&list, first, &a), ACRE_OK);
    EXPECT_EQ(observers_add(&list, second, &a), ACRE_OK);
    EXPECT_EQ(observers_add(&list, first, &b), ACRE_OK);
    EXPECT_EQ(list->count, 3);
    EXPECT_EQ(observers_remove(&list, first, &list), ACRE_OK); /* unknown: nothing */
    EXPECT_EQ(list->count, 3);
    EXPECT_EQ(observers_remove(&list, second, &a), ACRE_OK);
    EXPECT_EQ(list->count, 2);
    EXPECT(list->items[0].arg == &a && list->items[1].arg == &b);
    EXPECT_EQ(observers_remove(&list, first, &a), ACRE_OK);
    EXPECT_EQ(observers_remove(&list, first, &b), ACRE_OK);
    EXPECT(!list);
    EXPECT_EQ(observers_remove(&list, first, &b), ACRE_OK);
    EXPECT_EQ(heap_live_count(), before);
}

TEST(a_held_list_does_not_change)
{
    uint64_t before = heap_live_count();
    struct observers *list = NULL, *held;
    int a, b;

    EXPECT(!observers_hold(NULL));
    EXPECT_EQ(observers_add(&list, first, &a), ACRE_OK);
    held = observers_hold(list);
    EXPECT_EQ(observers_add(&list, second, &b), ACRE_OK);
    EXPECT_EQ(held->count, 1);
    EXPECT_EQ(list->count, 2);
    EXPECT_EQ(observers_remove(&list, first, &a), ACRE_OK);
    EXPECT_PTR_EQ(held->items[0].arg, &a);
    observers_drop(held);
    observers_drop(list);
    observers_drop(NULL);
    EXPECT_EQ(heap_live_count(), before);
}

TEST(without_memory_nothing_changes)
{
    struct observers *list = NULL;
    int a;

    EXPECT_EQ(observers_add(&list, first, &a), ACRE_OK);
    EXPECT_EQ(observers_add(&list, second, &a), ACRE_OK);
    heap_fail_nth(1);
    EXPECT_EQ(observers_add(&list, first, &list), ACRE_ERR_HOST_MEMORY);
    heap_fail_nth(1);
    EXPECT_EQ(observers_remove(&list, first, &a), ACRE_ERR_HOST_MEMORY);
    heap_fail_disarm();
    EXPECT_EQ(list->count, 2);
    observers_drop(list);
}

T_MAIN()
