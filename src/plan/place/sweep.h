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

/* Places everything, within the ceiling if it can, else as little above it as it can.
 * Turns differ in where they start and in what they prefer, and build on what earlier
 * ones from the same start found. Gives the height, or INT64_MAX when it is not below
 * limit or the deadline (clock.h) came first. */
int64_t sweep_place(struct sweep *sweep, uint64_t seed, uint32_t turn, int64_t ceiling,
                    int64_t limit, double deadline, int64_t *offsets);
/* What all placements took together, in buffers placed. */
uint64_t sweep_work(const struct sweep *sweep);

#endif
