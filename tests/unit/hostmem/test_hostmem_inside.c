/* SPDX-License-Identifier: MIT */
/* What heaps see of their caches. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/inside.h"

struct sum {
    uint64_t bytes, whole, count;
};

static bool free_add(void *arg, char *base, size_t bytes, bool is_whole_segment)
{
    struct sum *sum = arg;

    EXPECT_EQ((uintptr_t)base % 4096, 0);
    sum->bytes += bytes;
    sum->whole += is_whole_segment ? bytes : 0;
    sum->count++;
    return true;
}

TEST(free_blocks_are_walked_with_those_that_threads_keep)
{
    acre_hostmem *heap = heap_make(0, 0);
    void *first = block_make(heap, 8 << 20), *second = block_make(heap, 6 << 20);
    struct sum sum = {0};

    EXPECT_EQ(inside_block_bytes(heap->cache, first), 8 << 20);
    EXPECT_EQ(inside_block_bytes(heap->cache, (char *)first + 4096), 0);
    REQUIRE_OK(acre_hostmem_free(heap, first));
    EXPECT_EQ(inside_block_bytes(heap->cache, first), 0);
    inside_walk_free(heap->cache, free_add, &sum);
    EXPECT_EQ(sum.bytes, 8 << 20);
    EXPECT_EQ(sum.whole, 8 << 20);
    EXPECT_EQ(sum.count, 1);
    REQUIRE_OK(acre_hostmem_free(heap, second));
    acre_hostmem_destroy(heap);
}
T_MAIN()
