/* SPDX-License-Identifier: MIT */
/* Policy acre: fast and frugal.
 *
 * Blocks are as large as asked for, rounded up to 512 bytes, and cut off the
 * best of the free blocks at hand whatever remains; there is one pool for all
 * sizes. Where memory comes from, in this order:
 *
 *   1. the thread's lane                          (front.c, without the lock)
 *   2. free blocks of the stream's arena
 *   3. the same after all lanes have given back what they keep
 *   4. free blocks of other streams: once the work queued there is done, or
 *      behind a wait for it (option cross_stream_reuse)
 *   5. the same after all that is free has been joined across streams
 *   6. the device, and what comes before it on the engine's ladder (acquire.c)
 *
 * So nothing that any thread or stream keeps idle is the reason for growing. */
#include "cache/policy_acre.h"

#include "backend/backend.h"
#include "cache/front.h"
#include "cache/size.h"

/* ---- Memory of other streams -------------------------------------------------- */

/* Sees to it that work on the stream of to comes after all that is queued on
 * that of from; false when that is not possible or not wanted. */
static bool order_after(acre_cache *cache, struct arena *from, const struct arena *to)
{
    struct acre_device *device = cache->device;
    const acre_backend_ops *ops = device->ops;

    if (!device_has(device, ACRE_CAP_STREAMS))
        return true;
    if (!from->event &&
        ops->event_create(device->self, device->index, 0, &from->event) != ACRE_OK) {
        from->event = NULL;
        return false;
    }
    if (ops->event_record(device->self, device->index, from->event, from->stream) != ACRE_OK)
        return false;
    if (ops->event_query(device->self, device->index, from->event) == ACRE_OK)
        return true;
    return cache->conf.reuses_across_streams &&
           ops->stream_wait_event(device->self, device->index, to->stream, from->event) ==
               ACRE_OK;
}

/* A block of exactly bytes for to, cut off the free memory of another stream. */
static struct block *take_across(acre_cache *cache, struct arena *to, size_t bytes)
{
    struct arenas *arenas = to->pool->index;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *from = CONTAINER_OF(link, struct arena, link);
        if (from == to || !bins_find(&from->bins, bytes) || !order_after(cache, from, to))
            continue;
        struct block *block = arena_take(from, &cache->blocks, &cache->map, bytes);
        CHECK(block);
        block_arena_set(block, to);
        block->stream = to->stream;
        return block;
    }
    return NULL;
}

/* Moves all free memory of other streams to an arena, where neighbours join. */
static void gather(acre_cache *cache, struct arena *to)
{
    struct arenas *arenas = to->pool->index;
    struct block *block;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *from = CONTAINER_OF(link, struct arena, link);
        if (from == to || !from->bins.count || !order_after(cache, from, to))
            continue;
        while ((block = bins_first(&from->bins)))
            arena_move(&cache->blocks, block, to);
    }
}

/* ---- Allocating ------------------------------------------------------------------ */

/* Steps 3 to 5. */
static struct block *take_further(acre_cache *cache, struct arena *arena, size_t bytes)
{
    struct block *block = NULL;
    uint64_t count, free_bytes;

    if (front_relieve_locked(cache))
        block = arena_take(arena, &cache->blocks, &cache->map, bytes);
    arena_sums(arena->pool, &count, &free_bytes);
    if (block || free_bytes < bytes || count == arena->bins.count)
        return block;
    block = take_across(cache, arena, bytes);
    if (block)
        return block;
    gather(cache, arena);
    return arena_take(arena, &cache->blocks, &cache->map, bytes);
}

acre_status acre_alloc_locked(acre_cache *cache, struct arena *arena, struct request *request)
{
    acre_status status = engine_collect_locked(cache);

    if (UNLIKELY(status != ACRE_OK))
        return status;
    request->is_rejected = false;
    if (UNLIKELY(!arena || !block_store_reserve(&cache->blocks, 1)))
        return ACRE_ERR_HOST_MEMORY;
    request->block = arena_take(arena, &cache->blocks, &cache->map, request->rounded);
    if (LIKELY(request->block))
        return ACRE_OK;
    request->block = take_further(cache, arena, request->rounded);
    if (request->block)
        return ACRE_OK;
    status = engine_alloc_locked(cache, request);
    if (status == ACRE_OK)
        block_arena_set(request->block, arena);
    return status;
}

static size_t acre_round(const acre_cache *cache, size_t bytes)
{
    (void)cache;
    return round_up(bytes, BLOCK_UNIT);
}

static bool acre_is_small(size_t rounded)
{
    (void)rounded;
    return false;
}

/* Segments grow with what is held, so that their number stays small and large
 * requests find room in them, and are at most a sixteenth more than needed. */
