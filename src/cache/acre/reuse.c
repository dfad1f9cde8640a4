/* SPDX-License-Identifier: MIT */
#include "cache/acre/reuse.h"

#include "backend/backend.h"
#include "cache/pools/capture.h"
#include "cache/size.h"
#include "cache/threads/front.h"

enum {
    REUSE_SLACK_SHARE = 1024, /* of all that is held: more than needed for small blocks */
};

/* ---- Memory of other streams -------------------------------------------------- */

/* Marks where the stream of an arena is now. Returns false when that is not possible;
 * the event then tells about an earlier moment and must not be trusted. */
static bool reuse_mark(acre_cache *cache, struct arena *arena)
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

bool reuse_is_idle(acre_cache *cache, struct arena *arena)
{
    struct acre_device *device = cache->device;

    if (!device_has(device, ACRE_CAP_STREAMS))
        return true;
    if (UNLIKELY(capture_is_own_locked(cache) || capture_runs_on_locked(cache, arena->stream)))
        return false; /* no event is recorded or looked at in a capture */
    return reuse_mark(cache, arena) &&
           device->ops->event_query(device->self, device->index, arena->event) == ACRE_OK;
}

static void move_all(acre_cache *cache, struct arena *from, struct arena *to)
{
    struct block *block;

    while ((block = bins_first(&from->bins)))
        arena_move(&cache->blocks, block, to);
}

/* Moves the free memory of all idle streams to the shared arena, where it joins. */
static void reuse_clean(acre_cache *cache, struct arena *shared_arena)
{
    struct arenas *arenas = shared_arena->pool->index;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        if (arena != shared_arena && arena->bins.count && reuse_is_idle(cache, arena))
            move_all(cache, arena, shared_arena);
    }
}

/* Moves all free memory to one arena: that of busy streams behind a wait. */
static void reuse_gather(acre_cache *cache, struct arena *shared_arena, struct arena *to)
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
             (arena->is_marked || reuse_mark(cache, arena)) &&
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

/* ---- Taking ------------------------------------------------------------------ */

/* Lets an arena that asks again and again, while no other does, have the shared arena and
 * look in its own memory first: asking all streams each time costs more than the
 * better fit is worth. */
static void reuse_prefer(acre_cache *cache, struct arena *shared_arena, struct arena *arena)
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

    reuse_prefer(cache, shared_arena, arena);
    if (arena->pool->stitch && !arena->pool->is_small) {
        /* The best fit of all that is free wastes least. */
        front_drain_own_locked(cache);
        if (!arena->is_first)
            reuse_clean(cache, shared_arena);
    }
    if (arena->is_first) {
        block = arena_take(arena, &cache->blocks, &cache->map, bytes);
        if (block)
            return block;
        reuse_clean(cache, shared_arena);
    }
    block = take_common(cache, shared_arena, arena, bytes);
    for (int step = 0; step < 2 && !block; step++) {
        bool large_only = step == 0;
        if (!large_only && !arena->pool->is_small)
            break;
        front_drain_locked(cache, large_only);
        reuse_clean(cache, shared_arena);
        block = take_common(cache, shared_arena, arena, bytes);
    }
    if (!block) /* its own, before waiting for others */
        block = arena_take(arena, &cache->blocks, &cache->map, bytes);
    if (block)
        return block;
    reuse_gather(cache, shared_arena, arena);
    return arena_take(arena, &cache->blocks, &cache->map, bytes);
}

bool reuse_has_slack(const acre_cache *cache, const struct pool *pool)
{
    const struct amounts *peak = &cache->front->credit.peak_live[CREDIT_SMALL];
    uint64_t needed = (uint64_t)peak->of[CREDIT_UNITS] * CREDIT_UNIT;
    uint64_t share = cache->held_bytes / REUSE_SLACK_SHARE, held = cache->small.held_bytes;

    if (pool == &cache->large)
        return held <= 2 * share;
    return pool == &cache->small && held + SIZE_LARGE_UNIT <= needed + share;
}

/* With one stream: from its arena, then after threads gave back what they keep. */
static struct block *take_alone(acre_cache *cache, struct arena *arena, size_t bytes)
{
    struct block *block = arena_take(arena, &cache->blocks, &cache->map, bytes);

    bool is_small = arena->pool->is_small;

    if (!block && !(is_small && reuse_has_slack(cache, arena->pool)) &&
        front_drain_locked(cache, !is_small))
        block = arena_take(arena, &cache->blocks, &cache->map, bytes);
    return block;
}

struct block *reuse_take_locked(acre_cache *cache, struct arena *arena, size_t bytes)
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

struct arena *reuse_arena_locked(acre_cache *cache, enum credit_class class, void *stream)
{
    struct arena *large = arena_get(&cache->large, stream, NULL);

    if (class == CREDIT_LARGE || !large)
        return large;
    return arena_get(&cache->small, stream, large);
}
