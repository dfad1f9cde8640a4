/* SPDX-License-Identifier: MIT */
/* The line in which a rank tells the others of its group who and where it is. */
#ifndef SRC_SYMM_MEMBER_H
#define SRC_SYMM_MEMBER_H

#include "symm/link/channel.h"

#include <acre/store.h>

#include <stdbool.h>
#include <stdint.h>

#define MEMBER_KEY 600 /* bytes of a key in the store */

struct member {
    int rank, count;
    pid_t pid;
    uid_t uid;
    char host[40];               /* boot id: one per running kernel; or ACRE_SYMM_HOST */
    uint64_t network, processes; /* namespaces                                         */
    uint64_t token;
    char name[CHANNEL_NAME_BYTES];
    char wire[32];               /* by which far ranks reach it; "-": none             */
    int wire_rank;
    int64_t written_ns;            /* CLOCK_BOOTTIME of its host, when it wrote the line */
};

/* This process; token and name are left to the caller. */
void member_describe(int rank, int count, const char *wire, int wire_rank, struct member *out);
bool member_has_wire(const struct member *member);
/* Whether two ranks share memory and processes, or each has no more than a wire. */
bool member_is_near(const struct member *a, const struct member *b);
/* Whether a rank can be met from here. Errors: ACRE_ERR_INVALID, ACRE_ERR_UNSUPPORTED
 * (another host and no common wire), ACRE_ERR_REJECTED (another user). */
acre_status member_check(const char *group, const struct member *self,
                         const struct member *member);

void member_key(const char *group, int rank, char *out, size_t bytes);
acre_status member_write(acre_store *store, const char *group, const struct member *self,
                         int64_t deadline);
void member_remove(acre_store *store, const char *group, int rank);
/* Errors: ACRE_ERR_FORMAT (damaged, or of another rank). */
acre_status member_parse(const acre_blob *blob, int rank, struct member *out);

#endif
