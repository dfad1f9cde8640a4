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
    EXPECT_EQ(chunks_count(large, 16 << 20), 256);
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(pages_of(pieces[i], 4 << 20), i % 2 ? 1024 : 0);
        EXPECT_EQ(chunks_count(pieces[i], 4 << 20), i % 2 ? 64 : 0);
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

/* Pages of all that a heap holds, live or free. */
static size_t pages_held(acre_hostmem *heap)
{
    acre_cache_layout *layout;
    size_t count = 0;

    REQUIRE_OK(acre_cache_layout_create(acre_hostmem_cache(heap), &layout));
    for (size_t i = 0; i < layout->segment_count; i++)
        count += pages_of(layout->segments[i].base, layout->segments[i].bytes);
    acre_cache_layout_destroy(layout);
    return count;
}

/* Neither size is a multiple of 2 MiB, and no block fits where those of the other size were. The
 * ends of all blocks move as well, so what is resident is the highest use, but for a grain of
 * each block, in the first round and in the last. */
TEST(the_ends_of_blocks_move_too_and_nothing_piles_up)
{
    T_NEEDS("MREMAP_DONTUNMAP");
    enum { SMALL = 2801664, LARGE = 5603328, GRAIN_PAGES = 16 };
    acre_hostmem *heap = heap_make(0, 0);
    size_t most = 4 * (SMALL / 4096 + GRAIN_PAGES) + LARGE / 4096 + GRAIN_PAGES;
    char *small[4], *large[2];

    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 4; i++)
            memset(small[i] = block_make(heap, SMALL), i, SMALL);
        memset(large[0] = block_make(heap, LARGE), 8, LARGE);
        REQUIRE_OK(acre_hostmem_free(heap, small[round % 4]));
        REQUIRE_OK(acre_hostmem_free(heap, small[(round + 2) % 4]));
        memset(large[1] = block_make(heap, LARGE), 9, LARGE);
        EXPECT(pages_held(heap) <= most + GRAIN_PAGES);
        for (size_t at = 0; at < SMALL; at += 512)
            REQUIRE(small[(round + 1) % 4][at] == (round + 1) % 4 && large[0][at] == 8 &&
                    small[(round + 3) % 4][at] == (round + 3) % 4);
        REQUIRE_OK(acre_hostmem_free(heap, small[(round + 1) % 4]));
        REQUIRE_OK(acre_hostmem_free(heap, small[(round + 3) % 4]));
        REQUIRE_OK(acre_hostmem_free(heap, large[0]));
        REQUIRE_OK(acre_hostmem_free(heap, large[1]));
    }
    acre_hostmem_destroy(heap);
}

/* A heap that holds much moves whole chunks only, so that the kernel keeps few mappings. */
TEST(a_large_heap_moves_whole_chunks_only)
{
    T_NEEDS("MREMAP_DONTUNMAP");
    acre_hostmem *heap = heap_make(0, 0);
    char *untouched = block_make(heap, GRAIN_HELD_MAX), *first = block_make(heap, 3 << 20);
    char *between = block_make(heap, 1 << 20), *second;

    memset(first, 1, 3 << 20);
    REQUIRE_OK(acre_hostmem_free(heap, first));
    second = block_make(heap, 7 << 20);
    EXPECT_EQ(pages_of(second, 7 << 20), 512);
    REQUIRE_OK(acre_hostmem_free(heap, between));
    REQUIRE_OK(acre_hostmem_free(heap, second));
    REQUIRE_OK(acre_hostmem_free(heap, untouched));
    acre_hostmem_destroy(heap);
}

/* Lets the calling thread be on a node, whatever its processor is. */
static void node_enter(struct numa *numa, uint8_t node)
{
    *numa = (struct numa){.online = 3, .count = 2};
    memset(numa->node_of_cpu, node, sizeof numa->node_of_cpu);
}

/* A block of 4 MiB for a thread on a node; what is in its pages, which nobody has cleared. */
static int contents_on(acre_hostmem *heap, struct numa *numa, uint8_t node, char **out)
{
    node_enter(numa, node);
    *out = block_make(heap, 4 << 20);
    for (size_t at = 0; at < 4 << 20; at += 4096)
        REQUIRE_EQ((*out)[at], (*out)[0]);
    return (*out)[0];
}

TEST(threads_get_pages_of_their_own_node_back)
{
    T_NEEDS("MREMAP_DONTUNMAP");
    static struct numa numa;
    char *blocks[2];

    for (int order = 0; order < 2; order++) {
        acre_hostmem *heap = heap_make(0, 0);
        heap->numa = &numa;
        for (int i = 0; i < 2; i++) {
            node_enter(&numa, (uint8_t)i);
            memset(blocks[i] = block_make(heap, 4 << 20), 10 + i, 4 << 20);
            block_make(heap, 64 << 10);
        }
        for (int round = 0; round < 8; round++) {
            REQUIRE_OK(acre_hostmem_free(heap, blocks[(round / 2) % 2]));
            REQUIRE_OK(acre_hostmem_free(heap, blocks[1 - (round / 2) % 2]));
            int first = (order + round) % 2;
            EXPECT_EQ(contents_on(heap, &numa, (uint8_t)first, &blocks[first]), 10 + first);
            EXPECT_EQ(contents_on(heap, &numa, (uint8_t)(1 - first), &blocks[1 - first]),
                      11 - first);
        }
        acre_hostmem_destroy(heap);
    }
}

TEST(new_blocks_take_no_pages_of_other_nodes)
{
    T_NEEDS("MREMAP_DONTUNMAP");
    static struct numa numa;
    acre_hostmem *heap = heap_make(0, 0);
    char *first, *between, *other, *own;

    heap->numa = &numa;
    node_enter(&numa, 0);
    memset(first = block_make(heap, 4 << 20), 1, 4 << 20);
    between = block_make(heap, 64 << 10);
    REQUIRE_OK(acre_hostmem_free(heap, first));
    node_enter(&numa, 1);
    other = block_make(heap, 6 << 20);
    EXPECT_EQ(pages_of(other, 6 << 20), 0);
    EXPECT_EQ(pages_of(first, 4 << 20), 1024);
    node_enter(&numa, 0);
    own = block_make(heap, 8 << 20);
    EXPECT_EQ(pages_of(own, 8 << 20), 1024);
    REQUIRE_OK(acre_hostmem_free(heap, between));
    acre_hostmem_destroy(heap);
}
T_MAIN()
