/* SPDX-License-Identifier: MIT */
/* A block: a piece of a segment that is live, waiting, free or without pages.
 *
 *              engine_alloc_locked        engine_free_locked, other streams use it
 *       FREE ─────────────────────► LIVE ───────────────────────────────► WAITING
 *        ▲                           │                                      │
 *        └───────────────────────────┴──────────────────────────────────────┘
 *          engine_put_locked: at once, or when deferred_collect sees the last event
 *
 *   UNMAPPED ◄──► FREE   pages taken out and put in (grow.c, expandable segments)
 *   LENT     ◄──► FREE   pages used through another segment (stitch.c, policy acre)
 *
 * Always: the blocks of a segment tile it, linked through prev and next in
 *         address order; two neighbours of one stream are never both FREE, and
 *         never both UNMAPPED; a FREE block is in the index of its pool, an
 *         UNMAPPED one among the unmapped of its pool, no other is in either;
 *         a LIVE block has no events (policy acre: it may be one that a thread
 *         keeps at hand, free, which its tag tells); a WAITING one has event_count of them in
 *         the deferred queues and no uses; a FREE one has neither.
 *
 * Block objects come from a store and go back to it; the store keeps them until
 * it ends, so a stale pointer to one still points at a block object.
 *
 * Not thread-safe: the owner's lock is held around every call, except that tag
 * is moved and key compared by threads without it (front.c says when).
 */
#ifndef SRC_CACHE_BLOCK_H
#define SRC_CACHE_BLOCK_H

#include "base/check.h"
#include "base/list.h"
#include "base/rbtree.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
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
    BLOCK_LENT = 6,     /* pages used through another segment (stitch.h)   */
};

/* What pieces of one block have in common; see struct block. */
struct block_origin {
    void *stream;
    struct segment *segment;
    struct pool *pool;
};

struct block {
    /* First what the hot path of policy acre touches. */
    _Atomic uint64_t tag;    /* base while live, see block_tag_live; 0 otherwise   */
    size_t bytes;            /* size, a multiple of BLOCK_UNIT                     */
    char *base;              /* first byte                                         */
    union {
        size_t units;        /* bytes / BLOCK_UNIT; set while not FREE (policy acre) */
        uint64_t gc_base;    /* pool->find_count when it became FREE               */
    };
    size_t requested;        /* bytes last asked for; kept when freed, 0 if never  */
    union {
        struct rbnode node;  /* place in the pool: by size, or unmapped (torch)    */
        struct {
            union {
                struct list link;  /* place in a bin (policy acre); direct; late ones  */
                struct block *cached_next; /* next in a lane (policy acre)         */
            };
            _Atomic(struct arena *) key; /* the lanes it may go to (policy acre); NULL */
        };
    };
    struct arena *arena;     /* where it is free (policy acre); else NULL          */
    union {
        struct block_origin origin; /* the next three together, for copying         */
        struct {
            void *stream;    /* native stream it serves                            */
            struct segment *segment; /* NULL for direct blocks only                */
            struct pool *pool;       /* that of the segment                        */
        };
    };
    struct block *prev;      /* neighbours in the segment; NULL at its ends;       */
    struct block *next;      /* next also links spare objects                      */
    struct use *uses;        /* other streams that use it, newest first; LIVE only */
    uint32_t event_count;    /* events until it is free; WAITING only              */
    uint32_t stack;          /* that allocated it (history.h); 0: not known        */
    uint8_t state;           /* enum block_state                                   */
    bool is_oversize : 1;    /* counted in oversize_allocations                    */
    bool is_expandable : 1;  /* of an expandable segment (policy torch)            */
    bool is_stitched : 1;    /* a segment of its own, made of LENT blocks (acre)   */
    bool is_late : 1;        /* its free was noted (late.h); LIVE and DIRECT only  */
    uint16_t bin;            /* place in a lane, or in bins (policy acre)          */
    uint16_t class_budget;   /* account in a lane; the same                        */
};
_Static_assert(sizeof(struct block) <= 136, "a million live blocks take a million of these");

/* Marks, in the tag of a live block, that other streams use it. Addresses end
 * below 2^57. */
#define BLOCK_TAG_USED ((uint64_t)1 << 63)

/* The tag of policy acre: block was handed out. */
static inline void block_tag_live(struct block *block)
{
    atomic_store_explicit(&block->tag, (uintptr_t)block->base, memory_order_release);
}

/* Whether the tag of a block says who may free it: blocks of a policy whose threads keep free
 * blocks, once they have an arena. Blocks obtained while caching was off have none. */
static inline bool block_is_tagged(const struct block *block)
{
    return block->arena != NULL;
}

/* Whether it is live, used on other streams or not. */
static inline bool block_tag_is_live(const struct block *block)
{
    uint64_t tag = atomic_load_explicit(&block->tag, memory_order_acquire);

    return (tag & ~BLOCK_TAG_USED) == (uintptr_t)block->base;
}

/* Whether it is live and other streams use it, so that the lock is needed to free it. */
static inline bool block_tag_is_used(const struct block *block)
{
    return atomic_load_explicit(&block->tag, memory_order_relaxed) & BLOCK_TAG_USED;
}

/* Makes the caller the owner of a block that is live at pointer and used on its
 * own stream only; false when it is not, or another thread was first. */
static inline bool block_tag_claim(struct block *block, const void *pointer)
{
    uint64_t expected = (uintptr_t)pointer;

    return atomic_compare_exchange_strong_explicit(&block->tag, &expected, 0,
                                                   memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* As block_tag_claim, for a block that other streams may use; the owner's lock is held. */
static inline bool block_tag_claim_used(struct block *block, const void *pointer)
{
    uint64_t expected = (uintptr_t)pointer | BLOCK_TAG_USED;

    return block_tag_claim(block, pointer) ||
           atomic_compare_exchange_strong_explicit(&block->tag, &expected, 0,
                                                   memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* Notes that other streams use a live block, so that only a thread with the lock
 * can claim it; false when it is not live. */
static inline bool block_tag_use(struct block *block)
{
    uint64_t expected = (uintptr_t)block->base;

    return atomic_compare_exchange_strong_explicit(&block->tag, &expected,
                                                   expected | BLOCK_TAG_USED,
                                                   memory_order_acq_rel,
                                                   memory_order_relaxed) ||
           expected == ((uintptr_t)block->base | BLOCK_TAG_USED);
}


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
    size_t total_count;   /* spare or not                              */
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

/* Gives an object as it is in the store: without tag, uses and events; the caller
 * sets the rest. A spare must be there (block_store_reserve). */
static inline struct block *block_spare_take(struct block_store *store)
{
    struct block *block = store->spares;

    store->spares = block->next;
    store->spare_count--;
    return block;
}

/* Gives a cleared object; a spare must be there (block_store_reserve). */
struct block *block_create(struct block_store *store);
/* Takes an object back; it is in no list and has no neighbours that matter. */
static inline void block_destroy(struct block_store *store, struct block *block)
{
    CHECK(!block->uses && !block->event_count && !block->is_late);
    CHECK(atomic_load_explicit(&block->tag, memory_order_relaxed) == 0);
    block->state = BLOCK_SPARE;
    block->next = store->spares;
    store->spares = block;
    store->spare_count++;
}

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
