/* SPDX-License-Identifier: MIT */
#include "base/heap.h"
#include "base/host_limit.h"

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

TEST(refuses_more_than_any_object_has)
{
    char *piece = heap_alloc(1);

    EXPECT_PTR_EQ(heap_alloc(SIZE_MAX), NULL);
    EXPECT_PTR_EQ(heap_zalloc(SIZE_MAX), NULL);
    EXPECT_PTR_EQ(heap_aligned(64, SIZE_MAX), NULL);
    EXPECT_PTR_EQ(heap_realloc(piece, SIZE_MAX), NULL);
    heap_free(piece);
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

TEST(every_kind_can_fail_and_is_counted)
{
    uint64_t live = heap_live_count();
    char *text;

    for (int kind = 0; kind < 6; kind++)
        for (int nth = 1; nth <= 2; nth++) {
            heap_fail_nth((uint64_t)nth);
            void *got = kind == 0 ? heap_alloc(5) : kind == 1 ? heap_zalloc(5)
                      : kind == 2 ? heap_array(5, 5) : kind == 3 ? heap_aligned(64, 5)
                      : kind == 4 ? heap_realloc(NULL, 5) : heap_strdup("12345");
            EXPECT_EQ(heap_fail_disarm(), nth == 1);
            EXPECT_EQ(got == NULL, nth == 1);
            EXPECT_EQ(heap_live_count(), live + (nth == 2));
            heap_free(got);
        }
    text = heap_realloc(heap_strdup("grows"), 1000);
    EXPECT_STR_EQ(text, "grows");
    heap_free(text);
    EXPECT_EQ(heap_live_count(), live);
}

TEST(aligned_memory_is_aligned_and_cleared)
{
    char *memory = heap_aligned(4096, 100);

    EXPECT_EQ((uintptr_t)memory % 4096, 0);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(memory[i], 0);
    heap_free(memory);
    memory = heap_alloc(0);
    EXPECT(memory != NULL);
    heap_free(memory);
}

TEST(a_limit_refuses_what_exceeds_it_and_nothing_else)
{
    EXPECT_EQ(acre_host_limit_count(7), UINT64_MAX);
    acre_host_limit_set(1 << 20);
    EXPECT_EQ(acre_host_limit_get(), 1 << 20);
    EXPECT_EQ(acre_host_limit_count(1000), (1 << 20) - 1000);
    EXPECT_EQ(acre_host_limit_count(-1000), 1 << 20);
    void *most = heap_alloc(900000);
    EXPECT(most != NULL);
    EXPECT_PTR_EQ(heap_alloc(200000), NULL);
    EXPECT_HAS(acre_last_error(), "1 MiB of host memory");
    EXPECT_HAS(acre_last_error(), "--memory");
    EXPECT_PTR_EQ(heap_array(1 << 20, 16), NULL);
    EXPECT_PTR_EQ(heap_aligned(64, 200000), NULL);
    EXPECT_PTR_EQ(heap_realloc(most, 950000), NULL); /* both may live for a moment */
    void *little = heap_zalloc(1000);
    EXPECT(little != NULL);
    heap_free(most);
    void *again = heap_alloc(900000);
    EXPECT(again != NULL);
    again = heap_realloc(again, 100);
    EXPECT_PTR_EQ(heap_alloc(1 << 20), NULL);
    acre_host_limit_set(0);
    void *large = heap_alloc(4 << 20);
    EXPECT(large != NULL);
    heap_free(large);
    heap_free(again);
    heap_free(little);
    EXPECT_EQ(heap_live_count(), 0);
}

T_MAIN()
