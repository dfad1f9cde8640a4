/* SPDX-License-Identifier: MIT */
/* The engine below the public calls, as the fronts use it. */
#include "cache/cache.h"

#include "cache/engine.h"
#include "tests/support/lab.h"

/* Allocates through the engine; live statistics do not move. */
static struct block *take(acre_cache *cache, size_t bytes)
{
    struct attempt attempt;

    attempt_init(&attempt, bytes, NULL);
    quick_lock_take(&cache->lock);
    acre_status status = engine_alloc_locked(cache, &attempt);
    quick_lock_drop(&cache->lock);
    REQUIRE_EQ(status, ACRE_OK);
    return attempt.block;
}

TEST(live_statistics_are_the_callers)
{
    struct lab lab;

    lab_open(&lab, NULL);
    struct block *block = take(lab.cache, 1000);
    EXPECT_EQ(block->state, BLOCK_LIVE);
    EXPECT_EQ(block->requested, 1000);
    EXPECT_EQ(block->bytes, 1024);
    EXPECT_PTR_EQ(map_find(&lab.cache->map, block->base), block);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    EXPECT_EQ(CURRENT(&lab, active_bytes), 0);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 2 * MIB);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 1);
    char *base = block->base;
    quick_lock_take(&lab.cache->lock);
    EXPECT_PTR_EQ(engine_find_locked(lab.cache, base), block);
    EXPECT(!engine_find_locked(lab.cache, base + 512));
    engine_put_locked(lab.cache, block); /* no retirement */
    EXPECT(!engine_find_locked(lab.cache, base));
    quick_lock_drop(&lab.cache->lock);
    EXPECT_EQ(CURRENT(&lab, active), 0);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 0);
    lab_close(&lab);
}

TEST(B132_blocks_know_their_segment)
{
    struct lab lab;

    lab_open(&lab, NULL);
    struct block *a = take(lab.cache, 3 * MIB), *b = take(lab.cache, 2 * MIB);
    EXPECT_PTR_EQ(a->segment, b->segment);
    EXPECT_EQ(a->segment->bytes, 20 * MIB);
    EXPECT_PTR_EQ(a->next, b);
    quick_lock_take(&lab.cache->lock);
    engine_put_locked(lab.cache, a);
    engine_put_locked(lab.cache, b);
    quick_lock_drop(&lab.cache->lock);
    EXPECT_STR_EQ(lab_layout(&lab), "20971520");
    lab_close(&lab);
}

T_MAIN()
