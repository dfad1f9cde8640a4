/* SPDX-License-Identifier: MIT */
/* Saving how the memory of a private pool is divided, and dividing it so again.
 *
 * Restoring has two halves. The first only looks: the pool must be there and in
 * use, each saved segment must be there with memory wherever it had some, and
 * nobody may still need a block that is live now; host memory for all that
 * follows is taken. The second half cannot fail:
 *
 *   1. every live block is freed, so that each run of memory is one free block
 *   2. each run is cut as it was, from left to right, every piece handed out
 *   3. the pieces that were free then are freed
 *
 * Blocks that threads keep (policy acre) go back first; lanes are stopped until it is done. */
#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/acre/arena.h"
#include "cache/cache.h"
#include "cache/engine.h"
#include "cache/fork.h"
#include "cache/pools/capture.h"
#include "cache/pools/sleep.h"
#include "cache/reclaim.h"
#include "cache/threads/front.h"
#include "cache/observe/record.h"

#include <acre/pool.h>

/* A block as it was: FREE, LIVE or UNMAPPED. */
struct saved_block {
    char *base;
    size_t bytes;
    void *stream;
    enum block_state state;
};

/* A segment as it was. */
struct saved_segment {
    char *base;
    size_t bytes;
    bool is_small, is_expandable;
    uint64_t first; /* index of its first block          */
    uint64_t count; /* its blocks, in address order      */
};

struct acre_pool_state {
    const acre_cache *cache; /* whose; only compared              */
    acre_pool_id id;
    struct saved_segment *segments;
    uint64_t segment_count;
    struct saved_block *blocks;
    uint64_t block_count;
    uint64_t live_count; /* LIVE ones among them              */
};

static acre_status fail_id(acre_pool_id id)
{
    return status_fail(ACRE_ERR_NOT_FOUND, "Could not find pool of id (%llu, %llu)",
                       (unsigned long long)id.graph, (unsigned long long)id.user);
}

/* Stitched memory joins free pages at new addresses and takes ranges apart, so the
 * division of an earlier moment cannot be made again. */
static acre_status checkpoint_refuse(acre_pool_id id)
{
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "acre_pool_save: pool (%llu, %llu) has stitched memory, whose free "
                       "addresses change; create the pool without ACRE_POOL_STITCHED",
                       (unsigned long long)id.graph, (unsigned long long)id.user);
}

/* Walks the segments of a private pool. */
#define FOR_EACH_SEGMENT(segment, cache, owner_)                                                   \
    LIST_FOR_EACH(link_, &(cache)->segments)                                                       \
        for (struct segment *segment = CONTAINER_OF(link_, struct segment, link); segment;         \
             segment = NULL)                                                                       \
            if (segment->pool->owner == (owner_))

/* Frees what waits for nobody any more, and stops lanes with nothing in them. */
static acre_status settle_locked(acre_cache *cache, const struct private_pool *pool)
{
    late_settle_locked(cache); /* so that nobody frees later what is live again then */
    acre_status status = capture_flush_locked(cache, pool);

    if (status == ACRE_OK && !cache->capture_count)
        deferred_collect_slow(&cache->deferred, engine_done_locked, cache);
    if (status == ACRE_OK && cache->facts.has_lanes)
        front_halt_locked(cache);
    return status;
}

static void let_go_locked(acre_cache *cache)
{
    if (cache->facts.has_lanes)
        front_go_locked(cache->front);
}

/* Whether no block of a pool waits for streams; counts its live ones. */
static acre_status check_waiting_locked(const acre_cache *cache, const struct private_pool *pool,
                                        uint64_t *out_live)
{
    *out_live = 0;
    FOR_EACH_SEGMENT(segment, cache, pool)
        for (const struct block *block = segment->first; block; block = block->next) {
            if (block->state == BLOCK_WAITING)
                return status_fail(ACRE_ERR_NOT_READY,
                                   "the block of %zu bytes at %p was freed, "
                                   "but streams still use it; synchronize them first",
                                   block->bytes, (void *)block->base);
            *out_live += block->state == BLOCK_LIVE;
        }
    return ACRE_OK;
}

/* ---- Saving ----------------------------------------------------------------------- */

static void count_locked(const acre_cache *cache, const struct private_pool *pool,
                         acre_pool_state *state)
{
    FOR_EACH_SEGMENT(segment, cache, pool) {
        state->segment_count++;
        for (const struct block *block = segment->first; block; block = block->next)
            state->block_count++;
    }
}

