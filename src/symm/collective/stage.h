/* SPDX-License-Identifier: MIT */
/* Small data handed to all ranks without a meeting: every cache line says itself whether it
 * is there.
 *
 * A stage lies in its owner's control page and consists of lines of 64 bytes: 60 of data and
 * the number of the step they belong to, written last. Who reads waits for that number in
 * each line, so data and signal cross in one transfer. Steps take stages in turn. Two would be
 * enough: a rank that begins step k + 2 has read everybody's step k + 1, which they wrote
 * after they had read step k. With more, lines are fetched for writing when nobody reads
 * them any more.
 */
#ifndef SRC_SYMM_STAGE_H
#define SRC_SYMM_STAGE_H

#include "symm/collective/work.h"

#define STAGE_LINES 128u
#define STAGE_DATA (STAGE_LINES * 60u) /* bytes that one step can hand over */

/* Writes bytes, a multiple of 4, into the own stage of a step. */
void stage_write(struct work *work, uint32_t step, const void *data, size_t bytes);
/* Copies what a rank wrote for a step, waiting for it. Errors: ACRE_ERR_TIMEOUT,
 * ACRE_ERR_PEER, recorded. */
acre_status stage_read(struct work *work, int rank, uint32_t step, void *out, size_t bytes);

#endif
