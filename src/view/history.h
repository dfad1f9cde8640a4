/* SPDX-License-Identifier: MIT */
/* What happened to the memory of one device: events become spans.
 *
 * A span is a block or a range of device memory with the numbers of the events
 * that began and ended it: it is there at moment e when begin <= e < end. The
 * moment e is the state after event e.
 *
 *      e = 0    1    2    3    4 = event_count
 *          a────────f                    begin 0, end 2
 *               ────a─────────── live    begin 1, end 4
 *          ═══════════f                  there from the start: begin 0, is_early
 *
 * A file may begin in the middle of a job and may have lost events. What is
 * freed without having been seen was there from the start; what is allocated
 * over a live block ends that block.
 *
 * Not thread-safe.
 */
#ifndef SRC_VIEW_HISTORY_H
#define SRC_VIEW_HISTORY_H

#include "base/ptrmap.h"
#include "base/rbtree.h"
#include "view/layout.h"

#include <acre/view.h>

#define HISTORY_EVENTS_MAX ((uint32_t)1 << 31)

struct span {
    uint64_t address;
    uint64_t bytes;       /* as requested; of a range, its size               */
    uint64_t block_bytes; /* what it takes, at least bytes                    */
    uint32_t begin, end;  /* moments; end is UINT32_MAX while it is live      */
    uint32_t asked;       /* moment of the request to free it; UINT32_MAX: none */
    uint32_t stack;       /* 0: unknown                                       */
    uint32_t stream, pool; /* numbers in the view's tables                    */
    uint8_t flags;        /* bits of acre_view_flag, and those below          */
};

#define SPAN_EARLY 0x80 /* was there before the first event */

struct spans {
    struct span *items;
    size_t count, capacity;
};

/* A moment worth a line in the picture. */
struct view_mark {
    uint32_t moment;
    uint32_t action;      /* ACRE_VIEW_OOM or ACRE_VIEW_MARK           */
    uint64_t bytes, free_bytes;
    uint32_t stack;
    char *text;           /* owned; NULL: none                         */
};

struct view_history {
    struct spans blocks;
    struct spans ranges;
    uint64_t *times;         /* of events, in microseconds             */
    size_t times_capacity;
    uint32_t event_count;
    struct view_mark *marks;
    size_t mark_count, mark_capacity;
    struct ptrmap live;      /* address + 1 of a live block to its index + 1 */
    struct rbtree held;      /* live ranges by address                 */
    struct ranges known;     /* of the last acre_view_layout_add       */
    char *label;             /* of the file it came from, or NULL      */
    uint32_t number;         /* of the device in that file             */
    bool has_completed;      /* a free was seen to complete            */
};

void history_init(struct view_history *history);
void history_fini(struct view_history *history); /* a zeroed one is fine */

/* Takes an event; stream and pool come as numbers of the view's tables.
 * Errors: ACRE_ERR_LIMIT, ACRE_ERR_HOST_MEMORY; nothing is changed then. */
acre_status history_event(struct view_history *history, const acre_view_event *event,
                          uint32_t stream, uint32_t pool);

/* Adds a mark at a time rather than as an event. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status history_mark(struct view_history *history, uint64_t time_us, const char *text);

/* Tells what is there after the last event: blocks and ranges that no event
 * began were there from the start, sizes of blocks become exact.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status history_last_block(struct view_history *history, const struct span *block);
acre_status history_last_range(struct view_history *history, const struct span *range);

/* Ends blocks whose free was asked for, where the file never tells completions. */
void history_settle(struct view_history *history);

/* Numbers of the spans in order of begin; the caller frees them.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status spans_order(const struct spans *spans, uint32_t **out);

/* How many moments there are: the events, or 1 for a state without any. */
uint32_t history_moments(const struct view_history *history);

/* The first moment at which a span is not there, live ones included. */
static inline uint32_t span_end(const struct span *span, uint32_t moments)
{
    return span->end < moments ? span->end : moments;
}

#endif
