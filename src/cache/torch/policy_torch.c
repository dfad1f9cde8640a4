/* SPDX-License-Identifier: MIT */
/* Policy torch: the decisions of PyTorch's allocator, to the byte.
 *
 * Best fit by (stream, size, age of the segment, address); the small pool cuts
 * whenever 512 bytes remain, the large one only when more than 1 MiB does and
 * the request is below max_split_size. With expandable segments both cut whenever
 * 512 bytes remain, and a hole is preferred to an end that can grow. */
#include "cache/acquire.h"
#include "cache/cache.h"
#include "cache/size.h"

static size_t torch_round(const acre_cache *cache, size_t bytes)
{
    return size_round(&cache->conf, bytes);
}

static size_t torch_segment_bytes(const acre_cache *cache, const struct request *request)
{
    return size_segment(&cache->conf, request->rounded);
}

static acre_status torch_pool_init(acre_cache *cache, struct pool *pool)
{
    (void)cache;
    (void)pool;
    return ACRE_OK;
}

static void torch_pool_fini(acre_cache *cache, struct pool *pool)
{
    (void)cache;
    pool_fini(pool);
}

static acre_status torch_prepare(acre_cache *cache, const struct request *request)
{
    (void)cache;
    return pool_prepare(request->pool, request->stream);
}

/* Bytes a block could have without moving: a free end that can grow counts as
 * large as it can get. */
static size_t policy_torch_reach(const struct block *block)
{
    const struct block *next = block->next;

    return block->bytes + (next && next->state == BLOCK_UNMAPPED ? next->bytes : 0);
}

/* From the best fit, which is expandable, to the block to take: one that cannot
 * grow is better than one that can. While the option is off expandable memory is
 * left alone. */
static struct block *policy_torch_choose(struct pool *pool, struct block *block, bool expands)
{
    if (!expands) {
        while (block && block->is_expandable)
            block = pool_following(pool, block);
        return block;
    }
    while (block->is_expandable && policy_torch_reach(block) > block->bytes) {
        struct block *next = pool_following(pool, block);
        if (!next || policy_torch_reach(next) >= policy_torch_reach(block))
            break;
        block = next;
    }
    return block;
}

static struct block *torch_find(acre_cache *cache, const struct request *request)
{
    const struct cache_conf *conf = &cache->conf;
    struct pool *pool = request->pool;
    size_t rounded = request->rounded;

    cache_count_find(cache, pool);
    struct block *block = pool_find(pool, request->stream, rounded);
    if (block && block->is_expandable)
        block = policy_torch_choose(pool, block, cache_expands(cache, pool));
    if (!block)
        return NULL;
    if (rounded < conf->max_split_bytes && block->bytes >= conf->max_split_bytes)
        return NULL;
    if (rounded >= conf->max_split_bytes && block->bytes - rounded >= cache_conf_rounding(conf))
        return NULL;
    pool_remove(pool, block);
    return block;
}

static bool torch_may_split(const acre_cache *cache, const struct block *block, size_t rounded)
{
    size_t rest = block->bytes - rounded;

    if (UNLIKELY(block->pool->is_unsplit))
        return false;
    if (block->pool->is_small || cache_expands(cache, block->pool))
        return rest >= BLOCK_UNIT;
    return rounded < cache->conf.max_split_bytes && rest > SIZE_SMALL_MAX;
}

static void torch_admit(acre_cache *cache, struct block *block)
{
    tally_add(&cache->tally, block->pool->is_small, block->bytes, block->requested);
}

/* A block that does not wait is accounted for when it is retired. */
static void torch_dismiss(acre_cache *cache, bool is_small, size_t bytes, size_t requested,
                          bool is_waiting)
{
    (void)requested;
    if (is_waiting)
        tally_wait(&cache->tally, &cache->stats, is_small, bytes);
}

static void torch_retire(acre_cache *cache, struct block *block)
{
    bool is_small = block->pool->is_small;

    if (block->state == BLOCK_WAITING)
        tally_retire(&cache->tally, &cache->stats, is_small, block->bytes, block->requested);
    else
        tally_remove(&cache->tally, is_small, block->bytes, block->requested);
}

/* Threads keep nothing. */
static bool torch_relieve(acre_cache *cache)
{
    (void)cache;
    return false;
}

static void torch_enable(acre_cache *cache, bool enabled)
{
    (void)cache;
    (void)enabled;
}

static void torch_settle(acre_cache *cache)
{
    tally_settle(&cache->tally, &cache->stats);
}

static void torch_resume(acre_cache *cache)
{
    tally_resume(&cache->tally, &cache->stats);
}

const struct policy policy_torch = {
    .id = ACRE_POLICY_TORCH,
    .name = "torch",
    .facts = {.can_expand = true, .splits_to_limit = true},
    .round = torch_round,
    .is_small = size_is_small,
    .segment_bytes = torch_segment_bytes,
    .pool_init = torch_pool_init,
    .pool_fini = torch_pool_fini,
    .insert = pool_insert,
    .remove = pool_remove,
    .first = pool_first,
    .next = pool_next,
    .largest = pool_largest,
    .prepare = torch_prepare,
    .find = torch_find,
    .acquire = acquire_locked,
    .may_split = torch_may_split,
    .admit = torch_admit,
    .dismiss = torch_dismiss,
    .retire = torch_retire,
    .relieve = torch_relieve,
    .enable = torch_enable,
    .settle = torch_settle,
    .resume = torch_resume,
    .pool_check = pool_check,
};
