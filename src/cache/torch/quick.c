/* SPDX-License-Identifier: MIT */
/* The ordinary case of policy torch in one piece: a free block of a plain segment of the shared
 * pool is found and perhaps cut; a block that no other stream uses is joined with its
 * neighbours. Decisions and statistics are those of the engine with policy_torch.c, which serve
 * whatever is not ordinary: the first test that fails hands the call over to them, before
 * anything has changed.
 *
 * A free block that is cut, or grows because a neighbour was freed, keeps its object and mostly
 * its place in the index, instead of being taken out and put in again. */
#include "cache/torch/quick.h"

#include "cache/fork.h"
#include "cache/size.h"
#include "cache/torch/shelf.h"

/* The shelf of a stream if it is the one last looked up; else NULL. */
static inline struct shelf *shelf_at_hand(const struct pool *pool, const void *stream)
{
    struct shelf *shelf = pool->recent;

    return LIKELY(shelf && shelf->stream == stream) ? shelf : NULL;
}

/* Whether routes, waiting blocks, expandable segments and recorders are out of play. */
static inline bool alloc_is_ordinary(const acre_cache *cache)
{
    return !cache->deferred.pending_count && !cache->expands && !cache->history.is_armed &&
           list_empty(&cache->scopes) && cache->blocks.spare_count;
}

/* Cuts the first bytes off a free block: the new block that is handed out. */
static inline struct block *cut_front(acre_cache *cache, struct shelf *shelf, struct block *tail,
                                      size_t bytes)
{
    struct block *front = block_spare_take(&cache->blocks), *prev = tail->prev;

    front->base = tail->base;
    front->bytes = bytes;
    front->origin = tail->origin;
    front->is_oversize = front->is_expandable = front->is_stitched = false;
    front->state = BLOCK_LIVE;
    front->prev = prev;
    front->next = tail;
    tail->prev = front;
    *(prev ? &prev->next : &tail->segment->first) = front;
    tail->gc_base = tail->pool->find_count;
    shelf_change(shelf, tail, tail->base + bytes, tail->bytes - bytes);
    return front;
}

/* Takes a free block out of its pool, whole or cut, and accounts for that. */
static inline struct block *take_block(acre_cache *cache, struct shelf *shelf, struct block *block,
                                       size_t rounded)
{
    struct pool *pool = block->pool;
    bool is_small = pool->is_small, was_split = block_is_split(block);
    size_t rest = block->bytes - rounded;

    if (is_small ? rest >= BLOCK_UNIT : rest > SIZE_SMALL_MAX) {
        block = cut_front(cache, shelf, block, rounded);
        pool->free_bytes -= rounded;
        if (LIKELY(was_split))
            tally_move(&cache->tally, is_small, TALLY_SPLIT_BYTES, -(int64_t)rounded);
        else
            tally_split(&cache->tally, is_small, 1, (int64_t)rest);
        return block;
    }
    shelf_remove(shelf, block);
    pool->free_count--;
    pool->free_bytes -= block->bytes;
    block->state = BLOCK_LIVE;
    if (was_split)
        tally_split(&cache->tally, is_small, -1, -(int64_t)block->bytes);
    return block;
}

/* A block for a request, or NULL when the engine has to serve it. */
static inline struct block *serve_locked(acre_cache *cache, size_t bytes, void *stream)
{
    size_t rounded = size_round(&cache->conf, bytes), limit = cache->conf.max_split_bytes;
    struct pool *pool = size_is_small(rounded) ? &cache->small : &cache->large;
    struct shelf *shelf = shelf_at_hand(pool, stream);

    if (UNLIKELY(!shelf || !alloc_is_ordinary(cache)))
        return NULL;
    struct block *block = shelf_find(shelf, rounded);
    if (UNLIKELY(!block || block->is_expandable || block->bytes >= limit))
        return NULL;
    cache_count_find(cache, pool);
    block = take_block(cache, shelf, block, rounded);
    block->requested = bytes;
    map_set(&cache->map, block->base, block);
    tally_add(&cache->tally, pool->is_small, block->bytes, bytes);
    return block;
}

