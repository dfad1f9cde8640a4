/* SPDX-License-Identifier: MIT */
/* Buffers as a sweep sees them that goes one way: to later sections, or to earlier ones.
 * Sections are counted in the direction that it goes, so a birth always comes before the
 * death. Immutable once made. */
#ifndef SRC_PLAN_SIDE_H
#define SRC_PLAN_SIDE_H

#include "plan/place/section.h"

struct sweep_axis {
    uint32_t count;           /* buffers that live                              */
    uint32_t *birth, *death;  /* by buffer: the first section, and the one behind */
    uint32_t *by_birth;       /* buffers; of those born together as they were given */
    uint32_t *by_death;
};

/* Takes the buffers that live, in an order to keep. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status sweep_axis_init(struct sweep_axis *axis, const struct sections *sections,
                            bool is_backward, const uint32_t *buffers, uint32_t count);
void sweep_axis_fini(struct sweep_axis *axis); /* zeroed is fine */

/* How many are born up to a section, and how many are dead in it. */
uint32_t sweep_axis_born(const struct sweep_axis *axis, uint32_t section);
uint32_t sweep_axis_dead(const struct sweep_axis *axis, uint32_t section);

#endif
