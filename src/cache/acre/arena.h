/* SPDX-License-Identifier: MIT */
/* The free memory of one pool, one arena per stream: policy acre's index.
 *
 * A free block lies in the bins of the arena of its stream. Free neighbours of
 * one arena are joined at once; neighbours of different arenas are not, since
 * work queued on either stream may still use its part. A block may move to
 * another arena once that is settled (see arena_move). One more arena, the shared arena,
 * belongs to no stream: no work uses its blocks any more, and any stream may take them. It
 * is made when a second stream appears.
 *
 *             arena_take              (front.c)
 *      FREE ─────────────► LIVE ◄──────────────► in a thread's cache
 *       ▲                    │
 *       └──── arena_put ─────┘
 *
 * Not thread-safe: the owner's lock is held around every call. Arenas live as
 * long as their pool, so threads may compare their addresses at any time.
 */
#ifndef SRC_CACHE_ARENA_H
#define SRC_CACHE_ARENA_H

#include "base/ptrmap.h"
#include "cache/acre/bins.h"
#include "cache/map.h"
#include "cache/torch/pool.h"
#include "cache/segment.h"

struct arena {
    struct list link;   /* in arenas.list                                       */
    struct pool *pool;  /* whose free blocks these are                          */
    struct arena *key;  /* one arena for all of the stream: names its lanes     */
    struct arena *shared_arena; /* that of the pool, or NULL as long as there is none */
    void *stream;       /* native stream that the blocks serve                  */
    void *event;        /* for asking how far the stream is; NULL until needed  */
    bool is_marked;     /* the last try to record the event worked              */
    size_t page_bytes;  /* that of the pool                                     */
    size_t care_bytes;  /* that of the pool: from here on, where to cut matters */
    bool is_first;      /* it alone asked lately, and has what was nobody's      */
    struct bins bins;   /* FREE blocks                                          */
};

enum { ARENA_FIRST_AFTER = 16 }; /* requests in a row that make an arena the first */

/* All arenas of a pool; pool->index. */
struct arenas {
    struct list list;      /* most recently made first; the shared arena among them */
    struct ptrmap by_stream; /* the arenas of list, but for that of the stream NULL  */
    struct arena *of_null; /* the arena of the stream NULL, or NULL            */
    struct arena *shared_arena; /* NULL until asked for                             */
    struct arena *last;    /* that asked last among several; NULL: none yet    */
    unsigned last_count;   /* how often in a row, up to ARENA_FIRST_AFTER      */
};

/* Prepares pool->index. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status arenas_init(struct pool *pool);
/* Frees the arenas; neither their blocks nor their events are touched. */
void arenas_fini(struct pool *pool);

/* From now on takes any block that fits and cuts it anywhere: for jobs that do not repeat,
 * where searching costs more than it saves. */
void arenas_relax(struct pool *pool);

/* The arena of a stream, or NULL when there is none yet. */
struct arena *arena_find(const struct pool *pool, const void *stream);
/* The arena of a stream, made if need be; NULL: no host memory. key is that of an
 * arena of the same stream in another pool, or NULL. */
struct arena *arena_get(struct pool *pool, void *stream, struct arena *key);

/* The shared arena, made if need be; NULL: no host memory. */
struct arena *arena_shared(struct pool *pool);

/* Puts a FREE block into the bins of the arena of its stream, which exists, and
 * takes one out. */
void arena_insert(struct pool *pool, struct block *block);
void arena_remove(struct pool *pool, struct block *block);

/* Walks all FREE blocks of a pool; NULL at the end. */
struct block *arena_first(const struct pool *pool);
struct block *arena_next(const struct pool *pool, const struct block *block);
/* Bytes of the largest FREE block of a pool; 0 when there is none. */
size_t arena_largest(const struct pool *pool);

/* Puts a FREE block into the bins of its arena. */
static inline void arena_index(struct arena *arena, struct block *block)
{
    block->gc_base = arena->pool->find_count;
    bins_insert(&arena->bins, block);
}

/* Cuts the first bytes off a FREE block that stays in the bins. As block_split,
 * without the moves in between. */
static inline struct block *arena_cut(struct arena *arena, struct block_store *store,
                                struct block *from, size_t bytes)
{
    struct block *block = block_spare_take(store), *prev = from->prev;

