/* SPDX-License-Identifier: MIT */
/* What must hold between ranks of several hosts, whatever wire is between them. Every rank of
 * the group "world" makes the same calls. */
#ifndef TESTS_SUPPORT_FAR_SUITE_H
#define TESTS_SUPPORT_FAR_SUITE_H

#include "tests/support/t.h"

#include <acre/acre.h>

/* is_near[r]: rank r is on this rank's host. */
void far_suite_views(const bool *is_near);
void far_suite_one_sided(void);
void far_suite_signals(void);
void far_suite_reduce(void);
void far_suite_scatter(void);
void far_suite_move(void);
void far_suite_splits(void);
/* All of them. */
void far_suite(const bool *is_near);

#endif
