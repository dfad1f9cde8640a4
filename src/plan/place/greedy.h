/* SPDX-License-Identifier: MIT */
/* First fit with fixed offsets and gaps, for what the skyline cannot do. */
#ifndef SRC_PLAN_GREEDY_H
#define SRC_PLAN_GREEDY_H

#include "plan/place/section.h"

/* Places everything in the given order, fixed buffers first, each at the lowest
 * offset where it fits; quadratic. Errors: ACRE_ERR_INVALID (fixed buffers
 * collide), ACRE_ERR_HOST_MEMORY. */
acre_status greedy_place(const struct sections *sections, const uint32_t *order,
                         int64_t *offsets, int64_t *out_height);

#endif
