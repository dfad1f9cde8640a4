/* SPDX-License-Identifier: MIT */
/* Bins: every size has a bin, a request finds a block when there is one in reach,
 * and random work agrees with a plain list. */
#include "cache/acre/bins.h"

#include "base/heap.h"
#include "tests/support/t.h"

static struct bins bins;

static void fill(struct block *block, size_t units)
{
    memset(block, 0, sizeof *block);
    block->bytes = units * BLOCK_UNIT;
    block->state = BLOCK_FREE;
}

static void check(void)
{
    const char *fact = "";

    if (!bins_check(&bins, &fact))
        t_fail(__FILE__, __LINE__, "%s", fact);
}

TEST(index_grows_with_size_and_stays_in_range)
{
    uint32_t before = 0;

    for (size_t units = 1; units < 100000; units++) {
        uint32_t index = bins_index(units * BLOCK_UNIT);
        EXPECT(index == before || index == before + 1);
        EXPECT(units >= 64 || index == units);
        before = index;
    }
    EXPECT_LT(bins_index((size_t)1 << 60), BINS_COUNT);
    EXPECT_LT(bins_index(SIZE_MAX - 511), BINS_COUNT);
}

TEST(a_bin_is_at_most_a_32nd_wide)
{
    for (size_t units = 64; units < 1 << 20; units += 7) {
        uint32_t index = bins_index(units * BLOCK_UNIT);
        EXPECT_GT(bins_index((units + units / 32 + 1) * BLOCK_UNIT), index);
    }
}

TEST(exact_size_is_found_among_larger_ones)
{
    struct block blocks[4];
    static const size_t units[] = {100, 7, 8, 5000};

    bins_init(&bins);
    EXPECT_PTR_EQ(bins_take(&bins, 512), NULL);
    for (int i = 0; i < 4; i++) {
        fill(&blocks[i], units[i]);
        bins_insert(&bins, &blocks[i]);
    }
    check();
    EXPECT_EQ(bins_largest(&bins), 5000 * BLOCK_UNIT);
    EXPECT_PTR_EQ(bins_take(&bins, 7 * BLOCK_UNIT), &blocks[1]);
    EXPECT_PTR_EQ(bins_take(&bins, 7 * BLOCK_UNIT), &blocks[2]);
    EXPECT_PTR_EQ(bins_take(&bins, 7 * BLOCK_UNIT), &blocks[0]);
    EXPECT_PTR_EQ(bins_find(&bins, 5001 * BLOCK_UNIT), NULL);
    EXPECT_PTR_EQ(bins_take(&bins, 1 * BLOCK_UNIT), &blocks[3]);
    EXPECT_EQ(bins_largest(&bins), 0);
    EXPECT_PTR_EQ(bins_first(&bins), NULL);
    check();
    bins_fini(&bins);
}

TEST(too_small_ones_of_the_same_bin_are_passed_over)
{
    struct block small, fits;

    bins_init(&bins);
    fill(&small, 6400);
    fill(&fits, 6500);
    EXPECT_EQ(bins_index(small.bytes), bins_index(fits.bytes));
    bins_insert(&bins, &fits);
    bins_insert(&bins, &small);
    EXPECT_PTR_EQ(bins_take(&bins, 6450 * BLOCK_UNIT), &fits);
    EXPECT_PTR_EQ(bins_take(&bins, 6450 * BLOCK_UNIT), NULL);
    check();
    bins_fini(&bins);
}

TEST(resizing_moves_between_bins)
{
    struct block block;

    bins_init(&bins);
    fill(&block, 1000);
    bins_insert(&bins, &block);
    bins_resize(&bins, &block, 1001 * BLOCK_UNIT);
    check();
    bins_resize(&bins, &block, 3 * BLOCK_UNIT);
    check();
    EXPECT_EQ(block.bytes, 3 * BLOCK_UNIT);
    EXPECT_PTR_EQ(bins_find(&bins, 4 * BLOCK_UNIT), NULL);
    bins_resize(&bins, &block, (size_t)1 << 50);
    check();
    EXPECT_PTR_EQ(bins_take(&bins, (size_t)1 << 49), &block);
    bins_fini(&bins);
}

