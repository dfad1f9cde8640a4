/* SPDX-License-Identifier: MIT */
/* Which of several equally low buffers a search tries first, and how that is learned.
 *
 * Ranks are drawn as powers of life and size with noise. Each time a descent fails, the
 * buffers of the section that failed that were still to be placed are blamed: they came
 * too late. After a descent what was blamed moves forward by its share of the blame, on top
 * of the shares of earlier descents, which are forgotten slowly.
 *
 *   value = life * log(sections) + size * log(bytes) + lift + noise
 *
 * One thread at a time.
 */
#ifndef SRC_PLAN_RANK_H
#define SRC_PLAN_RANK_H

#include "plan/place/section.h"

/* A buffer while ranks are made. */
struct ranked {
    double value;             /* the largest is best                             */
    uint32_t place;           /* in the canonical order                          */
};

struct ranks {
    const struct sections *sections;
    uint32_t *rank;           /* by buffer: smaller is tried first               */
    uint32_t *by_rank;        /* buffers, the best first                         */
    double *base;             /* by buffer: the value as drawn                   */
    double *lift;             /* by buffer: what was learned since               */
    uint32_t *blame;          /* by buffer: failures of this descent             */
    struct ranked *ranked;
    uint64_t random;
};

/* Errors: ACRE_ERR_HOST_MEMORY. */
acre_status ranks_init(struct ranks *ranks, const struct sections *sections);
void ranks_fini(struct ranks *ranks); /* zeroed is fine */

void ranks_seed(struct ranks *ranks, uint64_t seed);
/* A number in [0, 1). */
double ranks_unit(struct ranks *ranks);

/* Draws values anew by these powers and forgets what was learned. */
void ranks_draw(struct ranks *ranks, double life, double size, double noise);
/* Orders by value, with noise. */
void ranks_sort(struct ranks *ranks, double noise);
/* Turns the blame into lift. */
void ranks_learn(struct ranks *ranks);

#endif
