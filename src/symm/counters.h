/* SPDX-License-Identifier: MIT */
/* A barrier of one counter per rank, each in a cache line of its owner's control page.
 *
 * A rank counts one more in its own line and waits until every other line says as much: a line
 * has one writer, and crosses once. Who runs out of time takes its count back, then looks at
 * the others again: whoever counted before that is seen, and whoever counts after it finds the
 * count taken back. Of two ranks, therefore, both pass or none; of more, and of ranks on other
 * hosts, which are told by mail, some may pass who saw the count before it was taken back. The
 * picture has a model in tests/model/counters.pml.
 */
#ifndef SRC_SYMM_COUNTERS_H
#define SRC_SYMM_COUNTERS_H

#include "symm/work.h"

/* Meets all ranks on a channel. */
acre_status counters_meet(struct work *work, int channel);
/* Makes what this rank counted and looked at come before or after what another that leaves a
 * barrier does, never both; once in a process. */
void counters_prepare(void);

#endif
