/* SPDX-License-Identifier: MIT */
/* A wire for tests: sockets between processes of one machine that pretend to be on several
 * hosts. Ranks die and stop on it as they would elsewhere.
 *
 *     static void body(struct rank *me) { wire_begin(me, me->rank % 2); ... }
 */
#ifndef TESTS_SUPPORT_WIRE_H
#define TESTS_SUPPORT_WIRE_H

#include "tests/support/ranks.h"

/* Makes this process one of a host; before the group is joined. */
void wire_begin(const struct rank *me, int host);

#endif
