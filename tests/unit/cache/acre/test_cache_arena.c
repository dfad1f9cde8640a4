/* SPDX-License-Identifier: MIT */
/* Arenas: blocks cut and joined at random always tile their segment, are found by
 * address while live, and end as the one block they were. */
#include "cache/acre/arena.h"

#include "base/heap.h"
#include "tests/support/t.h"

enum { BYTES = 1 << 20, LIVE_MAX = 200 };

struct world {
    struct block_store store;
    struct map map;
    struct pool pool;
    struct segment segment;
    struct arena *arenas[2];
};

static char *const base = (char *)0x7f0000000000;

static void world_open(struct world *w)
{
    memset(w, 0, sizeof *w);
    block_store_init(&w->store);
    REQUIRE_OK(map_init(&w->map));
    REQUIRE_OK(map_reserve(&w->map, base, BYTES));
    pool_init(&w->pool, false);
    REQUIRE_OK(arenas_init(&w->pool));
    for (intptr_t i = 0; i < 2; i++)
        w->arenas[i] = arena_get(&w->pool, (void *)i, NULL);
    REQUIRE(w->arenas[0] && w->arenas[1]);
    REQUIRE(block_store_reserve(&w->store, LIVE_MAX * 4));
    struct block *block = block_create(&w->store);
    segment_init(&w->segment, block, &w->pool, NULL, base, BYTES);
    w->segment.order = 1;
    block->state = BLOCK_FREE;
    arena_insert(&w->pool, block);
}

static void world_check(struct world *w)
{
    const char *fact = "";

    if (!segment_check(&w->segment, &fact) || !arena_check(&w->pool, &fact))
        t_fail(__FILE__, __LINE__, "%s", fact);
}

static void world_close(struct world *w)
{
    arenas_fini(&w->pool);
    map_fini(&w->map);
    block_store_fini(&w->store);
}

TEST(streams_have_their_own_arena)
{
    static struct world w;

    world_open(&w);
    EXPECT_PTR_EQ(arena_find(&w.pool, (void *)1), w.arenas[1]);
    EXPECT_PTR_EQ(arena_get(&w.pool, (void *)1, NULL), w.arenas[1]);
    EXPECT_PTR_EQ(arena_find(&w.pool, (void *)2), NULL);
    EXPECT_PTR_EQ(arena_take(w.arenas[1], &w.store, &w.map, 512), NULL);
    EXPECT_EQ(arena_count(&w.pool), 1);
    world_close(&w);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(cutting_and_joining)
{
    static struct world w;
    struct block *blocks[3];

    world_open(&w);
    for (int i = 0; i < 3; i++) {
        blocks[i] = arena_take(w.arenas[0], &w.store, &w.map, 4096);
        REQUIRE(blocks[i]);
        EXPECT_PTR_EQ(blocks[i]->base, base + i * 4096);
        EXPECT_PTR_EQ(map_find(&w.map, blocks[i]->base), blocks[i]);
        world_check(&w);
    }
    arena_put(&w.store, blocks[0]);
    EXPECT_EQ(arena_count(&w.pool), 2);
    arena_put(&w.store, blocks[2]); /* with what follows */
    EXPECT_EQ(arena_count(&w.pool), 2);
    world_check(&w);
    arena_put(&w.store, blocks[1]); /* with both sides */
    EXPECT_EQ(arena_count(&w.pool), 1);
    EXPECT_EQ(w.segment.first->bytes, BYTES);
    world_check(&w);
    struct block *whole = arena_take(w.arenas[0], &w.store, &w.map, BYTES);
    REQUIRE(whole);
    EXPECT_EQ(arena_count(&w.pool), 0);
    arena_put(&w.store, whole);
    world_check(&w);
    world_close(&w);
}

TEST(neighbours_of_two_streams_join_after_moving)
{
    static struct world w;

    world_open(&w);
    struct block *a = arena_take(w.arenas[0], &w.store, &w.map, 4096);
    arena_move(&w.store, w.segment.first->next, w.arenas[1]);
    arena_put(&w.store, a);
    EXPECT_EQ(arena_count(&w.pool), 2); /* neighbours, not joined */
    world_check(&w);
    arena_move(&w.store, bins_first(&w.arenas[0]->bins), w.arenas[1]);
    EXPECT_EQ(arena_count(&w.pool), 1);
    EXPECT_EQ(w.segment.first->bytes, BYTES);
    world_check(&w);
    world_close(&w);
}

TEST(random_work_tiles_the_segment)
{
    static struct world w;
    static struct block *live[LIVE_MAX];
    uint64_t seed = t_seed();
    int count = 0;

    world_open(&w);
    for (uint64_t step = 0; step < t_count(50000, 3000000); step++) {
        uint64_t r = t_random(&seed);
        struct arena *arena = w.arenas[r >> 62 & 1];
        if (count < LIVE_MAX && r % 2) {
            size_t bytes = 512 * (1 + (r >> 8) % ((size_t)1 << (r >> 40) % 9));
            struct block *block = arena_take(arena, &w.store, &w.map, bytes);
            if (!block)
                continue;
            REQUIRE(block->bytes == bytes && block->stream == arena->stream);
            REQUIRE(map_find(&w.map, block->base) == block);
            live[count++] = block;
        } else if (r % 64 == 2) {
            struct block *block;
            while ((block = bins_first(&w.arenas[0]->bins)))
                arena_move(&w.store, block, w.arenas[1]);
        } else if (r % 64 == 4) {
            struct block *block = bins_first(&w.arenas[1]->bins);
            if (block)
                arena_move(&w.store, block, w.arenas[0]);
        } else if (count) {
            size_t at = (r >> 8) % (size_t)count;
            arena_put(&w.store, live[at]);
            live[at] = live[--count];
        }
        if (step % 100 == 0)
            world_check(&w);
    }
    while (count)
        arena_put(&w.store, live[--count]);
    struct block *block;
    while ((block = bins_first(&w.arenas[0]->bins)))
        arena_move(&w.store, block, w.arenas[1]);
    EXPECT_EQ(arena_count(&w.pool), 1);
    EXPECT_EQ(w.segment.first->bytes, BYTES);
    world_check(&w);
    world_close(&w);
    EXPECT_EQ(heap_live_count(), 0);
}

T_MAIN()
