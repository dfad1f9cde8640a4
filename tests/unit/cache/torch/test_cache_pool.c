/* SPDX-License-Identifier: MIT */
#include "cache/torch/pool.h"

#include "base/heap.h"
#include "cache/segment.h"
#include "tests/support/t.h"

#define COUNT 200

static struct pool pool;
static struct block blocks[COUNT];
static struct segment segments[COUNT];

static struct block *make(int i, uintptr_t stream, size_t bytes, uint64_t order, uintptr_t base)
{
    segments[i].order = order;
    blocks[i] = (struct block){.base = (char *)base, .bytes = bytes, .segment = &segments[i],
                               .stream = (void *)stream, .pool = &pool, .state = BLOCK_FREE};
    return &blocks[i];
}

/* Of two blocks of one size: by the age of their segments, then by address. */
static bool is_older(const struct block *a, const struct block *b)
{
    return a->segment->order != b->segment->order ? a->segment->order < b->segment->order
                                                  : a->base < b->base;
}

/* An empty pool with shelves for streams 0 to 3. */
static void begin(bool is_small)
{
    pool_init(&pool, is_small);
    for (uintptr_t stream = 4; stream-- > 0;)
        REQUIRE(pool_prepare(&pool, (void *)stream) == ACRE_OK);
}

static bool holds(void)
{
    const char *fact = "";

    if (pool_check(&pool, &fact))
        return true;
    fprintf(stderr, "%s\n", fact);
    return false;
    pool_fini(&pool);
}

TEST(order_is_stream_size_age_address)
{
    static const int expected[] = {5, 3, 1, 4, 0, 2};

    begin(true);
    pool_insert(&pool, make(0, 2, 1024, 0, 0x4000));
    pool_insert(&pool, make(1, 2, 512, 3, 0x2000));
    pool_insert(&pool, make(2, 3, 512, 0, 0x1000));
    pool_insert(&pool, make(3, 2, 512, 2, 0x9000));
    pool_insert(&pool, make(4, 2, 512, 3, 0x3000));
    pool_insert(&pool, make(5, 1, 4096, 9, 0x8000));
    EXPECT(holds());
    struct block *at = pool_first(&pool);
    for (int i = 0; i < 6; i++, at = pool_next(&pool, at))
        EXPECT_PTR_EQ(at, &blocks[expected[i]]);
    EXPECT(!at);
    at = pool_find_last(&pool, (void *)2);
    for (int i = 4; i >= 1; i--, at = pool_prev(&pool, at))
        EXPECT_PTR_EQ(at, &blocks[expected[i]]);
    EXPECT(!at);
    EXPECT_EQ(pool.free_count, 6);
    EXPECT_EQ(pool.free_bytes, 1024 + 4 * 512 + 4096);
    pool_fini(&pool);
}

TEST(find_stays_within_the_stream)
{
    begin(true);
    EXPECT(!pool_find(&pool, (void *)1, 1));
    pool_insert(&pool, make(0, 1, 512, 0, 0x1000));
    pool_insert(&pool, make(1, 2, 2048, 0, 0x2000));
    EXPECT_PTR_EQ(pool_find(&pool, (void *)1, 512), &blocks[0]);
    EXPECT(!pool_find(&pool, (void *)1, 1024));
    EXPECT_PTR_EQ(pool_find(&pool, (void *)2, 1), &blocks[1]);
    EXPECT(!pool_find(&pool, (void *)3, 1));
    EXPECT_PTR_EQ(pool_find_last(&pool, (void *)1), &blocks[0]);
    EXPECT_PTR_EQ(pool_find_last(&pool, (void *)2), &blocks[1]);
    EXPECT(!pool_find_last(&pool, NULL));
    EXPECT(!pool_find_last(&pool, (void *)3));
    EXPECT(!pool_find_last(&pool, (void *)99));
    pool_remove(&pool, &blocks[0]);
    EXPECT(!pool_find(&pool, (void *)1, 1));
    EXPECT(holds());
    pool_fini(&pool);
}

TEST(ages_start_when_a_block_comes_in)
{
    begin(false);
    pool.find_count = 10;
    pool_insert(&pool, make(0, 0, 512, 0, 0x1000));
    EXPECT_EQ(pool_age(&pool, &blocks[0]), 0);
    pool.find_count += 5;
    EXPECT_EQ(pool_age(&pool, &blocks[0]), 5);
    pool_remove(&pool, &blocks[0]);
    pool_insert(&pool, &blocks[0]);
    EXPECT_EQ(pool_age(&pool, &blocks[0]), 0);
    pool_fini(&pool);
}

TEST(random_content_agrees_with_a_search_by_hand)
{
    uint64_t state = t_seed();
    bool is_in[COUNT] = {0};

    begin(true);
    for (int i = 0; i < COUNT; i++)
        make(i, t_random(&state) % 3, 512 * (1 + t_random(&state) % 20), t_random(&state) % 5,
             0x1000 * (uintptr_t)(i + 1));
    for (uint64_t step = 0; step < t_count(20000, 2000000); step++) {
        int i = (int)(t_random(&state) % COUNT);
        is_in[i] ? pool_remove(&pool, &blocks[i]) : pool_insert(&pool, &blocks[i]);
        is_in[i] = !is_in[i];
        void *stream = (void *)(uintptr_t)(t_random(&state) % 3);
        size_t bytes = 512 * (1 + t_random(&state) % 22);
        const struct block *best = NULL;
        for (int k = 0; k < COUNT; k++) {
            const struct block *b = &blocks[k];
            if (!is_in[k] || b->stream != stream || b->bytes < bytes)
                continue;
            if (!best || b->bytes < best->bytes ||
                (b->bytes == best->bytes &&
                 is_older(b, best)))
                best = b;
        }
        if (pool_find(&pool, stream, bytes) != best)
            t_fail(__FILE__, __LINE__, "step %llu", (unsigned long long)step);
    }
    EXPECT(holds());
    pool_fini(&pool);
}

TEST(shelves_need_memory)
{
    uint64_t before = heap_live_count();

    pool_init(&pool, true);
    for (uintptr_t stream = 0; stream < 20; stream++) {
        bool has_failed = true;
        for (uint64_t nth = 1; has_failed; nth++) {
            heap_fail_nth(nth);
            acre_status status = pool_prepare(&pool, (void *)(stream * 7 % 20));
            has_failed = heap_fail_disarm();
            EXPECT_EQ(status, has_failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
            EXPECT(holds());
        }
        EXPECT_EQ(pool.shelf_count, stream + 1);
    }
    REQUIRE(pool_prepare(&pool, (void *)3) == ACRE_OK);
    EXPECT_EQ(pool.shelf_count, 20);
    pool_fini(&pool);
    EXPECT_EQ(heap_live_count(), before);
}

TEST(the_checker_notices)
{
    const char *fact;

    begin(true);
    pool_insert(&pool, make(0, 0, 512, 0, 0x1000));
    pool_insert(&pool, make(1, 0, 1024, 0, 0x2000));
    blocks[0].bytes = 2048;
    EXPECT(!pool_check(&pool, &fact));
    blocks[0].bytes = 512;
    EXPECT(holds());
    pool.free_bytes++;
    EXPECT(!pool_check(&pool, &fact));
    pool.free_bytes--;
    blocks[1].state = BLOCK_LIVE;
    EXPECT(!pool_check(&pool, &fact));
    pool_fini(&pool);
}

T_MAIN()
