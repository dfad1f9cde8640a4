/* SPDX-License-Identifier: MIT */
/* The connections of one rank to all others of its group, and who of them still lives.
 *
 * Joining: every rank listens under a random name and puts a line about itself into the
 * store: rank, process, user, host, name, token. It connects to all ranks below it and is
 * connected to by all above; each side checks what the kernel says about the other against
 * that line, and the first message proves that its sender has read the line. A line that
 * leads nowhere (of a process before, or not yet replaced) is read again until the deadline, or
 * for a moment when its process is gone and wrote it after this one had started.
 * Afterwards each rank removes its line, so nothing stays in the store. Ranks on other hosts
 * are not connected to: each puts a greeting for the other into the store.
 *
 * Constant once made, so that any thread may ask it. A child of fork keeps no connection, so that
 * the others see when this rank leaves.
 */
#ifndef SRC_SYMM_LINK_H
#define SRC_SYMM_LINK_H

#include <acre/symm.h>

#include <stdbool.h>
#include <sys/types.h>

struct peer {
    int fd;    /* connection; -1 for the rank itself                               */
    int pidfd; /* of its process; -1 for threads of this one, or old kernels       */
    pid_t pid;
    bool is_far;   /* on another host: reached over the wire only                  */
    int wire_rank; /* there                                                        */
    int host;      /* equal for ranks of one host, where there is a wire           */
};

struct link {
    int rank, count;
    bool has_far;
    unsigned generation; /* fork_generation() of the process whose they are        */
    uint64_t token;      /* the same on all ranks, differs for every join          */
    struct peer peers[]; /* by rank                                                */
};

/* Errors: ACRE_ERR_TIMEOUT names the ranks that did not come, ACRE_ERR_PEER those that died,
 * ACRE_ERR_UNSUPPORTED those on other hosts, ACRE_ERR_INVALID (ranks do not agree). */
acre_status link_join(acre_store *store, const char *name, int rank, int count,
                      int64_t deadline, struct link **out);
void link_destroy(struct link *link); /* NULL is fine */

/* Whether the process of a rank has ended. */
bool link_is_dead(const struct link *link, int rank);
/* Whether it has ended or does so within a few milliseconds: a process that ends closes its
 * connections first. */
bool link_dies_within(const struct link *link, int rank, int ms);

/* Text that lists the ranks for which is_missing says so: "rank 2" or "ranks 1, 3". */
void ranks_text(char *buffer, size_t bytes, const bool *is_missing, int count);

#endif
