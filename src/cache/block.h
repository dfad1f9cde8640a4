/* SPDX-License-Identifier: MIT */
/* A block: a piece of a segment that is live, waiting, free or without pages.
 *
 *              engine_alloc_locked        engine_free_locked, other streams use it
 *       FREE ─────────────────────► LIVE ───────────────────────────────► WAITING
 *        ▲                           │                                      │
 *        └───────────────────────────┴──────────────────────────────────────┘
 *          engine_put_locked: at once, or when deferred_collect sees the last event
 *
 * Always: the blocks of a segment tile it, linked through prev and next in
 *         address order; two neighbours are never both FREE;
 *         a FREE block is in the index of its pool, no other is;
 *         a LIVE block has no events; a WAITING one has event_count of them in
 *         the deferred queues and no uses; a FREE one has neither.
 *
 * Block objects come from a store and go back to it; the store keeps them until
 * it ends, so a stale pointer to one still points at a block object.
 *
 * Not thread-safe: the owner's lock is held around every call, except that tag
 * belongs to the front (front.c says who moves it).
 */
#ifndef SRC_CACHE_BLOCK_H
#define SRC_CACHE_BLOCK_H

#include "base/list.h"
#include "base/rbtree.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool;
struct segment;
struct use;

/* Numbers as acre_block_state. */
enum block_state {
    BLOCK_FREE = 0,     /* in the index of its pool                        */
    BLOCK_LIVE = 1,     /* handed out                                      */
    BLOCK_WAITING = 2,  /* freed, but a stream may still use it            */
    BLOCK_UNMAPPED = 3, /* addresses of an expandable segment, no pages    */
    BLOCK_DIRECT = 4,   /* not cached: one whole device allocation, no segment */
    BLOCK_SPARE = 5,    /* an unused object in its store                   */
};

struct block {
    union {
        struct rbnode node;  /* place in the size order of the pool (policy torch) */
        struct list link;    /* place in a bin (policy acre); list of direct ones  */
    };
    char *base;              /* first byte                                         */
    size_t bytes;            /* size, a multiple of BLOCK_UNIT                     */
    void *stream;            /* native stream it serves                            */
    uint64_t order;          /* that of its segment: older segments first          */
    struct block *prev;      /* neighbours in the segment; NULL at its ends;       */
    struct block *next;      /* next also links spare objects                      */
    struct segment *segment; /* NULL for direct blocks only                        */
    struct pool *pool;       /* that of the segment                                */
    size_t requested;        /* bytes last asked for; kept when freed, 0 if never  */
    struct use *uses;        /* other streams that use it, newest first; LIVE only */
    uint64_t gc_base;        /* pool->find_count when it became free               */
    uint32_t event_count;    /* events until it is free; WAITING only              */
    uint8_t state;           /* enum block_state                                   */
    bool is_oversize;        /* counted in oversize_allocations                    */
    _Atomic uint32_t tag;    /* the front's mark of liveness                       */
};

/* Smallest block and unit of all sizes and addresses. */
#define BLOCK_UNIT ((size_t)512)

static inline bool block_is_split(const struct block *block)
{
    return block->prev || block->next;
}

/* Where block objects come from. */
struct block_store {
    struct block *spares; /* linked through next                       */
    size_t spare_count;
    void *slabs;          /* chained through their first word          */
};

void block_store_init(struct block_store *store);
/* Frees every block object, in use or not. */
void block_store_fini(struct block_store *store);
/* Makes sure that the next count calls of block_create succeed; false: no memory. */
bool block_store_reserve_slow(struct block_store *store, size_t count);
static inline bool block_store_reserve(struct block_store *store, size_t count)
{
    return __builtin_expect(store->spare_count >= count, 1) ||
           block_store_reserve_slow(store, count);
}

/* Gives a cleared object; a spare must be there (block_store_reserve). */
struct block *block_create(struct block_store *store);
/* Takes an object back; it is in no list and has no neighbours that matter. */
void block_destroy(struct block_store *store, struct block *block);

/* Cuts the first bytes off block and gives them as a new block in the same
 * segment, pool and stream, state LIVE; block keeps the tail and is in no index.
 * A spare object must be there. */
struct block *block_split(struct block_store *store, struct block *block, size_t bytes);

/* Makes block absorb a neighbour that touches it; the neighbour's object goes. */
void block_merge(struct block_store *store, struct block *block, struct block *neighbour);

/* Whether the text at the top holds for one block and its links; names the fact
 * that does not in *fact. */
bool block_check(const struct block *block, const char **fact);

#endif
