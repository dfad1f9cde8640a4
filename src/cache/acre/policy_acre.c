/* SPDX-License-Identifier: MIT */
/* Policy acre: fast and frugal.
 *
 * Blocks are as large as asked for, rounded up to 512 bytes, and cut off the
 * best of the free blocks at hand whatever remains; there is one pool for all
 * sizes. Where the memory of a block comes from is in ladder.c; lanes, which come
 * first, are in front.c.
 *
 * So nothing that any thread or stream keeps idle is the reason for growing. */
#include "backend/backend.h"
#include "cache/acre/arena.h"
#include "cache/acre/ladder.h"
#include "cache/cache.h"
#include "cache/pools/pools.h"
#include "cache/pools/sleep.h"
#include "cache/size.h"
#include "cache/threads/account.h"
#include "cache/threads/front.h"

enum {
    ACRE_GROWTH_SHARE = 16, /* a segment is at least this part of what its pool holds */
};

/* ---- Sizes and the index of free blocks --------------------------------------------- */

static bool policy_acre_is_small(size_t rounded)
{
    return rounded < CREDIT_LARGE_UNITS * CREDIT_UNIT;
}

static size_t policy_acre_round(const acre_cache *cache, size_t bytes)
{
    (void)cache;
    return round_up(bytes, BLOCK_UNIT);
}

/* Segments grow with what their pool holds, so that their number stays small and
 * later requests find room in them; they are at most a share more than needed. */
static size_t policy_acre_segment_bytes(const acre_cache *cache, const struct request *request)
{
    size_t least = round_up(request->rounded, SIZE_LARGE_UNIT);
    size_t share = round_down(request->pool->held_bytes / ACRE_GROWTH_SHARE, SIZE_LARGE_UNIT);

    (void)cache;
    return least > share ? least : share;
}

