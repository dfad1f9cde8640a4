/* SPDX-License-Identifier: MIT */
/* A handle: a team and where in the block the user stands. */
#ifndef SRC_SYMM_SYMM_H
#define SRC_SYMM_SYMM_H

#include "symm/team/team.h"

struct acre_symm {
    struct team *team;   /* with a reference                                         */
    size_t offset;
    _Atomic int failed;  /* acre_status of the first failure of work on a stream     */
    char failure[512];   /* its sentence; written before failed is set               */
};

/* Whether rank is one of the team. Errors: ACRE_ERR_RANGE names both. */
acre_status rank_check(const struct team *team, const char *call, int rank);

#endif
