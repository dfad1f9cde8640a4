/* SPDX-License-Identifier: MIT */
/* A group of ranks as the library sees it. */
#ifndef SRC_SYMM_GROUP_H
#define SRC_SYMM_GROUP_H

#include "base/list.h"
#include "base/lock.h"
#include "base/process/fork.h"
#include "symm/link/link.h"

#include <acre/symm.h>

#include <stdatomic.h>

#define WORLD_MAX 1024 /* ranks of a group */

struct acre_group {
    struct list link;          /* in the registry until destroyed                        */
    _Atomic unsigned refs;     /* the registry or user, teams, calls under way           */
    char *name, *store_name;
    acre_store *store;         /* NULL for a world of one                                */
    acre_store *own_store;     /* to be destroyed with the group; NULL: the user's       */
    acre_store_server *server; /* the same                                               */
    unsigned generation;       /* fork_generation() of the process that made it         */
    int rank, count;
    uint32_t flags;            /* ACRE_GROUP_*, environment included                     */
    int32_t clique;            /* -1: none                                               */
    uint64_t timeout_ms;
    uint64_t serial;           /* unique in the process                                  */
    struct lock lock;          /* RANK_GROUP: one rendezvous at a time; guards the rest  */
    struct link *peers;        /* NULL until joined; constant afterwards                 */
    uint64_t epoch;            /* rendezvous so far, failed ones included                */
};

/* The group of that name with a reference, or ACRE_ERR_NOT_FOUND. */
acre_status group_get(const char *name, acre_group **out);
void group_put(acre_group *group);
/* Records that this is a child of the process that made the group: ACRE_ERR_FORKED. */
acre_status group_fail_forked(const acre_group *group);
/* Whether it is: connections, memory and counters would be used by two. */
static inline bool group_is_inherited(const acre_group *group)
{
    return __builtin_expect(group->generation != fork_generation(), 0);
}
/* Joins if that has not happened. The lock is held. */
acre_status group_join_locked(acre_group *group, int64_t deadline);

#endif