enum { BLOCKS = 300 };

/* The smallest bin above the request's own that holds anything, by hand. */
static const struct block *expect_some(const struct block *blocks, const int *is_in,
                                       size_t bytes)
{
    const struct block *best = NULL;

    for (int i = 0; i < BLOCKS; i++)
        if (is_in[i] && bins_index(blocks[i].bytes) > bins_index(bytes) &&
            (!best || bins_index(blocks[i].bytes) < bins_index(best->bytes)))
            best = &blocks[i];
    return best;
}

TEST(random_work_agrees_with_a_list)
{
    static struct block blocks[BLOCKS];
    static int is_in[BLOCKS];
    uint64_t seed = t_seed(), count = 0;

    bins_init(&bins);
    memset(is_in, 0, sizeof is_in);
    for (uint64_t step = 0; step < t_count(100000, 5000000); step++) {
        uint64_t r = t_random(&seed);
        size_t i = r % BLOCKS, units = 1 + (r >> 16) % ((size_t)1 << (r >> 40) % 24);
        if (!is_in[i]) {
            fill(&blocks[i], units);
            bins_insert(&bins, &blocks[i]);
            is_in[i] = 1;
            count++;
        } else if (r >> 60 < 4) {
            bins_remove(&bins, &blocks[i]);
            is_in[i] = 0;
            count--;
        } else if (r >> 60 < 8) {
            bins_resize(&bins, &blocks[i], units * BLOCK_UNIT);
        } else {
            size_t bytes = units * BLOCK_UNIT;
            const struct block *some = expect_some(blocks, is_in, bytes);
            struct block *block = bins_take(&bins, bytes);
            REQUIRE(block || !some);
            if (!block)
                continue;
            REQUIRE(block->bytes >= bytes && is_in[block - blocks]);
            REQUIRE(bins_index(block->bytes) == bins_index(bytes) ||
                    bins_index(block->bytes) == bins_index(some->bytes));
            is_in[block - blocks] = 0;
            count--;
        }
        REQUIRE_EQ(bins.count, count);
        if (step % 1000 == 0)
            check();
    }
    check();
    uint64_t walked = 0;
    for (struct block *block = bins_first(&bins); block; block = bins_next(&bins, block))
        walked++;
    EXPECT_EQ(walked, count);
    bins_fini(&bins);
}

/* Putting in never fails: what finds no bin for lack of host memory is found all the same. */
TEST(without_host_memory_blocks_are_found_all_the_same)
{
    struct block blocks[3];
    static const size_t units[] = {10, 5000, 20};

    bins_init(&bins);
    for (int i = 0; i < 3; i++) {
        fill(&blocks[i], units[i]);
        heap_fail_nth(1);
        bins_insert(&bins, &blocks[i]);
        EXPECT(heap_fail_disarm());
    }
    check();
    EXPECT_EQ(bins_largest(&bins), 5000 * BLOCK_UNIT);
    EXPECT_PTR_EQ(bins_find(&bins, 21 * BLOCK_UNIT), &blocks[1]);
    EXPECT_PTR_EQ(bins_find_best(&bins, 5000 * BLOCK_UNIT), &blocks[1]);
    EXPECT_PTR_EQ(bins_find(&bins, 5001 * BLOCK_UNIT), NULL);
    bins_resize(&bins, &blocks[0], 30 * BLOCK_UNIT); /* there is memory again */
    check();
    int seen = 0;
    for (struct block *block = bins_first(&bins); block; block = bins_next(&bins, block))
        seen++;
    EXPECT_EQ(seen, 3);
    EXPECT_PTR_EQ(bins_take(&bins, 512), &blocks[0]);
    EXPECT(bins_take(&bins, 512) && bins_take(&bins, 512) && !bins_take(&bins, 512));
    check();
    bins_fini(&bins);
}

T_MAIN()
