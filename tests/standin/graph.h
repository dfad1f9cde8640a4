/* SPDX-License-Identifier: MIT */
/* Captures of the stand-ins, as streams see them. */
#ifndef TESTS_STANDIN_GRAPH_H
#define TESTS_STANDIN_GRAPH_H

#include "tests/standin/core.h"

/* Forgets the capture that a stream began, when there is one; books locked. */
void capture_forget_locked(const void *stream);

#endif
