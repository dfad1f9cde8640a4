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
 *   4. what nobody uses any more, whichever stream it served: the shared arena
 *   5. free blocks of busy streams, behind a wait for them (option
 *      cross_stream_reuse), all joined
 *   6. the device, and what comes before it on the engine's ladder (acquire.c)
 *
 * So nothing that any thread or stream keeps idle is the reason for growing. */
#include "cache/acre/policy_acre.h"

#include "backend/backend.h"
#include "cache/threads/front.h"
#include "cache/size.h"
#include "cache/acre/stitch.h"

enum {
    ACRE_GROWTH_SHARE = 16,  /* a segment is at least this part of what its pool holds */
    ACRE_SLACK_SHARE = 1024, /* of all that is held: more than needed for small blocks */
};

/* ---- Memory of other streams -------------------------------------------------- */

/* Marks where the stream of an arena is now. Returns false when that is not possible;
 * the event then tells about an earlier moment and must not be trusted. */
static bool policy_acre_mark(acre_cache *cache, struct arena *arena)
{
    struct acre_device *device = cache->device;
    const acre_backend_ops *ops = device->ops;

    arena->is_marked = false;
    if (!arena->event &&
        ops->event_create(device->self, device->index, 0, &arena->event) != ACRE_OK) {
        arena->event = NULL;
        return false;
    }
    arena->is_marked =
        ops->event_record(device->self, device->index, arena->event, arena->stream) == ACRE_OK;
    return arena->is_marked;
}

bool acre_arena_is_idle(acre_cache *cache, struct arena *arena)
{
    struct acre_device *device = cache->device;

    if (!device_has(device, ACRE_CAP_STREAMS))
        return true;
    if (UNLIKELY(capture_runs_on_locked(cache, arena->stream)))
        return false;
    return policy_acre_mark(cache, arena) &&
           device->ops->event_query(device->self, device->index, arena->event) == ACRE_OK;
}

static void move_all(acre_cache *cache, struct arena *from, struct arena *to)
{
    struct block *block;

    while ((block = bins_first(&from->bins)))
        arena_move(&cache->blocks, block, to);
}

/* Moves the free memory of all idle streams to the shared arena, where it joins. */
static void policy_acre_clean(acre_cache *cache, struct arena *shared_arena)
{
    struct arenas *arenas = shared_arena->pool->index;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        if (arena != shared_arena && arena->bins.count && acre_arena_is_idle(cache, arena))
            move_all(cache, arena, shared_arena);
    }
}

/* Moves all free memory to one arena: that of busy streams behind a wait. */
static void policy_acre_gather(acre_cache *cache, struct arena *shared_arena, struct arena *to)
{
    struct acre_device *device = cache->device;
    struct arenas *arenas = to->pool->index;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        if (arena == to || !arena->bins.count)
            continue;
        /* Its stream was marked by clean. Where recording the event failed there, it is
         * tried once more: an older record does not cover what was queued since. */
        if (arena == shared_arena ||
            (cache->conf.reuses_across_streams && !capture_runs_on_locked(cache, arena->stream) &&
             (arena->is_marked || policy_acre_mark(cache, arena)) &&
             device->ops->stream_wait_event(device->self, device->index, to->stream,
                                            arena->event) == ACRE_OK))
            move_all(cache, arena, to);
    }
}

/* A block from the shared arena for the stream of to. */
static struct block *take_common(acre_cache *cache, struct arena *shared_arena, struct arena *to,
                                 size_t bytes)
{
    struct block *block = arena_take(shared_arena, &cache->blocks, &cache->map, bytes);

    if (block) {
        block->arena = to;
        block->stream = to->stream;
    }
    return block;
}

/* ---- Allocating ------------------------------------------------------------------ */

/* Lets an arena that asks again and again, while no other does, have the shared arena and
 * look in its own memory first: asking all streams each time costs more than the
 * better fit is worth. */
static void policy_acre_prefer(acre_cache *cache, struct arena *shared_arena, struct arena *arena)
{
    struct arenas *arenas = arena->pool->index;

    if (arenas->last != arena) {
        if (arenas->last)
            arenas->last->is_first = false;
        arenas->last = arena;
        arenas->last_count = 0;
    }
    if (arenas->last_count < ARENA_FIRST_AFTER) {
        arenas->last_count++;
    } else {
        move_all(cache, shared_arena, arena);
        arena->is_first = true;
    }
}

