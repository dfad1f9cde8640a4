/* SPDX-License-Identifier: MIT */
/* One block and one group after their rendezvous: everybody's memory, mapped here.
 *
 * Counted by the block that caches it and by handles. The last put unmaps everything.
 */
#ifndef SRC_SYMM_TEAM_H
#define SRC_SYMM_TEAM_H

#include "symm/collective/control.h"
#include "symm/team/group.h"
#include "symm/team/memory.h"

/* Extents of a block; see acre/symm.h. */
struct layout {
    size_t buffer_bytes, pad_offset, pad_bytes, block_bytes;
};

/* Where a rank on another host is found; memories and controls have none of it. */
struct place_far {
    bool is_far;
    int wire_rank;
    uint64_t block, control; /* addresses on the wire */
};

struct team {
    struct list link;          /* in block->teams; under the lock of blocks           */
    _Atomic unsigned refs;
    acre_group *group;         /* with a reference                                    */
    int rank, count;
    struct layout layout;
    acre_device *device;       /* NULL: host                                          */
    bool has_kernels;          /* work runs where the memory is                       */
    bool has_multicast;
    uint32_t channels;
    unsigned spin_count;       /* looks at a word before the processor is given away  */
    uint32_t *rounds;          /* by channel: barriers come to (counters.h)           */
    struct control *pair[2];   /* of two near ranks on the host: own and other's page */
    struct memory **memories;  /* by rank; NULL for far ones                          */
    struct memory **controls;  /* by rank; host memory                                */
    struct place_far *places;  /* by rank; NULL: all are near                         */
    _Atomic bool is_broken;    /* a collective failed half way                        */
    uint32_t sequence;         /* steps of collectives begun; the users' order        */
    struct lock lock;          /* RANK_THREADS: one collective at a time              */
};

/* Meets the others around memory; the lock of the group is held. */
acre_status team_create_locked(acre_group *group, struct memory *memory,
                               const struct layout *layout, struct team **out);
void team_get(struct team *team);
void team_put(struct team *team); /* NULL is fine */
/* Really ends a team that team_put has given away. */
void team_free(struct team *team);

static inline struct control *team_control(const struct team *team, int rank)
{
    return (struct control *)(void *)team->controls[rank]->base;
}

static inline bool team_is_far(const struct team *team, int rank)
{
    return team->places && team->places[rank].is_far;
}

/* The plans are the two after the stages. */
static inline char *team_stage(const struct team *team, int rank, unsigned which)
{
    return team->controls[rank]->base + control_stage_offset(team->channels) +
           which * STAGE_BYTES;
}

#endif
