/* SPDX-License-Identifier: MIT */
/* Which decisions of a search explain where its buffers have come to.
 *
 * The placing of a buffer is a decision, numbered by its depth. A floor that was raised
 * keeps its cause: the buffer placed below, whose own floor has a cause in turn, or a
 * record, the set of decisions under which a buffer was found not to lie on its floor.
 * Following causes down gives a set of decisions that fail together, whatever else was
 * decided; so a search goes back to the last of them at once, over decisions that lie
 * elsewhere in time and had no part in it.
 *
 *   floor of c  <- placed b (depth 7) <- placed a (depth 2) <- record {0, 1}
 *
 * Every set is closed: with a decision it holds what explains the floor decided on.
 * One thread at a time.
 */
#ifndef SRC_PLAN_CONFLICT_H
#define SRC_PLAN_CONFLICT_H

#include <acre/plan.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAUSE_NONE (-1) /* the floor it began with */

struct conflict {
    uint32_t words;           /* of a set                                           */
    int32_t *cause;           /* by buffer: the buffer below, CAUSE_NONE, or a record */
    uint32_t *depth;          /* by buffer, once placed: the number of the decision */
    uint64_t *found;          /* the set that explains the last failure             */
    uint64_t *records;        /* sets, in the order in which they were made         */
    uint32_t record_count, record_capacity;
};

acre_status conflict_init(struct conflict *conflict, uint32_t buffer_count);
void conflict_fini(struct conflict *conflict); /* zeroed is fine */

/* Empties the set found. */
void conflict_clear(struct conflict *conflict);
/* Adds to a set what explains the floor of a buffer. */
void conflict_add_floor(const struct conflict *conflict, uint32_t buffer, uint64_t *set);
/* Adds the decision that placed a buffer, and what explains its floor. */
void conflict_add_placed(const struct conflict *conflict, uint32_t buffer, uint64_t *set);
/* Makes a record of the set found: a cause. False when memory is short. */
bool conflict_record(struct conflict *conflict, int32_t *out_cause);
/* Takes the last decision out of the set found. False when it is empty. */
bool conflict_take_last(struct conflict *conflict, uint32_t *out_depth);

#endif