/* With several streams: from the shared arena first, so that memory of one stream is
 * not cut up while better fitting memory is nobody's; then what threads keep and
 * what idle streams have goes there; last, all that is free joins in arena. */
static struct block *take_among(acre_cache *cache, struct arena *shared_arena, struct arena *arena,
                                size_t bytes)
{
    struct block *block;

    policy_acre_prefer(cache, shared_arena, arena);
    if (arena->pool->stitch && !arena->pool->is_small) {
        /* The best fit of all that is free wastes least. */
        front_drain_own_locked(cache);
        if (!arena->is_first)
            policy_acre_clean(cache, shared_arena);
    }
    if (arena->is_first) {
        block = arena_take(arena, &cache->blocks, &cache->map, bytes);
        if (block)
            return block;
        policy_acre_clean(cache, shared_arena);
    }
    block = take_common(cache, shared_arena, arena, bytes);
    for (int step = 0; step < 2 && !block; step++) {
        bool large_only = step == 0;
        if (!large_only && !arena->pool->is_small)
            break;
        front_drain_locked(cache, large_only);
        policy_acre_clean(cache, shared_arena);
        block = take_common(cache, shared_arena, arena, bytes);
    }
    if (!block) /* its own, before waiting for others */
        block = arena_take(arena, &cache->blocks, &cache->map, bytes);
    if (block)
        return block;
    policy_acre_gather(cache, shared_arena, arena);
    return arena_take(arena, &cache->blocks, &cache->map, bytes);
}

/* Whether a pool may grow while threads keep small blocks, of which they would be
 * asked again and again: they are little of all that is held. */
static bool has_slack(const acre_cache *cache, const struct pool *pool)
{
    const struct amounts *peak = &cache->front->credit.peak_live[CREDIT_SMALL];
    uint64_t needed = (uint64_t)peak->of[CREDIT_UNITS] * CREDIT_UNIT;
    uint64_t share = cache->held_bytes / ACRE_SLACK_SHARE, held = cache->small.held_bytes;

    if (pool == &cache->large)
        return held <= 2 * share;
    return pool == &cache->small && held + SIZE_LARGE_UNIT <= needed + share;
}

/* With one stream: from its arena, then after threads gave back what they keep. */
static struct block *take_alone(acre_cache *cache, struct arena *arena, size_t bytes)
{
    struct block *block = arena_take(arena, &cache->blocks, &cache->map, bytes);

    bool is_small = arena->pool->is_small;

    if (!block && !(is_small && has_slack(cache, arena->pool)) &&
        front_drain_locked(cache, !is_small))
        block = arena_take(arena, &cache->blocks, &cache->map, bytes);
    return block;
}

struct block *acre_take_free_locked(acre_cache *cache, struct arena *arena, size_t bytes)
{
    struct arena *shared_arena = arena->shared_arena;

    /* No event is recorded or looked at in a capture. */
    if (UNLIKELY(capture_may_run_locked(cache)) &&
        (capture_is_own_locked(cache) || capture_runs_on_locked(cache, arena->stream)))
        return take_alone(cache, arena, bytes);

    if (LIKELY(!shared_arena)) {
        struct block *block = take_alone(cache, arena, bytes);
        if (block || arena_count(arena->pool) == arena->bins.count)
            return block;
        shared_arena = arena_shared(arena->pool);
    }
    return shared_arena ? take_among(cache, shared_arena, arena, bytes) : NULL;
}

struct block *acre_take_locked(acre_cache *cache, struct arena *arena, size_t bytes)
{
    struct block *block = acre_take_free_locked(cache, arena, bytes);

    return block || !arena->pool->stitch ? block : stitch_reuse(cache, arena, bytes);
}

struct arena *acre_arena_locked(acre_cache *cache, enum credit_class class, void *stream)
{
    struct arena *large = arena_get(&cache->large, stream, NULL);

    if (class == CREDIT_LARGE || !large)
        return large;
    return arena_get(&cache->small, stream, large);
}

