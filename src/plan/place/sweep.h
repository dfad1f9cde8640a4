/* SPDX-License-Identifier: MIT */
/* Placement of many buffers outward from a full section of time. See sweep.c. */
#ifndef SRC_PLAN_SWEEP_H
#define SRC_PLAN_SWEEP_H

#include "plan/place/section.h"

struct sweep;

/* Prepares placements over these sections, which must outlive it. No buffer may be
 * fixed, and gaps are not used. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status sweep_create(const struct sections *sections, struct sweep **out);
void sweep_destroy(struct sweep *sweep); /* NULL is fine */

/* How good a placement is wanted. */
struct sweep_goal {
    int64_t ceiling; /* height to stay within, if possible            */
    int64_t limit;   /* height that counts as a failure               */
    double deadline; /* when to stop (clock.h); 0: never              */
};

/* Places everything, within the ceiling if it can, else as little above it as it can.
 * Turns differ in where they start and in what they prefer, and build on what earlier
 * ones from the same start found. Gives the height, or INT64_MAX when it is not below
 * the limit or the deadline came first. */
int64_t sweep_place(struct sweep *sweep, uint64_t seed, uint32_t turn,
                    const struct sweep_goal *goal, int64_t *offsets);
/* What all placements took together, in buffers placed. */
uint64_t sweep_work(const struct sweep *sweep);

#endif
