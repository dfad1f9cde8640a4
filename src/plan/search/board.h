/* SPDX-License-Identifier: MIT */
/* The board on which a search places buffers from below, and takes them back.
 *
 * Every buffer that is not placed has a floor, the lowest offset it may still get.
 * Placing one raises the floors of those that overlap it to its top; skipping one, which
 * means that it does not lie on its floor, raises its own floor to the lowest top that
 * an overlapping one can have, as something has to be below it.
 *
 * A section fails when no buffer not yet placed in it has a floor of at most
 * capacity - (sum of sizes not yet placed): the lowest of them would push the rest out.
 * watch[s] is a buffer that can be that lowest one, if the section has not failed, so a
 * section is looked through only when its watch was raised. weight[s] grows each time a
 * section fails, so that a search learns where the difficulties are.
 *
 * Each failure leaves in conflict.found the decisions that explain it (conflict.h).
 * Changes go on a trail and are undone in reverse. One thread at a time.
 */
#ifndef SRC_PLAN_BOARD_H
#define SRC_PLAN_BOARD_H

#include "plan/search/conflict.h"
#include "plan/place/section.h"

#define FLOOR_PLACED (INT64_MAX / 4) /* floor of a placed buffer: above all       */

struct board_change {
    uint32_t buffer;
    int32_t cause;            /* its floor's, before                               */
    int64_t old;              /* floor * 2 + skipped, before                       */
};

/* A state to come back to. */
struct board_mark {
    size_t trail_count;
    uint32_t record_count;
};

struct board {
    const struct sections *sections;
    uint32_t count, section_count;
    int64_t capacity;
    int64_t *floor;           /* by buffer; FLOOR_PLACED once placed               */
    int64_t *top;             /* by buffer: floor + size                           */
    int64_t *offset;          /* by buffer, once placed                            */
    uint8_t *skipped;         /* by buffer: waits until something is below it      */
    int64_t *room;            /* by section: capacity - sizes not yet placed       */
    uint32_t *watch;          /* by section                                        */
    uint32_t *unplaced;       /* by section: how many members are not placed       */
    bool is_tracking;         /* set by the search: changed is kept                */
    uint8_t *changed;         /* by section: set with every change of a floor in it,
                                 cleared by the search                             */
    float *weight;            /* by section: 1 and its failures                    */
    uint32_t failed;          /* the section that failed last                      */
    uint32_t *neighbour_start, *neighbours; /* overlapping buffers, by buffer      */
    uint32_t *member_start, *members;       /* buffers, by section                 */
    struct conflict conflict;
    struct board_change *trail;
    size_t trail_count, trail_capacity;
    uint32_t depth;           /* buffers placed, which is decisions in force       */
    uint32_t left;            /* buffers not yet placed                            */
    bool is_lost;             /* the trail could not grow: stop                    */
};

/* Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT (too many overlaps). */
acre_status board_create(const struct sections *sections, struct board **out);
void board_destroy(struct board *board); /* NULL is fine */

/* Starts with nothing placed; weights stay. False when that cannot work. */
bool board_reset(struct board *board, int64_t capacity);
/* Decides that a buffer lies on its floor. False when something became impossible. */
bool board_place(struct board *board, uint32_t buffer);
/* Raises the floor of a buffer that, under the decisions in conflict.found, does not lie
 * on it; the lowest top of its neighbours is where to. False as above. */
bool board_skip(struct board *board, uint32_t buffer, int64_t to);

struct board_mark board_now(const struct board *board);
/* Takes changes back until the state of the mark. */
void board_undo(struct board *board, struct board_mark mark);

/* The lowest top of the overlapping buffers not yet placed; FLOOR_PLACED when there are
 * none. */
static inline int64_t board_lowest_top(const struct board *board, uint32_t buffer)
{
    const uint32_t *other = board->neighbours + board->neighbour_start[buffer];
    const uint32_t *end = board->neighbours + board->neighbour_start[buffer + 1];
    int64_t lowest = FLOOR_PLACED, second = FLOOR_PLACED;

    for (; end - other >= 2; other += 2) { /* two at a time, as neither waits for the other */
        lowest = board->top[other[0]] < lowest ? board->top[other[0]] : lowest;
        second = board->top[other[1]] < second ? board->top[other[1]] : second;
    }
    if (other < end && board->top[*other] < lowest)
        lowest = board->top[*other];
    return second < lowest ? second : lowest;
}

/* The overlapping buffer that has this lowest top. */
static inline uint32_t board_lowest(const struct board *board, uint32_t buffer, int64_t top)
{
    const uint32_t *other = board->neighbours + board->neighbour_start[buffer];

    while (board->top[*other] != top)
        other++;
    return *other;
}

#endif