acre_status acre_alloc_locked(acre_cache *cache, struct arena *arena, struct request *request)
{
    acre_status status = engine_collect_locked(cache, request->stream);

    if (UNLIKELY(status != ACRE_OK))
        return status;
    request->is_rejected = false;
    if (UNLIKELY(!arena || !block_store_reserve(&cache->blocks, 1)))
        return ACRE_ERR_HOST_MEMORY;
    request->block = acre_take_locked(cache, arena, request->rounded);
    if (request->block)
        return ACRE_OK;
    request->pool = arena->pool;
    request->has_slack = has_slack(cache, arena->pool);
    status = engine_alloc_in_locked(cache, request);
    if (status == ACRE_OK && !request->block->arena)
        request->block->arena = arena; /* a segment of its own */
    return status;
}

static bool acre_is_small(size_t rounded)
{
    return rounded < CREDIT_LARGE_UNITS * CREDIT_UNIT;
}

static size_t acre_round(const acre_cache *cache, size_t bytes)
{
    (void)cache;
    return round_up(bytes, BLOCK_UNIT);
}

/* Segments grow with what their pool holds, so that their number stays small and
 * later requests find room in them; they are at most a share more than needed. */
static size_t acre_segment_bytes(const acre_cache *cache, const struct request *request)
{
    size_t least = round_up(request->rounded, SIZE_LARGE_UNIT);
    size_t share = round_down(request->pool->held_bytes / ACRE_GROWTH_SHARE, SIZE_LARGE_UNIT);

    (void)cache;
    return least > share ? least : share;
}

/* The arena of the request, where blocks of the segment will be free. */
static acre_status acre_prepare(acre_cache *cache, const struct request *request)
{
    (void)cache;
    return arena_get(request->pool, request->stream, NULL) ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

static struct block *acre_find(acre_cache *cache, const struct request *request)
{
    struct arena *arena = arena_find(request->pool, request->stream);

    if (cache->conf.gc_threshold > 0 && cache->limit_bytes != ACRE_CACHE_NO_LIMIT)
        request->pool->find_count++;
    return arena ? bins_take(&arena->bins, request->rounded) : NULL;
}

/* Rather than fail, a request takes what the pool of the other class has free on
 * its stream. */
static struct block *acre_borrow(acre_cache *cache, const struct request *request)
{
    const struct private_pool *owner = request->pool->owner;
    const struct pool *small = owner ? &owner->small : &cache->small;
    const struct pool *large = owner ? &owner->large : &cache->large;
    struct arena *arena = arena_find(request->pool->is_small ? large : small, request->stream);

    return arena ? bins_take(&arena->bins, request->rounded) : NULL;
}

static bool acre_may_split(const acre_cache *cache, const struct block *block, size_t rounded)
{
    (void)cache;
    (void)rounded;
    return !block->pool->is_unsplit;
}

/* ---- Live statistics ---------------------------------------------------------------- */

static void acre_admit(acre_cache *cache, struct block *block)
{
    if (!block->arena)
        block->arena = arena_find(block->pool, block->stream);
    CHECK(block->arena);
    lane_prepare(block, block->bytes / BLOCK_UNIT, lane_class(block), block->arena->key);
    front_account_locked(cache->front, NULL, block);
    block_tag_live(block);
}

static void acre_dismiss(acre_cache *cache, bool is_small, size_t bytes, size_t requested,
                         bool is_waiting)
{
    struct amounts amounts = credit_amounts(bytes / BLOCK_UNIT, requested);

    if (is_waiting)
        credit_wait(&cache->front->credit, is_small ? CREDIT_SMALL : CREDIT_LARGE, &amounts);
}

static void acre_retire(acre_cache *cache, struct block *block)
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
            block_tag_is_live(block))
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

static void acre_settle(acre_cache *cache)
{
    front_stop_locked(cache->front);
    front_collect_locked(cache->front);
    credit_store(&cache->front->credit, &cache->stats);
    for (struct pool *pool = NULL; (pool = pools_next_locked(cache, pool));)
        pool->free_count = arena_count(pool);
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
    .prepare = acre_prepare,
    .find = acre_find,
    .borrow = acre_borrow,
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
