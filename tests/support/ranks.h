/* SPDX-License-Identifier: MIT */
/* Several processes as ranks of one job, with a file store between them.
 *
 *     static void body(struct rank *me) { ... }
 *     TEST(x) { ranks_run(4, body); }
 */
#ifndef TESTS_SUPPORT_RANKS_H
#define TESTS_SUPPORT_RANKS_H

#include "tests/support/t.h"

#include <acre/symm.h>

#include <stdatomic.h>

#define RANKS_MAX 16

struct rank {
    int rank, count;
    acre_store *store;
    acre_group *group;         /* "world"                                   */
    _Atomic uint64_t *shared;  /* 512 words that all see, zero at the start */
    uint64_t timeout_ms;       /* of the group                              */
};

/* Runs body in count processes and expects each to end without a failure. */
void ranks_run(int count, void (*body)(struct rank *));
/* The same with another timeout, in milliseconds, and ranks that may die (bit r). */
void ranks_run_with(int count, void (*body)(struct rank *), uint64_t timeout_ms,
                    unsigned may_die);

/* A block of host memory and its handle in the group "world". */
acre_symm *ranks_symm(struct rank *me, size_t bytes, void **out_base);
/* Waits until all ranks have come, by shared words only; index below 256 is used once. */
void ranks_meet(struct rank *me, int index);
/* The same for so many, where others have died: who leaves early would be named as well. */
void ranks_meet_some(struct rank *me, int index, int count);
/* A group of some ranks, by the bits of members; NULL for those who are not in it. */
acre_group *ranks_subgroup(struct rank *me, const char *name, unsigned members);

#endif