/* The arena of the request, where blocks of the segment will be free. */
static acre_status policy_acre_prepare(acre_cache *cache, const struct request *request)
{
    (void)cache;
    return arena_get(request->pool, request->stream, NULL) ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

static struct block *policy_acre_find(acre_cache *cache, const struct request *request)
{
    struct arena *arena = arena_find(request->pool, request->stream);

    cache_count_find(cache, request->pool);
    return arena ? bins_take(&arena->bins, request->rounded) : NULL;
}

static bool policy_acre_may_split(const acre_cache *cache, const struct block *block,
                                  size_t rounded)
{
    (void)cache;
    (void)rounded;
    return !block->pool->is_unsplit;
}

/* ---- Live statistics ---------------------------------------------------------------- */

static void policy_acre_admit(acre_cache *cache, struct block *block)
{
    if (!block->arena)
        block->arena = arena_find(block->pool, block->stream);
    CHECK(block->arena);
    lane_prepare(block, block->bytes / BLOCK_UNIT, lane_class(block), block->arena->key);
    front_account_locked(cache->front, NULL, block);
    block_tag_live(block);
}

static void policy_acre_dismiss(acre_cache *cache, bool is_small, size_t bytes, size_t requested,
                                bool is_waiting)
{
    struct amounts amounts = credit_amounts(bytes / BLOCK_UNIT, requested);

    if (is_waiting)
        credit_wait(&cache->front->credit, is_small ? CREDIT_SMALL : CREDIT_LARGE, &amounts);
}

static void policy_acre_retire(acre_cache *cache, struct block *block)
{
    struct amounts amounts = credit_amounts(block->units, block->requested);
    enum credit_class class = lane_class(block);

    if (block->state == BLOCK_WAITING)
        credit_retire(&cache->front->credit, class, &amounts);
    else
        credit_drop(&cache->front->credit, class, &amounts);
    atomic_store_explicit(&block->tag, 0, memory_order_release);
}

/* Free blocks in segments that are partly used: all but whole segments, those
 * that threads keep included. Levels are exact; peaks and sums are those of the
 * moments at which somebody looked. Lanes are stopped. */
static void settle_split(acre_cache *cache)
{
    acre_cache_stats *stats = &cache->stats;
    int64_t count[2] = {(int64_t)pools_free_count_locked(cache, true),
                        (int64_t)pools_free_count_locked(cache, false)};
    int64_t bytes[2] = {
        stats->reserved_bytes.small_pool.current - stats->active_bytes.small_pool.current,
        stats->reserved_bytes.large_pool.current - stats->active_bytes.large_pool.current};

    for (struct pool *pool = NULL; (pool = pools_next_locked(cache, pool));)
        bytes[pool->is_small ? CREDIT_SMALL : CREDIT_LARGE] +=
            (int64_t)sleep_away_bytes(cache, pool); /* blocks without memory are blocks */
    LIST_FOR_EACH(link, &cache->front->lanes)
        lane_count(CONTAINER_OF(link, struct lane, cache_link), count);
    LIST_FOR_EACH(link, &cache->segments) {
        const struct block *block = CONTAINER_OF(link, struct segment, link)->first;
        int class = block->pool->is_small ? CREDIT_SMALL : CREDIT_LARGE;
        if (block_is_split(block) || (block->state != BLOCK_FREE && block->state != BLOCK_LIVE) ||
            block_tag_is_live(block) || block->is_late)
            continue;
        count[class]--;
        bytes[class] -= (int64_t)block->bytes;
    }
    for (int class = 0; class < CREDIT_CLASSES; class ++) {
        acre_stat_array *counts = &stats->inactive_split, *sums = &stats->inactive_split_bytes;
        bool is_small = class == CREDIT_SMALL;
        stats_move(counts, is_small,
                   count[class] - (is_small ? counts->small_pool : counts->large_pool).current);
        stats_move(sums, is_small,
                   bytes[class] - (is_small ? sums->small_pool : sums->large_pool).current);
    }
}

static void policy_acre_settle(acre_cache *cache)
{
    front_stop_locked(cache->front);
    front_collect_locked(cache->front);
    front_store_locked(cache->front, &cache->stats);
    for (struct pool *pool = NULL; (pool = pools_next_locked(cache, pool));)
        pool->free_count = arena_count(pool);
    settle_split(cache);
}

static void policy_acre_resume(acre_cache *cache)
{
    credit_load(&cache->front->credit, &cache->stats);
    front_go_locked(cache->front);
}

/* ---- The table ------------------------------------------------------------------------ */

static acre_status policy_acre_pool_init(acre_cache *cache, struct pool *pool)
{
    (void)cache;
    return arenas_init(pool);
}

static void policy_acre_pool_fini(acre_cache *cache, struct pool *pool)
{
    struct acre_device *device = cache->device;
    struct arenas *arenas = pool->index;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        if (arena->event)
            device->ops->event_destroy(device->self, device->index, arena->event);
    }
    arenas_fini(pool);
}

static void policy_acre_enable(acre_cache *cache, bool enabled)
{
    front_enable_locked(cache->front, enabled);
}

const struct policy policy_acre = {
    .id = ACRE_POLICY_ACRE,
    .name = "acre",
    .facts = {.has_lanes = true, .counts_late = true, .can_stitch = true},
    .round = policy_acre_round,
    .is_small = policy_acre_is_small,
    .segment_bytes = policy_acre_segment_bytes,
    .init = front_init,
    .fini = front_fini,
    .pool_init = policy_acre_pool_init,
    .pool_fini = policy_acre_pool_fini,
    .insert = arena_insert,
    .remove = arena_remove,
    .first = arena_first,
    .next = arena_next,
    .largest = arena_largest,
    .prepare = policy_acre_prepare,
    .find = policy_acre_find,
    .acquire = ladder_acquire_locked,
    .may_split = policy_acre_may_split,
    .admit = policy_acre_admit,
    .dismiss = policy_acre_dismiss,
    .retire = policy_acre_retire,
    .relieve = front_relieve_locked,
    .enable = policy_acre_enable,
    .settle = policy_acre_settle,
    .resume = policy_acre_resume,
    .pool_check = arena_check,
};
