/* SPDX-License-Identifier: MIT */
/* A piece of page-locked memory, and the extent it lies in.
 *
 *         host_arena_take, bucket_take           free, nobody uses it
 *   FREE ─────────────────────────► LIVE ────────────────────────► AT_HAND
 *    ▲                              │  ▲                              │ │
 *    │                              │  └──── the next of its size ────┘ │
 *    │ all events have passed       │ record_stream                     │
 *    ├───────────── WAITING ◄────── USED                                │
 *    │ the graph is gone            │ free, a graph uses it             │
 *    ├───────────── CAPTURED ◄──────┘                                   │
 *    └───────────────────────────── host_arena_drain ────────────────────────┘
 *
 *   BODY   holds the slots of a slab (slab.h), which are blocks of their own.
 *
 * Always: the blocks of an extent other than slots tile it, linked through prev and
 *         next by address; two neighbours are never both FREE; LIVE, AT_HAND,
 *         WAITING, CAPTURED and BODY blocks are in the address map, FREE ones are
 *         not; USED is LIVE with uses, and besides only CAPTURED ones, and those
 *         that wait for a capture to end, have any. Policy torch has one piece in
 *         each extent, never AT_HAND.
 *
 * Not thread-safe: the owner's lock is held around every access.
 */
#ifndef SRC_PINNED_PIECE_H
#define SRC_PINNED_PIECE_H

#include "base/check.h"
#include "base/list.h"
#include "base/rbtree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct extent;
struct host_pool;
struct host_use;
struct pinned_slab;

enum host_block_state {
    PIECE_FREE,
    PIECE_LIVE,
    PIECE_USED, /* LIVE, and streams use it */
    PIECE_WAITING,
    PIECE_CAPTURED,
    PIECE_AT_HAND,
    PIECE_BODY,
};

struct host_block {
    /* First what the hot path touches. */
    char *base;            /* first byte                                            */
    size_t bytes;          /* size; SIZE_MAX ends a stack                           */
    size_t requested;      /* bytes last asked for                                  */
    struct host_block **stack;  /* where it goes when freed; NULL: it is not kept at hand */
    struct host_block *below;   /* next on that stack; AT_HAND only                      */
    struct pinned_slab *slab;     /* of a BODY, and of a slot; else NULL                   */
    struct host_use *uses; /* streams that use it, newest first                     */
    uint8_t state;         /* enum host_block_state                                      */
    uint8_t bucket;        /* under which active_* are counted; 0 for policy acre   */
    bool is_slot;          /* it lies in a slab                                     */
    bool is_from_capture;  /* handed out while the stream was captured (torch)      */
    uint32_t event_count;  /* events until it is free; WAITING only                 */
    uint32_t history_stack; /* that allocated it; 0: not known                      */
    struct host_pool *pool;
    struct extent *extent;
    struct rbnode node;    /* FREE, policy acre: in host_pool.free                  */
    struct list link;      /* FREE, policy torch: in a bucket; CAPTURED: in
                              host_pool.captured; WAITING: perhaps in postponed     */
    struct host_block *prev, *next;
};

/* Whether it is handed out. */
static inline bool host_block_is_live(const struct host_block *host_block)
{
    return host_block->state == PIECE_LIVE || host_block->state == PIECE_USED;
}

/* How memory was obtained, and so has to be given back. */
enum source_method {
    SOURCE_ALLOC,    /* host_alloc of the backend             */
    SOURCE_REGISTER, /* own pages, registered                 */
    SOURCE_RESERVE,  /* part of the reserve: not given back   */
};

/* Memory obtained at once. */
struct extent {
    struct list link;      /* in host_pool.extents, or in a list of doomed ones */
    struct list idle_link; /* in host_pool.idle while nothing of it is used     */
    char *base;
    size_t bytes;
    struct host_block *first;   /* the others follow through next                    */
    struct host_pool *pool;
    uint64_t order;        /* grows with every extent of the pool               */
    enum source_method method;
    uint32_t history_stack; /* that obtained it; 0: not known                   */
    uint32_t pause;         /* the device refuses it: how often it is passed over between tries */
    uint32_t pause_left;    /* until the next one                               */
};

#endif
