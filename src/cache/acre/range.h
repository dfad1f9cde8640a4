/* SPDX-License-Identifier: MIT */
/* A stitched range: contiguous addresses over pages from anywhere.
 *
 *   space   │ p0 │ p1 │ p2 │ p3 │ p4 │ p5 │ ...      every page once (expand.h)
 *              │         │         │
 *   range   │ p1 │ p3 │ p5 │    │    │               slots: count mapped, then spare
 *             └─────block────┘
 *
 * A range serves one block at a time. The bytes behind the block are LENT in
 * the page space (pieces), so nobody else can have them; what the block leaves of its
 * first and last page stays usable in the page space. When the block is free, its pieces
 * are free in the page space again and the range stays as it is, idle: the same request
 * later finds it and needs no call to the device.
 *
 *           range_lend                    arena_put, the block is free
 *    idle ───────────────────► in use ───────────────────────────────► idle
 *     │ range_set: other pages, more slots. Work queued on the addresses must
 *     ▼ be done, which is the caller's business.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_RANGE_H
#define SRC_CACHE_RANGE_H

#include "cache/torch/expand.h"
#include "cache/segment.h"

struct arena;
struct block;
struct block_store;

/* A slot without a page: what a failed change left. */
#define RANGE_NO_PAGE SIZE_MAX

struct range {
    struct list link;      /* in the owner's list, oldest first                  */
    struct expand *page_space;   /* whose pages these are                              */
    char *base;            /* first byte of the addresses                        */
    size_t capacity;       /* slots: pages that the addresses have room for      */
    size_t count;          /* slots from here on were never mapped               */
    size_t *pages;         /* page of each slot, or RANGE_NO_PAGE                */
    size_t asleep_end;     /* slots before it are out while their pages sleep    */
    struct segment segment; /* of the block while in use                         */
    struct block *block;   /* NULL: idle                                         */
    struct block **pieces; /* LENT blocks behind the block, in its order         */
    size_t piece_count;
    size_t slot, offset;   /* where the block begins: slot and offset in it      */
    /* Slot, offset and size of the block that the pages were set for. */
    size_t made_slot, made_offset, made_bytes;
    unsigned set_count;    /* how often its pages were changed, up to a maximum  */
    struct arena *last;    /* whose stream used it last; NULL: none              */
    bool is_mixed;         /* other streams used it as well, and may be at it    */
};

/* Reserves addresses for capacity slots. Errors: ACRE_ERR_HOST_MEMORY, those of
 * the device's reserve. */
acre_status range_create(struct expand *page_space, size_t capacity, struct range **out);
/* Unmaps all slots and returns the addresses. On failure the range stays, and
 * slots that could not be unmapped too. */
acre_status range_destroy(struct range *range);
/* Ends a range at the end of its cache: what the device refuses to take back is logged. */
void range_abandon(struct range *range);

/* How many calls of map and unmap range_set would make. */
size_t range_cost(const struct range *range, const size_t *pages, size_t count);
/* Gives the first count slots these pages, for the device and the peers of the
 * page space. On failure every slot is as it was, or has no page if the device refuses
 * even that. */
acre_status range_set(struct range *range, const size_t *pages, size_t count);

/* Gives another device access to all slots, or takes it. */
acre_status range_admit(struct range *range, int peer);
void range_expel(struct range *range, int peer);

/* Takes the pages out of all slots, to sleep, and puts those of the same numbers back;
 * the page space has its pages at both times. On failure everything is as before, as far
 * as the device allows: range_is_out tells. */
acre_status range_doze(struct range *range);
acre_status range_wake(struct range *range);
static inline bool range_is_out(const struct range *range)
{
    return range->asleep_end != 0;
}

/* Takes a block that is free, LIVE until now, apart: its pieces become FREE in
 * its arena and the range idle. */
void range_dissolve(struct block_store *store, struct block *block);

/* Whether pieces and slots of a range in use agree. */
bool range_check(const struct range *range, const char **fact);

#endif
