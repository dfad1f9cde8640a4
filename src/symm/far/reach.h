/* SPDX-License-Identifier: MIT */
/* Moving bytes between this rank and far ones, as part of work. */
#ifndef SRC_SYMM_REACH_H
#define SRC_SYMM_REACH_H

#include "symm/far/far.h"
#include "symm/collective/sync.h"

#define REACH_CHUNK (256u << 10) /* bytes of each far rank that are here at a time */

/* A piece with a far rank's buffer, offset bytes from the handle's own. */
far_op reach_piece(const struct work *work, enum wire_kind kind, int rank, size_t offset,
                   const void *here, size_t bytes);
/* Does pieces; a failure is recorded and names the rank of the group. */
acre_status reach_run(const struct work *work, const far_op *ops, size_t count,
                      int64_t deadline);
/* Reaches far ranks inside a collective, which cannot go on after a failure. */
acre_status reach_together(struct work *work, const far_op *ops, size_t count);
/* The rank of the group that has a rank of the wire; -1: none. */
int reach_rank_of(const struct team *team, int wire_rank);

/* What far ranks have at a place, brought here. */
struct pulled {
    char *room;      /* count of them, each of bytes_each                    */
    far_op *ops;
    size_t ops_max, bytes_each;
};

/* Room for rows of every far rank; zeroed. */
acre_status pulled_init(const struct work *work, size_t rows, size_t bytes, struct pulled *out);
void pulled_fini(struct pulled *pulled);
/* Rows of width bytes, pitch bytes apart, from offset on. */
struct pulled_rows {
    size_t offset, pitch, width, rows;
};
/* Brings rows; sources[i] of far ranks point
 * to them afterwards, one row after the other. */
acre_status pulled_bring(struct work *work, struct pulled *pulled, const struct pulled_rows *rows,
                         void **sources);

#endif