    block->base = from->base;
    block->bytes = bytes;
    block->origin = from->origin;
    block->arena = arena;
    block->prev = prev;
    block->next = from;
    if (prev)
        prev->next = block;
    else
        from->segment->first = block;
    from->prev = block;
    from->base += bytes;
    bins_resize(&arena->bins, from, from->bytes - bytes);
    return block;
}

/* Cuts bytes at an offset out of a FREE block that is in the bins: a block that is
 * in none, between what stays FREE before it, in a new object, and behind it, in
 * the old one. Two spare block objects must be there. */
struct block *arena_carve(struct arena *arena, struct block_store *store, struct block *from,
                          size_t offset, size_t bytes);
/* As arena_carve, at the place that breaks the fewest free pages, and that keeps a block
 * which is about a number of pages from sharing any. */
struct block *arena_carve_pages(struct arena *arena, struct block_store *store,
                                struct block *from, size_t bytes);

/* Takes a stitched block apart; see range_dissolve. */
void range_dissolve(struct block_store *store, struct block *block);

/* A LIVE block of exactly bytes, cut off a FREE one if need be, in the map; NULL
 * when none is large enough. A spare block object must be there. */
static inline struct block *arena_take(struct arena *arena, struct block_store *store,
                                       struct map *map, size_t bytes)
{
    struct block *block = arena->care_bytes == SIZE_MAX ? bins_find(&arena->bins, bytes)
                                                        : bins_find_best(&arena->bins, bytes);

    if (UNLIKELY(!block))
        return NULL;
    if (UNLIKELY(block->bytes == bytes))
        bins_remove(&arena->bins, block);
    else if (LIKELY(bytes < arena->care_bytes))
        block = arena_cut(arena, store, block, bytes);
    else
        block = arena_carve_pages(arena, store, block, bytes);
    block->state = BLOCK_LIVE;
    map_set(map, block->base, block);
    return block;
}

static inline bool arena_has(const struct block *block, const struct arena *arena)
{
    return block && block->state == BLOCK_FREE && block->arena == arena;
}

/* Joins a block that is in no bin with its free neighbours and puts the whole
 * into the bins of arena. A neighbour survives, so that it can stay in its bin
 * when the size class does not change. */
static inline void arena_join(struct block_store *store, struct arena *arena, struct block *block)
{
    struct block *prev = block->prev, *next = block->next;
    size_t bytes = block->bytes;

    if (arena_has(prev, arena)) {
        if (arena_has(next, arena)) {
            bins_remove(&arena->bins, next);
            bytes += next->bytes;
            block->next = next->next;
            block_destroy(store, next);
        }
        prev->next = block->next;
        if (prev->next)
            prev->next->prev = prev;
    } else if (arena_has(next, arena)) {
        next->base = block->base;
        next->prev = prev;
        if (prev)
            prev->next = next;
        else
            block->segment->first = next;
        prev = next;
    } else {
        block->state = BLOCK_FREE;
        arena_index(arena, block);
        return;
    }
    prev->gc_base = arena->pool->find_count;
    bins_resize(&arena->bins, prev, prev->bytes + bytes);
    block_destroy(store, block);
}

/* Makes a LIVE block FREE again and joins it with its neighbours. Its entry in
 * the map stays: a pointer that leads there finds an object without a tag. */
static inline void arena_put(struct block_store *store, struct block *block)
{
    CHECK(block->state == BLOCK_LIVE);
    CHECK(!block->uses && !block->event_count);
    if (UNLIKELY(block->is_stitched))
        range_dissolve(store, block);
    else
        arena_join(store, block->arena, block);
}

/* Whether a block is free and nobody's: its stream is none. */
static inline bool block_is_common(const struct block *block)
{
    return block->arena && block->arena->shared_arena == block->arena;
}

/* Makes a FREE block one of to. The caller has seen to it that work on the
 * stream of to comes after all that was queued for the block. */
void arena_move(struct block_store *store, struct block *block, struct arena *to);

/* How many FREE blocks a pool has. */
uint64_t arena_count(const struct pool *pool);

/* Whether the bins of all arenas hold; names the fact that does not. */
bool arena_check(const struct pool *pool, const char **fact);

#endif
