/* SPDX-License-Identifier: MIT */
/* A barrier in one word, which a rank that runs out of time leaves without a trace.
 *
 *     generation << 32 | bit r: rank r is here
 *
 * A rank sets its bit; who completes the set starts the next generation with an empty one
 * and wakes the rest, or whoever finds it complete after having waited in vain. To leave, a
 * rank removes its bit, in one step and only while somebody is missing: either all pass or it
 * was never there. The picture has a model in
 * tests/model/barrier.pml.
 */
#ifndef SRC_SYMM_BARRIER_H
#define SRC_SYMM_BARRIER_H

#include "symm/collective/work.h"

/* Meets all ranks on a channel; between 3 and BARRIER_RANKS_MAX ranks. */
acre_status barrier_meet(struct work *work, int channel);

#endif
