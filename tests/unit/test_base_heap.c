/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include "tests/support/t.h"

#include <acre/base.h>

TEST(counts_what_is_live)
{
    uint64_t before = heap_live_count();
    void *a = heap_alloc(10), *b = heap_array(3, 7);

    EXPECT_EQ(heap_live_count(), before + 2);
    heap_free(a);
    heap_free(b);
    heap_free(NULL);
    EXPECT_EQ(heap_live_count(), before);
}

TEST(fails_the_nth_allocation_once)
{
    heap_fail_nth(2);
    void *a = heap_alloc(1), *b = heap_alloc(1), *c = heap_alloc(1);

    EXPECT(a && !b && c);
    EXPECT_HAS(acre_last_error(), "host memory");
    EXPECT_EQ(heap_fail_disarm(), 1);
    EXPECT_EQ(heap_fail_disarm(), 0);
    heap_free(a);
    heap_free(c);
}

TEST(refuses_an_overflowing_array)
{
    EXPECT(!heap_array(SIZE_MAX / 2, 3));
}

TEST(realloc_keeps_the_old_piece_on_failure)
{
    char *a = heap_strdup("kept");

    heap_fail_nth(1);
    EXPECT(!heap_realloc(a, 100));
    heap_fail_disarm();
    EXPECT_STR_EQ(a, "kept");
    heap_free(a);
}

T_MAIN()