static void copy_locked(const acre_cache *cache, const struct private_pool *pool,
                        acre_pool_state *state)
{
    struct saved_segment *saved = state->segments;
    struct saved_block *at = state->blocks;

    FOR_EACH_SEGMENT(segment, cache, pool) {
        *saved = (struct saved_segment){.base = segment->base,
                                        .bytes = segment->bytes,
                                        .is_small = segment->pool->is_small,
                                        .is_expandable = segment->expand != NULL,
                                        .first = (uint64_t)(at - state->blocks)};
        for (const struct block *block = segment->first; block; block = block->next)
            *at++ = (struct saved_block){block->base, block->bytes, block->stream,
                                         (enum block_state)block->state};
        saved->count = (uint64_t)(at - state->blocks) - saved->first;
        saved++;
    }
}

static acre_status save_locked(acre_cache *cache, acre_pool_state *state)
{
    const struct private_pool *pool = private_pool_find(&cache->private_pools, state->id);

    if (!pool)
        return fail_id(state->id);
    if (pool->sleep)
        return sleep_refuse(pool, "acre_pool_save");
    if (pool->large.stitch)
        return checkpoint_refuse(state->id);
    acre_status status = settle_locked(cache, pool);
    if (status != ACRE_OK)
        return status;
    status = check_waiting_locked(cache, pool, &state->live_count);
    if (status == ACRE_OK) {
        count_locked(cache, pool, state);
        state->segments = heap_array(state->segment_count + 1, sizeof *state->segments);
        state->blocks = heap_array(state->block_count + 1, sizeof *state->blocks);
        if (state->segments && state->blocks)
            copy_locked(cache, pool, state);
        else
            status = ACRE_ERR_HOST_MEMORY;
    }
    let_go_locked(cache);
    return status;
}

