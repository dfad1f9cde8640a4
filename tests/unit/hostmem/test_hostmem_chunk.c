/* SPDX-License-Identifier: MIT */
/* Pages that move from free chunks to new blocks. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/chunk.h"

#include <sys/mman.h>

/* Pages of a range that exist. */
static size_t pages_of(void *base, size_t bytes)
{
    static unsigned char vector[1 << 16];
    size_t count = 0;

    REQUIRE_EQ(mincore(base, bytes, vector), 0);
    for (size_t i = 0; i < bytes / 4096; i++)
        count += vector[i] & 1;
    return count;
}

TEST(a_new_block_takes_the_pages_of_free_ones_that_do_not_fit)
{
    T_NEEDS("MREMAP_DONTUNMAP");
    acre_hostmem *heap = heap_make(0, 0);
    char *pieces[8], *large;

    for (int i = 0; i < 8; i++)
        memset(pieces[i] = block_make(heap, 4 << 20), i, 4 << 20);
    for (int i = 0; i < 8; i += 2)
        REQUIRE_OK(acre_hostmem_free(heap, pieces[i]));
    large = block_make(heap, 16 << 20);
    EXPECT_EQ((uintptr_t)large % CHUNK_BYTES, 0);
    EXPECT_EQ(pages_of(large, 16 << 20), 4096);
    EXPECT_EQ(chunks_count(large, 16 << 20), 8);
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(pages_of(pieces[i], 4 << 20), i % 2 ? 1024 : 0);
        EXPECT_EQ(chunks_count(pieces[i], 4 << 20), i % 2 ? 2 : 0);
        for (size_t at = 0; at < 4 << 20 && i % 2; at += 512)
            REQUIRE_EQ(pieces[i][at], i);
    }
    memset(large, 9, 16 << 20);
    char *again = block_make(heap, 4 << 20); /* where pages were taken away: usable as ever */
    memset(again, 1, 4 << 20);
    EXPECT_EQ(large[(16 << 20) - 1], 9);
    acre_hostmem_destroy(heap);
}

TEST(cleared_blocks_take_no_pages_and_trimmed_chunks_give_none)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *first = block_make(heap, 8 << 20), *second = block_make(heap, 4 << 20), *cleared;

    memset(first, 1, 8 << 20);
    REQUIRE_OK(acre_hostmem_free(heap, first));
    REQUIRE_OK(acre_hostmem_calloc(heap, 1, 12 << 20, (void **)&cleared));
    EXPECT_EQ(pages_of(cleared, 12 << 20), 0);
    acre_hostmem_trim(heap, 1, NULL);
    EXPECT_EQ(chunks_count(first, 8 << 20), 0);
    char *large = block_make(heap, 10 << 20);
    EXPECT_EQ(pages_of(large, 10 << 20), 0);
    REQUIRE_OK(acre_hostmem_free(heap, second));
    acre_hostmem_destroy(heap);
}
T_MAIN()
