/* SPDX-License-Identifier: MIT */
/* Blocks of this process by address, with the teams they have met. */
#ifndef SRC_SYMM_BLOCK_H
#define SRC_SYMM_BLOCK_H

#include "symm/team/team.h"

/*          alloc                free, no id
 *   ──────────────► ALIVE ──────────────────────► gone; memory stays with its teams
 *                    ▲  │ free, with an id
 *         alloc with │  ▼
 *         the same id RESTING
 */
struct symm_block {
    struct list link;      /* in the list of blocks; all under its lock        */
    struct memory *memory; /* with a reference                                 */
    struct layout layout;
    char *group;           /* default; "" when none                            */
    bool has_id, is_alive;
    uint64_t id;
    struct list teams;     /* cached, each with a reference                    */
};

/* What a rendezvous needs to know about the block around a pointer. */
struct found {
    struct memory *memory; /* with a reference to put                          */
    struct layout layout;
    size_t offset;
    char group[256];       /* default                                          */
};

/* Extents of a block for a request of that size. Errors: ACRE_ERR_INVALID (overflow). */
acre_status layout_make(size_t bytes, size_t pad_bytes, size_t granularity,
                        struct layout *out);
/* The living block whose buffer holds pointer; false: none. */
bool block_find(const void *pointer, struct found *out);
/* The team that the block with this memory has with a group, with a reference; or NULL. */
struct team *block_team(const struct memory *memory, uint64_t group_serial);
/* Caches a team with its block, if that still lives. */
void block_keep_team(const struct memory *memory, struct team *team);

#endif
