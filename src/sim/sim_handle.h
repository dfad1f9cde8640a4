/* SPDX-License-Identifier: MIT */
/* Handles of the reference device: numbers that look like pointers.
 *
 * Users may pass anything: destroyed handles, handles of another backend or of
 * another kind, plain rubbish. A handle is therefore never followed. It names a
 * slot of a table and carries a serial number that is unique in the process:
 *
 *     63 .............. 24 | 23 ........ 4 | 3 .. 0
 *            serial        |     index     |   0
 *
 * The slot it names remembers the handle of its present object. Slots are never
 * returned to the heap while the table lives, so comparing is always safe: find
 * the slot, take its lock, compare again. A freed slot goes to the end of the
 * free list, and its next object has another handle.
 *
 * Objects embed a struct slot as their first member. All other members belong to
 * the owner and keep their value when the slot changes hands.
 */
#ifndef SRC_BACKEND_SIM_HANDLE_H
#define SRC_BACKEND_SIM_HANDLE_H

#include "base/list.h"
#include "base/lock.h"

#include <acre/base.h>

#include <stdatomic.h>
#include <stdint.h>

#define SLOT_CHUNKS 14
#define SLOT_FIRST_CHUNK 64u /* slots of chunk 0; each further one is twice as long */

struct slot {
    struct lock lock;         /* guards the object                                */
    _Atomic uintptr_t handle; /* of the live object, 0: none; set under lock      */
    struct list link;         /* in slots.free while unused; under slots.lock     */
    uint32_t index;           /* constant                                         */
};

struct slots {
    struct lock lock;                     /* RANK_LEAF: growth and the free list  */
    const char *noun;                     /* "stream", for messages               */
    size_t bytes;                         /* of one object                        */
    enum lock_rank rank;                  /* of the locks of the objects          */
    void (*init)(struct slot *slot);      /* prepares a cleared object, once      */
    _Atomic uint32_t made;                /* slots with index below exist         */
    _Atomic uint32_t live;                /* taken and not given back             */
    struct list free;
    _Atomic(char *) chunks[SLOT_CHUNKS];
};

/* Makes an empty table with room for the first objects. */
acre_status slots_init(struct slots *slots, const char *noun, size_t bytes,
                       enum lock_rank rank, void (*init)(struct slot *));
/* Frees the slots; their owner has emptied the objects. */
void slots_fini(struct slots *slots);

/* Takes a slot that nobody can find yet, until slot_open. */
acre_status slots_take(struct slots *slots, struct slot **out);
/* Gives a closed slot back. */
void slots_give(struct slots *slots, struct slot *slot);

/* Makes a taken slot findable and returns its handle. */
void *slot_open(struct slot *slot);
/* Makes it unfindable; its lock is held. */
static inline void slot_close_locked(struct slot *slot)
{
    atomic_store_explicit(&slot->handle, 0, memory_order_release);
}

/* The slot of a live handle, or NULL. Without the slot's lock the answer is a
 * fact about the past, but the slot may always be touched. */
struct slot *slots_find(struct slots *slots, const void *handle);
/* Finds the slot of a live handle and takes its lock. */
struct slot *slots_lock(struct slots *slots, const void *handle);
/* Slot by index, for walks over all; index < made. */
struct slot *slots_at(struct slots *slots, uint32_t index);

#endif
