/* SPDX-License-Identifier: MIT */
/* The rungs between a miss and a block, under policy acre, one test each. */
#include "cache/acre/ladder.h"

#include "cache/acre/reuse.h"
#include "tests/support/lab.h"

static void open_acre(struct lab *lab, const char *conf)
{
    struct fake_config device = {.completes_at_once = true};
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE, .conf = conf};

    lab_open_with(lab, &device, &config);
}

/* Climbs for a large block on stream 0; attempt->block is given back. */
static acre_status climb(struct lab *lab, size_t bytes, struct attempt *attempt)
{
    acre_cache *cache = lab->cache;

    attempt_init(attempt, bytes, NULL);
    attempt->request.rounded = bytes;
    quick_lock_take(&cache->lock);
    struct arena *arena = reuse_arena_locked(cache, CREDIT_LARGE, NULL);
    acre_status status = ladder_climb_locked(cache, arena, attempt);
    if (status == ACRE_OK) {
        EXPECT_EQ(attempt->block->state, BLOCK_LIVE);
        EXPECT_EQ(attempt->block->bytes, bytes);
        EXPECT(!block_tag_is_live(attempt->block));
        EXPECT_PTR_EQ(map_find(&cache->map, attempt->block->base), attempt->block);
        arena_put(&cache->blocks, attempt->block);
    }
    quick_lock_drop(&cache->lock);
    return status;
}

TEST(what_a_thread_keeps_is_taken_before_the_device_is_asked)
{
    struct attempt attempt;
    struct lab lab;

    open_acre(&lab, NULL);
    lab_free(&lab, lab_alloc(&lab, 8 * MIB));
    uint64_t held_bytes = fake_bytes(lab.fake);
    EXPECT_EQ(climb(&lab, 6 * MIB, &attempt), ACRE_OK);
    EXPECT_EQ(fake_bytes(lab.fake), held_bytes);
    lab_close(&lab);
}

TEST(the_device_is_asked_when_nothing_is_free)
{
    struct attempt attempt;
    struct lab lab;

    open_acre(&lab, NULL);
    void *a = lab_alloc(&lab, 8 * MIB);
    uint64_t held_bytes = fake_bytes(lab.fake);
    EXPECT_EQ(climb(&lab, 64 * MIB, &attempt), ACRE_OK);
    EXPECT_GT(fake_bytes(lab.fake), held_bytes);
    lab_free(&lab, a);
    lab_close(&lab);
}

struct owner {
    struct lab *lab;
    void *pointer;
    int call_count;
};

static bool give_up(void *arg)
{
    struct owner *owner = arg;

    owner->call_count++;
    if (!owner->pointer)
        return false;
    lab_free(owner->lab, owner->pointer);
    owner->pointer = NULL;
    return true;
}

TEST(what_a_callback_frees_is_taken_before_the_device_is_asked)
{
    struct attempt attempt;
    struct owner owner = {0};
    struct lab lab;

    open_acre(&lab, "stitched_memory:False");
    owner.lab = &lab;
    owner.pointer = lab_alloc(&lab, 64 * MIB);
    REQUIRE_OK(acre_cache_reclaimer_add(lab.cache, give_up, &owner));
    uint64_t held_bytes = fake_bytes(lab.fake);
    EXPECT_EQ(climb(&lab, 64 * MIB, &attempt), ACRE_OK);
    EXPECT_EQ(owner.call_count, 1);
    EXPECT_EQ(fake_bytes(lab.fake), held_bytes);
    acre_cache_reclaimer_remove(lab.cache, give_up, &owner);
    lab_close(&lab);
}

TEST(idle_memory_is_reclaimed_before_a_request_fails)
{
    struct attempt attempt;
    struct lab lab;

    open_acre(&lab, "stitched_memory:False");
    lab_limit(&lab, 128 * MIB);
    lab_free(&lab, lab_alloc(&lab, 40 * MIB)); /* a segment of its own, too small */
    EXPECT_EQ(climb(&lab, 100 * MIB, &attempt), ACRE_OK);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    lab_close(&lab);
}

TEST(a_failure_comes_with_its_report)
{
    struct attempt attempt;
    struct lab lab;

    open_acre(&lab, NULL);
    lab_limit(&lab, 128 * MIB);
    void *a = lab_alloc(&lab, 100 * MIB);
    uint64_t held_bytes = fake_bytes(lab.fake);
    EXPECT_EQ(climb(&lab, 100 * MIB, &attempt), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(attempt.shortage.limit_bytes, 128 * MIB);
    EXPECT_EQ(attempt.shortage.bytes_allocated, 100 * MIB);
    EXPECT_EQ(attempt.shortage.held_bytes, held_bytes);
    EXPECT(!attempt.is_rejected);
    EXPECT_EQ(COUNT(&lab, num_ooms), 1);
    lab_free(&lab, a);
    lab_close(&lab);
}

T_MAIN()
