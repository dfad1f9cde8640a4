/* SPDX-License-Identifier: MIT */
/* Records for ranks on other hosts, which no connection reaches: values in the store, one for
 * all of them, removed by the last who reads it. */
#ifndef SRC_SYMM_POST_H
#define SRC_SYMM_POST_H

#include "symm/team/group.h"
#include "symm/link/record.h"

/* Puts a stamped record where far ranks find it. */
acre_status post_send(const acre_group *group, const struct record *record, int64_t deadline);
/* Waits a little for what a far rank sent in this epoch: a record of the type, or the vote
 * of a rank that failed before. ACRE_ERR_NOT_READY: nothing yet. */
acre_status post_take(const acre_group *group, int rank, enum record_type type,
                      int64_t deadline, struct record *out);

#endif
