/* SPDX-License-Identifier: MIT */
/* Which numbers were used, and which of them are live.
 *
 * Used numbers are kept as ranges without a gap between them, so that a file
 * that numbers its allocations one after the other costs one range however long
 * it is. Live numbers are in a hash table, each with a slot: a small number that
 * is handed out again when its owner ends.
 *
 * Not thread-safe.
 */
#ifndef SRC_FORMAT_IDSET_H
#define SRC_FORMAT_IDSET_H

#include "base/rbtree.h"

#include <acre/base.h>

struct idset_entry {
    uint64_t id;
    uint32_t slot; /* 0: empty, else slot + 1 */
};

struct idset {
    struct rbtree ranges;        /* of struct id_range, by first number           */
    struct id_range *recent;        /* the range grown last, or NULL              */
    struct idset_entry *entries; /* live numbers; open addressing              */
    size_t entry_count;          /* power of two, or 0                         */
    size_t live_count;
    uint32_t *free_slots;        /* stack of slots to hand out again           */
    size_t free_count, free_capacity; /* capacity is at least slot_count       */
    uint32_t slot_count;         /* slots ever handed out                      */
};

void idset_init(struct idset *set);
void idset_fini(struct idset *set); /* a zeroed one is fine */

/* Begins the life of a number and gives it a slot.
 * Errors: ACRE_ERR_EXISTS (used before; no text recorded), ACRE_ERR_HOST_MEMORY. */
acre_status idset_begin(struct idset *set, uint64_t id, uint32_t *out_slot);
/* The slot of a live number; false when it is not live. */
bool idset_find(const struct idset *set, uint64_t id, uint32_t *out_slot);
/* Ends the life of a number; false when it is not live. */
bool idset_end(struct idset *set, uint64_t id, uint32_t *out_slot);
/* Whether a number was ever used. */
bool idset_was_used(const struct idset *set, uint64_t id);
/* How many ranges the used numbers form. */
size_t idset_range_count(const struct idset *set);

#endif
