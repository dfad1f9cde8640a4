/* SPDX-License-Identifier: MIT */
/* The engine below the public calls, as the fronts use it. */
#include "cache/cache.h"

#include "tests/support/rig.h"

/* Allocates through the engine; live statistics do not move. */
static struct block *take(acre_cache *cache, size_t bytes)
{
    struct request request = {.bytes = bytes, .stream = NULL};

    quick_lock_take(&cache->lock);
    acre_status status = engine_alloc_locked(cache, &request);
    quick_lock_drop(&cache->lock);
    REQUIRE_EQ(status, ACRE_OK);
    return request.block;
}

TEST(live_statistics_are_the_callers)
{
    struct rig rig;

    rig_open(&rig, NULL);
    struct block *block = take(rig.cache, 1000);
    EXPECT_EQ(block->state, BLOCK_LIVE);
    EXPECT_EQ(block->requested, 1000);
    EXPECT_EQ(block->bytes, 1024);
    EXPECT_PTR_EQ(map_find(&rig.cache->map, block->base), block);
    EXPECT_EQ(CURRENT(&rig, allocation), 0);
    EXPECT_EQ(CURRENT(&rig, active_bytes), 0);
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 2 * MIB);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 1);
    char *base = block->base;
    quick_lock_take(&rig.cache->lock);
    EXPECT_PTR_EQ(engine_find_locked(rig.cache, base), block);
    EXPECT(!engine_find_locked(rig.cache, base + 512));
    engine_put_locked(rig.cache, block); /* no retirement */
    EXPECT(!engine_find_locked(rig.cache, base));
    quick_lock_drop(&rig.cache->lock);
    EXPECT_EQ(CURRENT(&rig, active), 0);
    EXPECT_EQ(CURRENT(&rig, inactive_split), 0);
    rig_close(&rig);
}

TEST(B132_blocks_know_their_segment)
{
    struct rig rig;

    rig_open(&rig, NULL);
    struct block *a = take(rig.cache, 3 * MIB), *b = take(rig.cache, 2 * MIB);
    EXPECT_PTR_EQ(a->segment, b->segment);
    EXPECT_EQ(a->segment->bytes, 20 * MIB);
    EXPECT_PTR_EQ(a->next, b);
    quick_lock_take(&rig.cache->lock);
    engine_put_locked(rig.cache, a);
    engine_put_locked(rig.cache, b);
    quick_lock_drop(&rig.cache->lock);
    EXPECT_STR_EQ(rig_layout(&rig), "20971520");
    rig_close(&rig);
}

T_MAIN()
