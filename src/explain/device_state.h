/* SPDX-License-Identifier: MIT */
/* A device at one moment: what was live, by whom, and how the rest lay.
 *
 * Blocks come from undoing the history from its end (replay/past.h). Whose they are
 * is told by the allocation in the history, or else by the snapshot's own blocks.
 */
#ifndef SRC_EXPLAIN_MOMENT_H
#define SRC_EXPLAIN_MOMENT_H

#include "format/frames.h"
#include "format/snapshot/snapshot.h"
#include "replay/past.h"

/* What live blocks have in common: a stack, or a class of sizes. */
struct group {
    uint32_t key; /* stack, or SNAP_NONE; log2 of the smallest size        */
    uint64_t bytes, count;
};

struct device_state {
    uint64_t event; /* it is the moment before this one                      */
    struct past past;
    uint64_t allocated_bytes; /* of blocks, waiting ones not                           */
    uint64_t requested_bytes;
    uint64_t reserved_bytes;
    uint64_t largest_free_bytes; /* in one piece, any stream, shared pool              */
    uint64_t own_largest_bytes;  /* in one piece that the request might have taken     */
    uint64_t own_free_bytes;     /* free and split, where the request might have looked */
    uint64_t free_split_bytes;   /* free in segments that are also in use, shared pool   */
    uint64_t free_whole_bytes;   /* of segments that are not in use, shared pool         */
    uint64_t waiting_bytes;      /* freed, but a stream may still use it                  */
    uint64_t private_bytes, private_free_bytes; /* held by private pools; free there   */
    uint64_t categories[CATEGORY_COUNT]; /* live bytes by what they are for            */
    uint64_t stackless_bytes;            /* live bytes without a stack                  */
    struct group *stacks; /* most bytes first                                      */
    size_t stack_count;
    struct group *sizes; /* most bytes first                                      */
    size_t size_count;
};

/* request: the request that failed, whose stream and pool decide what counts as own_*, or
 * NULL: the default stream and the shared pool.
 * Errors: ACRE_ERR_NOT_FOUND (no such device), ACRE_ERR_HOST_MEMORY. */
acre_status device_state_create(const struct snapshot *snapshot, uint32_t device, uint64_t event,
                                const struct snap_entry *request, struct device_state **out);
void device_state_destroy(struct device_state *device_state); /* NULL is fine */

/* The moment when most was live by the history: the end without one. */
acre_status device_state_of_peak(const struct snapshot *snapshot, uint32_t device,
                                 uint64_t *out_event);

#define MOMENT_NO_STACK "(no stack was recorded)"

/* What one stack is for, by its frames (frames.h). */
enum frames_category device_state_category(const struct snapshot *snapshot, uint32_t stack);

/* Writes a stack in one line: the user's own line first, then the lines that called it, at
 * most three, and last the call of a library that it made. Without a line of the user, the
 * innermost frames that say something. Returns buffer. */
const char *device_state_stack_text(const struct snapshot *snapshot, uint32_t stack, char *buffer,
                                    size_t size);

#endif
