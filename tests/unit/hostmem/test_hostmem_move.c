/* SPDX-License-Identifier: MIT */
/* Cleared blocks and blocks that change their size; which pages exist. */
#include "tests/unit/hostmem/heap_make.h"

#include <sys/mman.h>

/* Pages of a range that exist. */
static size_t pages_of(void *base, size_t bytes)
{
    static unsigned char vector[1 << 20];
    size_t count = 0;

    REQUIRE_EQ(mincore(base, bytes, vector), 0);
    for (size_t i = 0; i < bytes / 4096; i++)
        count += vector[i] & 1;
    return count;
}

TEST(no_page_is_touched_before_the_caller_touches_it)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *block = block_make(heap, 16 << 20), *small;
    void *cleared;

    EXPECT_EQ((uintptr_t)block % 4096, 0);
    EXPECT_EQ(pages_of(block, 16 << 20), 0);
    block[5 << 20] = 1;
    EXPECT_EQ(pages_of(block, 16 << 20), 1);
    REQUIRE_OK(acre_hostmem_calloc(heap, 1 << 10, 16 << 10, &cleared));
    EXPECT_EQ(pages_of(cleared, 16 << 20), 0);
    for (int i = 0; i < 16; i++) {
        small = block_make(heap, 4096);
        EXPECT_EQ(pages_of((void *)((uintptr_t)small & -(uintptr_t)4096), 4096), 0);
    }
    acre_hostmem_destroy(heap);
}

TEST(cleared_blocks_are_zero_although_the_memory_was_used)
{
    static const size_t sizes[] = {64, 4096, 40000, 262143, 262144, 3 << 20};
    acre_hostmem *heap = heap_make(0, 0);
    void *overflow = NULL;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *block = block_make(heap, sizes[i]);
        memset(block, 0xff, sizes[i]);
        REQUIRE_OK(acre_hostmem_free(heap, block));
        REQUIRE_OK(acre_hostmem_calloc(heap, 1, sizes[i], (void **)&block));
        for (size_t at = 0; at < sizes[i]; at++)
            REQUIRE_EQ(block[at], 0);
        REQUIRE_OK(acre_hostmem_free(heap, block));
    }
    EXPECT_EQ(acre_hostmem_calloc(heap, SIZE_MAX / 2, 3, &overflow), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_PTR_EQ(overflow, NULL);
    acre_hostmem_destroy(heap);
}

TEST(large_blocks_grow_by_taking_their_pages_along)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *block = block_make(heap, 4 << 20), *guard = block_make(heap, 4 << 20), *grown;

    memset(block, 7, 4 << 20);
    REQUIRE_OK(acre_hostmem_realloc(heap, block, 32 << 20, (void **)&grown));
    EXPECT(grown != block);
    EXPECT_EQ(stats_of(heap).remap_count, 1);
    EXPECT_EQ(pages_of(grown, 32 << 20), 1024);
    for (size_t at = 0; at < 4 << 20; at++)
        REQUIRE_EQ(grown[at], 7);
    char *same;
    REQUIRE_OK(acre_hostmem_realloc(heap, grown, (32 << 20) - 5000, (void **)&same));
    EXPECT_PTR_EQ(same, grown);
    REQUIRE_OK(acre_hostmem_realloc(heap, grown, 100, (void **)&same));
    for (int at = 0; at < 100; at++)
        REQUIRE_EQ(same[at], 7);
    EXPECT_EQ(acre_hostmem_realloc(heap, guard + 64, 100, (void **)&same), ACRE_ERR_INVALID);
    acre_hostmem_destroy(heap);
}
T_MAIN()
