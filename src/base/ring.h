/* SPDX-License-Identifier: MIT */
/* A bounded ring of equal items: appending to a full one drops the oldest.
 *
 * Items are numbered from the oldest, 0, to the newest, count - 1. They are
 * plain bytes; a drop function, where given, is told each item that leaves
 * before its bytes go. Changing the capacity puts the items in order first, so
 * order and bounds hold whatever happened before.
 *
 *     slots   [ 5 ][ 6 ][ 2 ][ 3 ][ 4 ]
 *                        ▲ oldest
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_BASE_RING_H
#define SRC_BASE_RING_H

#include <acre/base.h>

#include <stdbool.h>

typedef void (*ring_drop_fn)(void *arg, void *item);

struct ring {
    char *slots;       /* capacity * item_bytes, owned   */
    size_t item_bytes; /* not 0                          */
    size_t capacity;   /* at least 1                     */
    size_t count;      /* at most capacity               */
    size_t oldest;     /* slot of item 0, below capacity */
    ring_drop_fn drop; /* may be NULL                    */
    void *drop_arg;
};

/* Makes an empty ring; a capacity of 0 counts as 1.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status ring_init(struct ring *ring, size_t item_bytes, size_t capacity, ring_drop_fn drop,
                      void *drop_arg);
void ring_fini(struct ring *ring); /* drops all; a zeroed ring is fine */

/* Appends a copy; never fails. Tells whether the oldest was dropped. */
bool ring_append(struct ring *ring, const void *item);
/* Item i; valid until the next change of the ring. */
void *ring_at(const struct ring *ring, size_t i);
void ring_clear(struct ring *ring);

/* Changes the capacity (0 counts as 1), keeping the newest items in order.
 * Errors: ACRE_ERR_HOST_MEMORY; the ring is unchanged then. */
acre_status ring_resize(struct ring *ring, size_t capacity);

#endif
