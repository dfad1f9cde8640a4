/* SPDX-License-Identifier: MIT */
/* Words for ranks on other hosts. What a near rank reads in another's control page, a far one
 * is sent: each control page has rows of one word per rank, which only that rank writes.
 *
 * A team with far ranks ends when they are done with it as well: who gives it away says so by
 * mail, as its last use of the others' memory, and keeps its own until all have said so.
 */
#ifndef SRC_SYMM_MAIL_H
#define SRC_SYMM_MAIL_H

#include "symm/collective/word.h"

enum mail_row {
    MAIL_SEQUENCE = 0, /* steps of collectives finished (sync.h)            */
    MAIL_CLOSED = 1,   /* 1: the sender has given the team away             */
    MAIL_BARRIER = 2,  /* and on, by channel: barriers come to (counters.h) */
};

/* The word of a row that a far rank writes here. */
struct spot mail_spot(const struct team *team, uint32_t row, int from);
/* Writes the own word of a row at all far ranks. Errors: ACRE_ERR_TIMEOUT, ACRE_ERR_PEER,
 * recorded, and in out_rank whom; -1: nobody in particular. */
acre_status mail_send(const struct work *work, uint32_t row, uint32_t value, int64_t deadline,
                      int *out_rank);

/* Takes a team over whose last reference is gone. */
void mail_bury(struct team *team);
/* Ends teams with which everybody is done. */
void mail_sweep(void);

#endif
