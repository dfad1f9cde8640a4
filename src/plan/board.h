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
 * support[s] counts the buffers that still can be that lowest one. weight[s] grows each
 * time a section fails, so that a search learns where the difficulties are.
 *
 * Changes go on a trail and are undone in reverse. One thread at a time.
 */
#ifndef SRC_PLAN_BOARD_H
#define SRC_PLAN_BOARD_H

#include "plan/section.h"

#define FLOOR_PLACED (INT64_MAX / 4) /* floor of a placed buffer: above all       */

struct board_change {
    uint32_t kind;            /* of board.c                                        */
    uint32_t index;           /* of the buffer or section                          */
    int64_t old;              /* floor * 2 + skipped, or support                   */
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
    int32_t *support;         /* by section                                        */
    uint32_t *unplaced;       /* by section: how many members are not placed       */
    float *weight;            /* by section: 1 and its failures                    */
    uint32_t *neighbour_start, *neighbours; /* overlapping buffers, by buffer      */
    uint32_t *member_start, *members;       /* buffers, by section: those that are not
                                               placed come first                   */
    uint32_t *names;          /* beside members: number of the membership          */
    uint32_t *places;         /* by membership: where it stands in members         */
    uint32_t *name_start;     /* by piece: its first membership                    */
    uint32_t *stamp;          /* by section: the placement that covered it last    */
    uint32_t stamp_now;
    struct board_change *trail;
    size_t trail_count, trail_capacity;
    uint32_t left;            /* buffers not yet placed                            */
    bool is_lost;             /* the trail could not grow: stop                    */
};

/* Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT (too many overlaps). */
acre_status board_create(const struct sections *sections, struct board **out);
void board_destroy(struct board *board); /* NULL is fine */

/* Starts with nothing placed; weights stay. False when that cannot work. */
bool board_reset(struct board *board, int64_t capacity);
/* Puts a buffer on its floor. False when something became impossible. */
bool board_place(struct board *board, uint32_t buffer);
/* Raises the floor of a buffer that does not lie on it. False as above. */
bool board_skip(struct board *board, uint32_t buffer, int64_t to);
/* Takes changes back until the trail has so many. */
void board_undo(struct board *board, size_t to);

/* The lowest top of the overlapping buffers not yet placed, and whose it is;
 * FLOOR_PLACED when there are none. */
static inline int64_t board_lowest_top(const struct board *board, uint32_t buffer,
                                       uint32_t *out_whose)
{
    const uint32_t *other = board->neighbours + board->neighbour_start[buffer];
    const uint32_t *end = board->neighbours + board->neighbour_start[buffer + 1];
    int64_t lowest = FLOOR_PLACED;

    for (; other < end; other++)
        if (board->top[*other] < lowest) {
            lowest = board->top[*other];
            *out_whose = *other;
        }
    return lowest;
}

#endif
