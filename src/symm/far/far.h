/* SPDX-License-Identifier: MIT */
/* Ranks that are far: their memory is reached over a wire (wire.h), with deadlines.
 *
 * There is one wire in a process, opened when a group is joined that may have far ranks. One
 * thread makes all calls to it; who wants something done hands a job over, with copies of the
 * bytes, and waits until the job is done or its time is up. A job that is given up stays with
 * the thread, so that nothing of the caller's is touched later.
 *
 * Which wire: ACRE_SYMM_WIRE names one ("openmpi", "mpich", "none", or a file); else the one
 * of the mpirun that started this process, when it has ranks on several hosts.
 */
#ifndef SRC_SYMM_FAR_H
#define SRC_SYMM_FAR_H

#include "symm/far/wire.h"

/* A piece with a far rank; bytes may be any number. Rank is that of the wire. */
typedef struct wire_op far_op;

/* Opens the wire if there is one; out_name is "" when there is none.
 * Errors: ACRE_ERR_NOT_FOUND (named and not there), ACRE_ERR_TIMEOUT, the wire's own. */
acre_status far_open(int64_t deadline, const char **out_name, int *out_rank);
/* Does all pieces. Errors, with the rank of the wire in out_rank (-1: none in particular):
 * ACRE_ERR_TIMEOUT, ACRE_ERR_PEER (gone), others. Sentences are recorded. */
acre_status far_run(const far_op *ops, size_t count, int64_t deadline, int *out_rank);
/* Makes memory reachable. */
acre_status far_attach(void *base, size_t bytes, uint64_t *out_address);
/* False: the wire may still touch it, so that it must stay mapped. */
bool far_detach(void *base);
/* Gives all ranks of the wire rank 0's bytes. */
acre_status far_spread(void *data, size_t bytes, int64_t deadline);
bool far_is_dead(int rank);
/* Between the two, the wire is looked after all the time, since somebody waits for it. */
void far_attend_begin(void);
void far_attend_end(void);

/* A wire from a test, in place of what the environment says; before anything is opened. */
void far_use(const struct wire_ops *ops, void *self);

#endif
