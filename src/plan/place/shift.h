/* SPDX-License-Identifier: MIT */
/* Making room in a sweep by moving one buffer that lies next to a large hole.
 *
 *   [ a   ]            [ a   ]     a buffer may move, as if it had been put there when it
 *    hole       ->      hole       was born, to a hole that has been free since then; what
 *   [ b   ]             grown      it leaves and the holes around it become one
 *    hole               [ b ] elsewhere
 */
#ifndef SRC_PLAN_SHIFT_H
#define SRC_PLAN_SHIFT_H

#include "plan/place/section.h"
#include "plan/place/space.h"

/* Makes a hole that a buffer fits into. Only what was born after a section is moved;
 * births are by buffer. False when no single move does it: nothing has changed. */
bool shift_one(struct space *space, const struct sections *sections, const uint32_t *birth,
               uint32_t after, uint32_t buffer);

#endif