acre_status acre_pool_save(acre_cache *cache, acre_pool_id id, acre_pool_state **out)
{
    if (!cache || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pool_save: an argument is NULL");
    REFUSE_FORKED(cache);
    acre_pool_state *state = heap_zalloc(sizeof *state);
    if (!state)
        return ACRE_ERR_HOST_MEMORY;
    state->cache = cache;
    state->id = id;
    quick_lock_take(&cache->lock);
    acre_status status = save_locked(cache, state);
    quick_lock_drop(&cache->lock);
    if (status == ACRE_OK)
        *out = state;
    else
        acre_pool_state_destroy(state);
    return status;
}

void acre_pool_state_destroy(acre_pool_state *state)
{
    if (!state)
        return;
    heap_free(state->segments);
    heap_free(state->blocks);
    heap_free(state);
}

/* ---- Looking ------------------------------------------------------------------------ */

/* A segment of the pool with that base and size, or NULL. */
static struct segment *find_segment_locked(const acre_cache *cache, const struct private_pool *pool,
                                           const struct saved_segment *saved)
{
    FOR_EACH_SEGMENT(segment, cache, pool)
        if (segment->base == saved->base && segment->bytes == saved->bytes &&
            segment->pool->is_small == saved->is_small &&
            (segment->expand != NULL) == saved->is_expandable)
            return segment;
    return NULL;
}

/* Whether all of [base, base + bytes) has memory; *at is a block at or before it,
 * and becomes the last one looked at. */
static bool has_memory(const struct block **at, const char *base, size_t bytes)
{
    while ((*at)->base + (*at)->bytes <= base)
        *at = (*at)->next;
    for (;; *at = (*at)->next) {
        if ((*at)->state == BLOCK_UNMAPPED)
            return false;
        if ((*at)->base + (*at)->bytes >= base + bytes)
            return true;
    }
}

/* Whether a saved segment can be divided again. */
static acre_status check_segment_locked(const acre_cache *cache, const struct private_pool *pool,
                                        const acre_pool_state *state,
                                        const struct saved_segment *saved)
{
    const struct segment *segment = find_segment_locked(cache, pool, saved);
    const struct block *at = segment ? segment->first : NULL;
    bool is_there = segment != NULL;

    for (uint64_t i = 0; is_there && i < saved->count; i++) {
        const struct saved_block *block = &state->blocks[saved->first + i];
        if (block->state == BLOCK_UNMAPPED)
            continue;
        is_there = has_memory(&at, block->base, block->bytes);
        if (is_there && cache->facts.has_lanes)
            is_there = arena_find(segment->pool, block->stream) != NULL;
    }
    if (is_there)
        return ACRE_OK;
    return status_fail(ACRE_ERR_NOT_FOUND,
                       "the segment at %p, or memory in it, could not be "
                       "found in the pool any more; restore before the pool is emptied",
                       (void *)saved->base);
}

static acre_status fail_used(const struct block *block)
{
    return status_fail(ACRE_ERR_STATE,
                       "the live block of %zu bytes at %p is used on "
                       "other streams or shared; free it first",
                       block->bytes, (void *)block->base);
}

/* Whether another process has an export of a block open. A failure means that nobody knows it. */
static bool is_open_elsewhere(const struct block *block)
{
    const struct share *share = share_of(block);
    uint64_t count = 0;
    struct status_saved before;

    if (!share)
        return false;
    status_save(&before);
    if (share_users(share, &count) != ACRE_OK)
        status_restore(&before);
    return count > 0;
}

/* Live blocks must be free to go: no other stream, process or capture has them. What is
 * exported, and open nowhere, stays so until nothing can fail (end_exports_locked). */
static acre_status check_uses_locked(const acre_cache *cache, const struct private_pool *pool)
{
    FOR_EACH_SEGMENT(segment, cache, pool)
        for (const struct block *block = segment->first; block; block = block->next)
            for (const struct use *use = block->uses; use; use = use->next)
                if (!use->hold || is_open_elsewhere(block))
                    return fail_used(block);
    return ACRE_OK;
}

/* Ends what is exported, unless another process opens it right now. */
static acre_status end_exports_locked(acre_cache *cache, const struct private_pool *pool)
{
    FOR_EACH_SEGMENT(segment, cache, pool)
        for (struct block *block = segment->first; block; block = block->next) {
            if (block->uses)
                deferred_settle_holds(&cache->deferred, block);
            if (block->uses)
                return fail_used(block);
        }
    return ACRE_OK;
}

static acre_status check_locked(acre_cache *cache, const struct private_pool *pool,
                                const acre_pool_state *state, uint64_t *out_live)
{
    acre_status status = check_waiting_locked(cache, pool, out_live);

    if (status == ACRE_OK)
        status = check_uses_locked(cache, pool);
    for (uint64_t i = 0; i < state->segment_count && status == ACRE_OK; i++)
        status = check_segment_locked(cache, pool, state, &state->segments[i]);
    /* Pieces may change streams. */
    if (status == ACRE_OK && cache->facts.has_lanes)
        status = reclaim_quiesce(cache);
    return status;
}

/* ---- Dividing -------------------------------------------------------------------------- */

/* Frees all live blocks of a pool. */
static void free_all_locked(acre_cache *cache, const struct private_pool *pool,
                            acre_pool_delta *delta)
{
    FOR_EACH_SEGMENT(segment, cache, pool)
        for (struct block *block = segment->first; block; block = block->next) {
            if (block->state != BLOCK_LIVE)
                continue;
            delta->freed[delta->freed_count++] = block->base;
            acre_status status = cache_free_block_locked(cache, block);
            CHECK(status == ACRE_OK && block->state == BLOCK_FREE);
        }
}

/* Joins the free blocks of a segment, whichever streams they served. */
static void join_streams_locked(acre_cache *cache, struct segment *segment, const void *stream)
{
    struct arena *to = arena_find(segment->pool, stream);

    for (struct block *block = segment->first; block; block = block->next) {
        if (block->state != BLOCK_FREE || block->arena == to)
            continue;
        struct block *prev = block->prev;
        arena_move(&cache->blocks, block, to);
        block = prev ? prev : segment->first; /* what was moved may be another object */
    }
}

/* Hands out the first bytes of a free block. */
static struct block *cut_locked(acre_cache *cache, struct block *from, size_t bytes, void *stream)
{
    struct block *block = engine_cut_locked(cache, from, bytes);

    if (cache->facts.has_lanes) {
        block->stream = stream;
        block->arena = arena_find(block->pool, stream);
    }
    record_alloc_locked(cache, block);
    cache->policy->admit(cache, block);
    return block;
}

/* Cuts a segment as it was; every piece is LIVE then. */
static void cut_all_locked(acre_cache *cache, struct segment *segment,
                           const struct saved_block *saved, uint64_t count)
{
    struct block *at = segment->first;

    for (uint64_t i = 0; i < count; i++) {
        if (saved[i].state == BLOCK_UNMAPPED)
            continue;
        while (at->base + at->bytes <= saved[i].base)
            at = at->next;
        if (at->base < saved[i].base) /* the run has grown downwards */
            at = cut_locked(cache, at, (size_t)(saved[i].base - at->base), at->stream)->next;
        CHECK(at->state == BLOCK_FREE && at->base == saved[i].base);
        at = cut_locked(cache, at, saved[i].bytes, saved[i].stream);
    }
}

/* Frees the pieces of a segment that were not live. */
static void free_rest_locked(acre_cache *cache, struct segment *segment,
                             const struct saved_block *saved, uint64_t count,
                             acre_pool_delta *delta)
{
    uint64_t i = 0;

    for (struct block *block = segment->first; block; block = block->next) {
        if (block->state != BLOCK_LIVE)
            continue;
        while (i < count && saved[i].base < block->base)
            i++;
        if (i < count && saved[i].base == block->base && saved[i].state == BLOCK_LIVE)
            delta->allocated[delta->allocated_count++] = block->base;
        else
            cache_free_block_locked(cache, block);
    }
}

static void divide_locked(acre_cache *cache, const struct private_pool *pool,
                          const acre_pool_state *state, acre_pool_delta *delta)
{
    free_all_locked(cache, pool, delta);
    for (uint64_t i = 0; i < state->segment_count; i++) {
        const struct saved_segment *saved = &state->segments[i];
        const struct saved_block *blocks = &state->blocks[saved->first];
        struct segment *segment = find_segment_locked(cache, pool, saved);
        if (cache->facts.has_lanes)
            join_streams_locked(cache, segment, blocks[0].stream);
        cut_all_locked(cache, segment, blocks, saved->count);
        free_rest_locked(cache, segment, blocks, saved->count, delta);
    }
}

/* ---- Restoring ---------------------------------------------------------------------------- */

/* The pool of a state, when it may be divided again. */
static acre_status find_pool_locked(acre_cache *cache, acre_pool_id id, struct private_pool **out)
{
    struct private_pool *pool = private_pool_find(&cache->private_pools, id);

    if (!pool)
        return fail_id(id);
    if (pool->sleep)
        return sleep_refuse(pool, "acre_pool_restore");
    if (!pool->use_count)
        return status_fail(ACRE_ERR_STATE,
                           "acre_pool_restore: pool (%llu, %llu) is freeable; "
                           "restore while it is used",
                           (unsigned long long)id.graph, (unsigned long long)id.user);
    capture_sweep_locked(cache);
    acre_status status = capture_search_locked(cache);
    if (status != ACRE_OK)
        return status;
    if (cache->capture_count && (cache->facts.has_lanes || pool->has_scope))
        return status_fail(ACRE_ERR_STATE, "acre_pool_restore: a capture runs; end it first");
    *out = pool;
    return ACRE_OK;
}

static acre_pool_delta *delta_create(uint64_t freed, uint64_t allocated)
{
    acre_pool_delta *delta = heap_zalloc(sizeof *delta);

    if (!delta)
        return NULL;
    delta->freed = heap_array(freed + 1, sizeof *delta->freed);
    delta->allocated = heap_array(allocated + 1, sizeof *delta->allocated);
    if (delta->freed && delta->allocated)
        return delta;
    acre_pool_delta_destroy(delta);
    return NULL;
}

void acre_pool_delta_destroy(acre_pool_delta *delta)
{
    if (!delta)
        return;
    heap_free(delta->freed);
    heap_free(delta->allocated);
    heap_free(delta);
}

static acre_status restore_locked(acre_cache *cache, const acre_pool_state *state,
                                  acre_pool_delta **out)
{
    struct private_pool *pool = NULL;
    uint64_t live_count;
    acre_status status = find_pool_locked(cache, state->id, &pool);

    if (status == ACRE_OK)
        status = settle_locked(cache, pool);
    if (status != ACRE_OK)
        return status;
    status = check_locked(cache, pool, state, &live_count);
    if (status == ACRE_OK) {
        /* Each saved block may be cut off, and what lies before each run. */
        bool has_spares = block_store_reserve(&cache->blocks, 2 * state->block_count + 2);
        *out = has_spares ? delta_create(live_count, state->live_count) : NULL;
        status = *out ? end_exports_locked(cache, pool) : ACRE_ERR_HOST_MEMORY;
        if (status == ACRE_OK)
            divide_locked(cache, pool, state, *out);
    }
    let_go_locked(cache);
    return status;
}

acre_status acre_pool_restore(acre_cache *cache, const acre_pool_state *state,
                              acre_pool_delta **out_delta)
{
    acre_pool_delta *delta = NULL;

    if (!cache || !state || state->cache != cache)
        return status_fail(ACRE_ERR_INVALID, "acre_pool_restore: a state that acre_pool_save "
                                             "made of this cache is needed");
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    acre_status status = restore_locked(cache, state, &delta);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    if (status == ACRE_OK && out_delta)
        *out_delta = delta;
    else
        acre_pool_delta_destroy(delta);
    return status;
}
