/* SPDX-License-Identifier: MIT */
/* The free memory of one pool, one arena per stream: policy acre's index.
 *
 * A free block lies in the bins of the arena of its stream. Free neighbours of
 * one arena are joined at once; neighbours of different arenas are not, since
 * work queued on either stream may still use its part. A block may move to
 * another arena once that is settled (see arena_move).
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

#include "cache/bins.h"
#include "cache/map.h"
#include "cache/pool.h"

struct arena {
    struct list link;   /* in arenas.list                                       */
    struct pool *pool;  /* whose free blocks these are                          */
    void *stream;       /* native stream that the blocks serve                  */
    void *event;        /* for asking how far the stream is; NULL until needed  */
    struct bins bins;   /* FREE blocks                                          */
};

/* All arenas of a pool; pool->index. */
struct arenas {
    struct list list; /* most recently made first */
};

/* Prepares pool->index. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status arenas_init(struct pool *pool);
/* Frees the arenas; the blocks in them are not touched, their events neither. */
void arenas_fini(struct pool *pool);

/* The arena of a stream, or NULL when there is none yet. */
struct arena *arena_find(const struct pool *pool, const void *stream);
/* The arena of a stream, made if need be; NULL: no host memory. */
struct arena *arena_get(struct pool *pool, void *stream);

/* Puts a FREE block into the bins of the arena of its stream, which exists, and
 * takes one out. */
void arena_insert(struct pool *pool, struct block *block);
void arena_remove(struct pool *pool, struct block *block);

/* Walks all FREE blocks of a pool; NULL at the end. */
struct block *arena_first(const struct pool *pool);
struct block *arena_next(const struct pool *pool, const struct block *block);

/* A LIVE block of exactly bytes, cut off a FREE one if need be, in the map; NULL
 * when none is large enough. A spare block object must be there. */
struct block *arena_take(struct arena *arena, struct block_store *store, struct map *map,
                         size_t bytes);
/* Makes a LIVE or WAITING block FREE again and joins it with its neighbours. */
void arena_put(struct block_store *store, struct map *map, struct block *block);

/* Makes a FREE block one of to. The caller has seen to it that work on the
 * stream of to comes after all that was queued for the block. */
void arena_move(struct block_store *store, struct block *block, struct arena *to);

/* How many FREE blocks a pool has, and their bytes. */
void arena_sums(const struct pool *pool, uint64_t *count, uint64_t *bytes);

/* Whether the bins of all arenas hold; names the fact that does not. */
bool arena_check(const struct pool *pool, const char **fact);

#endif
