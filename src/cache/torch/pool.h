/* SPDX-License-Identifier: MIT */
/* Free blocks of one pool, ordered by (stream, size, order, address).
 *
 * Policy torch takes the first block that is large enough, so among equal sizes
 * the one of the oldest segment, then the lowest address, is reused first. Each
 * stream has a shelf; shelves are kept in the order of their streams. Other
 * policies keep their own index behind `index` and have no shelves.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_POOL_H
#define SRC_CACHE_POOL_H

#include "cache/block.h"

#include <acre/base.h>

struct private_pool;
struct shelf;
struct stitch;

struct pool {
    struct shelf **shelves;  /* one per stream, by increasing handle                 */
    size_t shelf_count, shelf_capacity;
    struct shelf *recent;    /* the one last looked up; NULL when there is none      */
    void *index;             /* what another policy keeps instead; owned by it      */
    struct stitch *stitch;   /* where its memory comes from; NULL: plain segments   */
    size_t page_bytes;       /* with stitch: that of its pages; else SIZE_MAX       */
    size_t care_bytes;       /* the same, until arenas_relax                        */
    uint64_t free_count;     /* blocks in the index                                 */
    uint64_t free_bytes;     /* and their bytes                                     */
    uint64_t find_count;     /* clock of garbage collection: searches while it is on */
    uint64_t held_bytes;     /* held from the device: segments, or mapped pages     */
    uint64_t segment_count;  /* segments of it in the cache's list                  */
    struct private_pool *owner; /* NULL: a shared pool                              */
    uint64_t id[2];          /* 0, 0: the shared pool                               */
    bool is_small;           /* serves requests up to SIZE_SMALL_MAX                */
    bool is_unsplit;         /* blocks are handed out whole                         */
};

void pool_init(struct pool *pool, bool is_small);
/* Frees the shelves; blocks are not owned. */
void pool_fini(struct pool *pool);

/* Makes sure that blocks of a stream can be inserted.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status pool_prepare(struct pool *pool, void *stream);

/* Adds a FREE block of a stream that was prepared, and starts its age at 0. */
void pool_insert(struct pool *pool, struct block *block);
void pool_remove(struct pool *pool, struct block *block);

/* First block of stream with at least bytes, in order; NULL when none. */
struct block *pool_find(struct pool *pool, const void *stream, size_t bytes);
/* Last, so largest, block of stream; NULL when there is none. */
struct block *pool_find_last(struct pool *pool, const void *stream);

/* Walks in order; NULL at the end. pool_prev stays within the stream. */
struct block *pool_first(const struct pool *pool);
struct block *pool_next(const struct pool *pool, const struct block *block);
/* Bytes of the largest; 0 when there is none. */
size_t pool_largest(const struct pool *pool);
struct block *pool_prev(struct pool *pool, const struct block *block);

/* Next in order on the stream of block; NULL at its end. */
struct block *pool_following(struct pool *pool, const struct block *block);

/* The shelf of a stream that was prepared. */
struct shelf *pool_shelf(struct pool *pool, const void *stream);

/* Age of a free block in searches of its pool. */
static inline uint64_t pool_age(const struct pool *pool, const struct block *block)
{
    return pool->find_count - block->gc_base;
}

/* Whether shelves, order and sums hold and every member is FREE. */
bool pool_check(const struct pool *pool, const char **fact);

#endif