acre_status quick_alloc(acre_cache *cache, size_t bytes, void *stream, void **out)
{
    if (UNLIKELY(!out || bytes - 1 >= SIZE_REQUEST_END - 1 ||
                 cache->fork_generation != fork_generation() || cache->is_forbidden ||
                 !atomic_load_explicit(&cache->is_enabled, memory_order_relaxed)))
        return cache_alloc(cache, bytes, stream, out);
    quick_lock_take(&cache->lock);
    const struct block *block = serve_locked(cache, bytes, stream);
    if (UNLIKELY(!block)) {
        quick_lock_drop(&cache->lock);
        return cache_alloc(cache, bytes, stream, out);
    }
    *out = block->base;
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return ACRE_OK;
}

/* Whether a neighbour is to be joined with a block. */
static inline bool is_joined(const struct block *neighbour, const struct block *block)
{
    return neighbour && neighbour->state == BLOCK_FREE && neighbour->stream == block->stream;
}

/* Joins a block with the free one before it, which stays in the index and is the result. With
 * next, that one goes, too. */
static inline struct block *join_prev(acre_cache *cache, struct shelf *shelf, struct block *block,
                                      struct block *next)
{
    struct block *prev = block->prev;
    size_t bytes = prev->bytes + block->bytes;

    if (next) {
        shelf_remove(shelf, next);
        block->pool->free_count--;
        bytes += next->bytes;
        prev->next = next->next;
        block_destroy(&cache->blocks, next);
    } else {
        prev->next = block->next;
    }
    if (prev->next)
        prev->next->prev = prev;
    shelf_change(shelf, prev, prev->base, bytes);
    block_destroy(&cache->blocks, block);
    return prev;
}

/* Joins a block with the free one behind it, in the same way. */
static inline struct block *join_next(acre_cache *cache, struct shelf *shelf, struct block *block,
                                      struct block *next)
{
    next->prev = block->prev;
    *(next->prev ? &next->prev->next : &next->segment->first) = next;
    shelf_change(shelf, next, block->base, next->bytes + block->bytes);
    block_destroy(&cache->blocks, block);
    return next;
}

/* Puts a block that nobody uses back into its pool, joined with its neighbours. */
static inline void put_locked(acre_cache *cache, struct shelf *shelf, struct block *block)
{
    struct pool *pool = block->pool;
    struct block *prev = is_joined(block->prev, block) ? block->prev : NULL;
    struct block *next = is_joined(block->next, block) ? block->next : NULL;
    int64_t bytes = (int64_t)block->bytes;
    size_t requested = block->requested;
    int count = 1;

    pool->free_bytes += block->bytes;
    if (prev || next) {
        count = prev && next ? -1 : 0;
        block = prev ? join_prev(cache, shelf, block, next) : join_next(cache, shelf, block, next);
        block->requested = requested;
    } else {
        block->state = BLOCK_FREE;
        pool->free_count++;
        shelf_insert(shelf, block);
    }
    block->gc_base = pool->find_count;
    if (LIKELY(block_is_split(block))) {
        tally_split(&cache->tally, pool->is_small, count, bytes);
    } else if (count < 1) { /* the segment is whole again: its other free parts were counted */
        tally_split(&cache->tally, pool->is_small, count - 1, bytes - (int64_t)block->bytes);
    }
}

acre_status quick_free(acre_cache *cache, void *pointer)
{
    if (UNLIKELY(cache->fork_generation != fork_generation() || !pointer ||
                 atomic_load_explicit(&cache->history.level, memory_order_relaxed)))
        return cache_free(cache, pointer);
    quick_lock_take(&cache->lock);
    _Atomic(struct block *) *place = map_place_near(&cache->map, pointer);
    struct block *block = place ? atomic_load_explicit(place, memory_order_relaxed) : NULL;
    struct shelf *shelf;
    if (UNLIKELY(!block || block->base != pointer || block->state != BLOCK_LIVE || block->uses ||
                 block->is_oversize || block->is_expandable || block->is_late ||
                 block->pool->owner || cache->history.is_armed ||
                 !(shelf = shelf_at_hand(block->pool, block->stream)))) {
        quick_lock_drop(&cache->lock);
        return cache_free(cache, pointer);
    }
    atomic_store_explicit(place, NULL, memory_order_release);
    tally_remove(&cache->tally, block->pool->is_small, block->bytes, block->requested);
    put_locked(cache, shelf, block);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return ACRE_OK;
}
