/* SPDX-License-Identifier: MIT */
/* Levels of detail: what of a history is worth drawing from afar.
 *
 * At a level of shift s, column c stands for the moments [c << s, (c + 1) << s).
 * It shows one of them, the one with the most bytes allocated, so that peaks
 * stay peaks however far away. A block is worth keeping at a level when some
 * column shows it, and when it is large enough to be seen; the others are
 * summed into groups by stack.
 *
 * The threshold is a share of the peak, so at one moment at most 1 / share
 * blocks are drawn one by one.
 */
#ifndef SRC_VIEW_LEVEL_H
#define SRC_VIEW_LEVEL_H

#include "view/history.h"

#define LEVEL_COLUMNS 4096      /* of the coarsest level, at most     */
#define LEVEL_COLUMNS_MAX 65536 /* of the finest                      */
#define LEVEL_SHARE 2048        /* the threshold is peak / this       */
#define LEVEL_GROUPS 16         /* the last one is for all the others */

/* Bytes at every moment, and what follows from them. */
struct totals {
    uint64_t *allocated; /* sum of blocks, per moment               */
    uint64_t *reserved;  /* sum of ranges, per moment               */
    uint32_t moments;
    uint32_t peak;       /* a moment with the most bytes allocated  */
    uint64_t reserved_peak;
    uint64_t threshold;  /* blocks of at least this size are drawn alone     */
    uint32_t groups[LEVEL_GROUPS - 1]; /* stacks, largest group first */
    unsigned group_count;              /* of them                     */
};

struct level {
    unsigned shift;
    uint32_t columns;
    uint32_t *shown;     /* per column: the moment it shows                     */
    uint64_t *reserved;  /* per column: most bytes reserved                     */
    uint32_t *kept;      /* numbers of blocks in order of begin, as in the page */
    size_t kept_count;
};

/* Errors of all: ACRE_ERR_HOST_MEMORY. */
acre_status totals_init(struct totals *totals, const struct view_history *history,
                        uint32_t stack_count);
void totals_fini(struct totals *totals); /* a zeroed one is fine */

/* The shift of the coarsest level, 0 when there is nothing to leave out; and of
 * the next finer one, 0 after the last. */
unsigned level_first(uint32_t moments);
unsigned level_next(uint32_t moments, unsigned shift);

/* order: from spans_order of the blocks. */
acre_status level_init(struct level *level, const struct view_history *history,
                       const struct totals *totals, const uint32_t *order, unsigned shift);
void level_fini(struct level *level); /* a zeroed one is fine */

/* Sums the blocks below the threshold that belong to a group, per column; sums
 * has room for all columns. The last group takes what no other has. */
void level_sum(const struct level *level, const struct view_history *history,
               const struct totals *totals, unsigned group, uint64_t *sums);

#endif
