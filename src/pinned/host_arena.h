/* SPDX-License-Identifier: MIT */
/* The memory of one pool, and where its free blocks are.
 *
 *   extents ──► blocks by address ──► FREE ones also in `free`, by size
 *                                 └─► bodies of slabs ──► slots, by size class
 *   at_hand   per size a stack of blocks freed last, not joined with anything yet
 *   idle      extents of which nothing is used, longest first
 *   buckets   policy torch: free extents by power of two, most recently freed first
 *
 * Sizes of policy acre: below 4 KiB multiples of 64 bytes, below 32 KiB of 512, both
 * in slabs; from there whole pages. So nothing of 512 bytes and more is rounded up by
 * more than an eighth. The best fit is taken, of equals that of the oldest extent, so
 * that nothing depends on the addresses the system gives; the rest stays free.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_PINNED_HOST_ARENA_H
#define SRC_PINNED_HOST_ARENA_H

#include "base/bits.h"
#include "cache/map.h"
#include "pinned/events.h"
#include "pinned/host_block.h"
#include "pinned/slab.h"

#include <acre/pinned.h>

#define HOST_ARENA_PAGE ((size_t)4096)
#define HOST_ARENA_FINE_END ((size_t)4096)    /* requests below are multiples of 64  */
#define HOST_ARENA_SLAB_END ((size_t)32768)   /* blocks below lie in slabs           */

enum {
    HOST_ARENA_SLAB_CLASSES = 128,             /* places below are those of slots     */
    HOST_ARENA_STACKS = HOST_ARENA_SLAB_CLASSES + 64, /* whole pages share 64              */
};

struct host_pool {
    struct host_block *at_hand[HOST_ARENA_STACKS]; /* each ends in host_arena_end                */
    int64_t drained_at;         /* blocks freed in all when nothing was at hand last */
    struct rbtree free;         /* FREE blocks of whole pages                     */
    struct list slabs[HOST_ARENA_SLAB_CLASSES]; /* with free slots                     */
    struct list buckets[ACRE_PINNED_BUCKETS];
    struct list extents;        /* oldest first                                   */
    struct list idle;           /* extents, longest idle first                    */
    uint64_t held_bytes;        /* of extents                                     */
    uint64_t last_order;        /* of the newest extent                           */
    struct events events;       /* what WAITING blocks wait for                   */
    struct list captured;       /* CAPTURED blocks, oldest first                  */
    struct list postponed;      /* WAITING, until a stream is no longer captured  */
    struct map *map;            /* that of the cache                              */
    /* A private pool; all 0 for the shared one. */
    struct list link;           /* in the cache's list, oldest first              */
    acre_pool_id id;
    uint64_t use_count;         /* 0: freeable                                    */
    uint32_t busy_count;        /* calls that dropped the lock and return         */
    bool has_scope;             /* the next three count                           */
    acre_pool_filter filter;
    uint64_t thread;            /* that began the scope                           */
    uint64_t number;            /* grows with every scope                         */
};

/* Ends every stack; its size is that of no request. */
extern struct host_block host_arena_end;
/* Stacks with nothing in them; never written. */
extern struct host_block *host_arena_nothing[HOST_ARENA_STACKS];

/* Size of the block for a request; 0: none can be so large. */
static inline size_t host_arena_round(size_t bytes)
{
    if (bytes < HOST_ARENA_FINE_END)
        return (bytes + 63) & ~(size_t)63;
    if (bytes < HOST_ARENA_SLAB_END)
        return (bytes + 511) & ~(size_t)511;
    return (bytes + HOST_ARENA_PAGE - 1) & ~(HOST_ARENA_PAGE - 1);
}

/* Where blocks of a rounded size lie at hand; below HOST_ARENA_SLAB_CLASSES also the class
 * of their slabs. */
