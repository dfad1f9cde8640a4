/* SPDX-License-Identifier: MIT */
/* Near-linear placement of many buffers along a rising skyline. See skyline.c. */
#ifndef SRC_PLAN_SKYLINE_H
#define SRC_PLAN_SKYLINE_H

#include "plan/place/section.h"

struct skyline;

/* Prepares placements over these sections, which must outlive it. Errors:
 * ACRE_ERR_HOST_MEMORY. */
acre_status skyline_create(const struct sections *sections, struct skyline **out);
void skyline_destroy(struct skyline *skyline); /* NULL is fine */

/* Places everything; order[0] is preferred most. Gaps are not used, and no buffer
 * may be fixed. Gives the height, or INT64_MAX when the deadline (clock.h) came first. */
int64_t skyline_place(struct skyline *skyline, const uint32_t *order, double deadline,
                      int64_t *offsets);

#endif