static size_t acre_segment_bytes(const acre_cache *cache, size_t rounded)
{
    size_t least = round_up(rounded, SIZE_LARGE_UNIT);
    size_t share = round_down(cache->held_bytes / 16, SIZE_LARGE_UNIT);

    return least > share ? least : share;
}

static struct block *acre_find(acre_cache *cache, const struct request *request)
{
    struct arena *arena = arena_find(request->pool, request->stream);

    if (cache->conf.gc_threshold > 0 && cache->limit_bytes != ACRE_CACHE_NO_LIMIT)
        request->pool->find_count++;
    return arena ? bins_take(&arena->bins, request->rounded) : NULL;
}

static bool acre_may_split(const acre_cache *cache, const struct block *block, size_t rounded)
{
    (void)cache;
    (void)block;
    (void)rounded;
    return true;
}

/* ---- Live statistics ---------------------------------------------------------------- */

static void acre_admit(acre_cache *cache, struct block *block)
{
    if (!block_arena(block))
        block_arena_set(block, arena_find(block->pool, block->stream));
    lane_prepare(block);
    front_account_locked(cache->front, NULL, block);
    block_tag_live(block);
}

static void acre_dismiss(acre_cache *cache, bool is_small, size_t bytes, size_t requested,
                         bool is_waiting)
{
    struct amounts amounts = credit_amounts(bytes / BLOCK_UNIT, requested);

    (void)is_small;
    if (is_waiting)
        credit_wait(&cache->front->credit, credit_class_of(bytes / BLOCK_UNIT), &amounts);
}

static void acre_retire(acre_cache *cache, struct block *block)
{
    struct amounts amounts = credit_amounts(block->units, block->requested);
    enum credit_class class = credit_class_of(block->units);

    if (block->state == BLOCK_WAITING)
        credit_retire(&cache->front->credit, class, &amounts);
    else
        credit_drop(&cache->front->credit, class, &amounts);
    atomic_store_explicit(&block->tag, 0, memory_order_release);
}

/* Free blocks in segments that are partly used: all but whole segments, those
 * that threads keep included. Levels are exact; peaks and sums are those of the
 * moments at which somebody looked. */
static void settle_split(acre_cache *cache)
{
    acre_cache_stats *stats = &cache->stats;
    int64_t count = (int64_t)(cache->blocks.total_count - cache->blocks.spare_count);
    int64_t bytes = stats->reserved_bytes.all.current - stats->active_bytes.all.current;

    count -= stats->active.all.current;
    LIST_FOR_EACH(link, &cache->direct)
        count--;
    LIST_FOR_EACH(link, &cache->segments) {
        const struct block *block = CONTAINER_OF(link, struct segment, link)->first;
        if (block_is_split(block) || block->state == BLOCK_WAITING || block_tag_is_live(block))
            continue;
        count--;
        bytes -= (int64_t)block->bytes;
    }
    stats_move(&stats->inactive_split, false, count - stats->inactive_split.all.current);
    stats_move(&stats->inactive_split_bytes, false,
               bytes - stats->inactive_split_bytes.all.current);
}

static void acre_settle(acre_cache *cache)
{
    front_stop_locked(cache->front);
    front_collect_locked(cache->front);
    credit_store(&cache->front->credit, &cache->stats);
    arena_sums(&cache->large, &cache->large.free_count, &cache->large.free_bytes);
    settle_split(cache);
}

static void acre_resume(acre_cache *cache)
{
    credit_load(&cache->front->credit, &cache->stats);
    front_go_locked(cache->front);
}

/* ---- The table ------------------------------------------------------------------------ */

static acre_status acre_pool_init(acre_cache *cache, struct pool *pool)
{
    (void)cache;
    return arenas_init(pool);
}

static void acre_pool_fini(acre_cache *cache, struct pool *pool)
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

static void acre_enable(acre_cache *cache, bool enabled)
{
    front_enable_locked(cache->front, enabled);
}

const struct policy policy_acre = {
    .id = ACRE_POLICY_ACRE,
    .name = "acre",
    .round = acre_round,
    .is_small = acre_is_small,
    .segment_bytes = acre_segment_bytes,
    .init = front_init,
    .fini = front_fini,
    .pool_init = acre_pool_init,
    .pool_fini = acre_pool_fini,
    .insert = arena_insert,
    .remove = arena_remove,
    .first = arena_first,
    .next = arena_next,
    .find = acre_find,
    .may_split = acre_may_split,
    .admit = acre_admit,
    .dismiss = acre_dismiss,
    .retire = acre_retire,
    .relieve = front_relieve_locked,
    .enable = acre_enable,
    .settle = acre_settle,
    .resume = acre_resume,
    .pool_check = arena_check,
};