static inline size_t host_arena_stack(size_t rounded)
{
    if (rounded < HOST_ARENA_FINE_END)
        return rounded >> 6;
    if (rounded < HOST_ARENA_SLAB_END)
        return 64 + (rounded >> 9);
    return HOST_ARENA_SLAB_CLASSES + ((rounded >> 12) & 63);
}

/* Both of these at once. */
static inline size_t host_arena_place(size_t bytes, size_t *out_rounded)
{
    if (bytes <= HOST_ARENA_FINE_END - 64) {
        *out_rounded = (bytes + 63) & ~(size_t)63;
        return *out_rounded >> 6;
    }
    if (bytes <= HOST_ARENA_SLAB_END - 512) {
        *out_rounded = (bytes + 511) & ~(size_t)511;
        return 64 + (*out_rounded >> 9);
    }
    *out_rounded = (bytes + HOST_ARENA_PAGE - 1) & ~(HOST_ARENA_PAGE - 1);
    return HOST_ARENA_SLAB_CLASSES + ((*out_rounded >> 12) & 63);
}

void host_arena_init(struct host_pool *pool, struct map *map, bool in_one_order);

/* ---- Extents ---------------------------------------------------------------------- */

/* An extent object for memory to come, with one piece; NULL: no host memory. */
struct extent *host_extent_create(void);
/* Frees the objects; the memory is the caller's, and nothing of it is in use. */
void host_extent_destroy(struct extent *extent);

/* Takes memory in: one FREE piece in no index. Errors: ACRE_ERR_HOST_MEMORY,
 * ACRE_ERR_RANGE (addresses beyond 2^57). */
acre_status host_arena_add(struct host_pool *pool, struct extent *extent, void *base, size_t bytes);
/* Takes an extent whose one piece is FREE and in no index out of its pool. */
void host_arena_remove(struct extent *extent);

/* ---- Policy acre ------------------------------------------------------------------ */

/* Puts the piece of a new extent among the free ones. */
void host_arena_open(struct extent *extent);

/* Hands out a piece of a rounded size. *out_need gets the bytes that an extent has to
 * have when there is none. Errors: ACRE_ERR_NOT_FOUND (no text), ACRE_ERR_HOST_MEMORY. */
acre_status host_arena_take(struct host_pool *pool, size_t rounded, struct host_block **out,
                       size_t *out_need);

/* Makes a piece that is handed out free. */
void host_arena_put(struct host_block *host_block);

/* Keeps a piece at hand, and makes all that are kept free. */
static inline void host_arena_keep(struct host_block *host_block)
{
    host_block->state = PIECE_AT_HAND;
    host_block->below = *host_block->stack;
    *host_block->stack = host_block;
}
void host_arena_drain(struct host_pool *pool);

/* Takes an idle extent out of its pool, whichever policy put it there. */
void host_arena_withdraw(struct extent *extent);

/* ---- Policy torch ----------------------------------------------------------------- */

/* Bucket of a size: the exponent of the next power of two. */
static inline unsigned bucket_of(uint64_t bytes)
{
    return bytes <= 1 ? 0 : bit_high(bytes - 1) + 1;
}

/* The most recently freed piece of the bucket that is large enough; NULL: none. */
struct host_block *bucket_take(struct host_pool *pool, size_t rounded);
/* Puts a piece that is handed out, the only one of its extent, into its bucket. */
void bucket_put(struct host_block *host_block);

/* ---- Both ------------------------------------------------------------------------- */

/* The piece that is handed out, waits or is kept at an address, by its first byte; NULL:
 * there is none. */
static inline struct host_block *host_arena_find(const struct map *map, const void *pointer)
{
    struct host_block *host_block = (struct host_block *)(void *)map_find(map, pointer);

    if (!host_block)
        return NULL;
    if (host_block->state == PIECE_BODY)
        host_block = slab_slot(host_block->slab, pointer);
    return host_block && host_block->base == pointer ? host_block : NULL;
}

/* Whether the facts of piece.h hold; names the one that does not. */
bool host_arena_check(const struct host_pool *pool, const char **fact);

#endif
