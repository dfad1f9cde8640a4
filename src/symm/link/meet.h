/* SPDX-License-Identifier: MIT */
/* One join under way: what link.c, which keeps the lines in the store, shares with meet.c, which
 * connects the ranks. */
#ifndef SRC_SYMM_MEET_H
#define SRC_SYMM_MEET_H

#include "symm/deadline.h"
#include "symm/link/link.h"
#include "symm/link/member.h"

#define JOIN_SLICE_MS 100 /* between looks at who has died */

struct joining {
    acre_store *store;
    const char *group;
    struct member self;
    struct link *link;
    int listener;
    int64_t deadline;
    int64_t born_ns; /* CLOCK_BOOTTIME at which this process started; 0: unknown */
    bool *has_come; /* by rank: its line was seen, maybe an old one */
    int looked;     /* ranks whose lines were looked for            */
};

int process_open(pid_t pid);
bool process_is_gone(pid_t pid);
bool process_is_stopped(pid_t pid);
/* CLOCK_BOOTTIME at which this process started, rounded down; 0 if the system does not tell. */
int64_t process_born_ns(void);

acre_status join_fail_dead(const struct joining *join, int rank, pid_t pid);
acre_status join_fail_missing(struct joining *join, int from);
/* Adds ranks whose processes are stopped to the sentence of a failure: those that wait for one
 * are late as well, and may be what this rank noticed. Returns status. */
acre_status join_add_stopped(struct joining *join, acre_status status);
/* ACRE_ERR_PEER when a rank that joined has died. */
acre_status join_check_alive(const struct joining *join);
/* Waits for the line of a rank, until the deadline. */
acre_status join_read_line(struct joining *join, int rank, struct member *out);
/* The line of a rank, if it is there and in order. */
bool join_peek_line(struct joining *join, int rank, struct member *out);

/* meet.c: connects to a rank below; waits for the connections of all ranks above. */
acre_status join_connect_to(struct joining *join, int rank);
acre_status join_accept_all(struct joining *join);

#endif
