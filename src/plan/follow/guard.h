/* SPDX-License-Identifier: MIT */
/* Which entries hand bytes on to another stream. */
#ifndef SRC_PLAN_GUARD_H
#define SRC_PLAN_GUARD_H

#include "plan/follow/timetable.h"

/* Marks entries, which are in the order of their allocations, some of whose bytes an
 * entry of another stream has next, in this round or the following one; tells how
 * many there are. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status guard_entries(struct timetable_entry *entries, uint32_t count, uint32_t *out_guarded);

#endif
