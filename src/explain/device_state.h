/* SPDX-License-Identifier: MIT */
/* A device at one moment: what was live, by whom, and how the rest lay.
 *
 * Blocks come from undoing the history from its end (replay/past.h). Whose they are
 * is told by the allocation in the history, or else by the snapshot's own blocks.
 */
#ifndef SRC_EXPLAIN_MOMENT_H
#define SRC_EXPLAIN_MOMENT_H

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
    uint64_t largest_free_bytes; /* in one piece, shared pool                          */
    uint64_t free_split_bytes;   /* free in segments that are also in use, shared pool   */
    uint64_t free_whole_bytes;   /* of segments that are not in use, shared pool         */
    uint64_t free_stream_bytes;  /* free and split, of the stream asked about           */
    uint64_t waiting_bytes;      /* freed, but a stream may still use it                  */
    uint64_t private_bytes, private_free_bytes; /* held by private pools; free there   */
    struct group *stacks; /* most bytes first                                      */
    size_t stack_count;
    struct group *sizes; /* most bytes first                                      */
    size_t size_count;
};

/* stream: whose free memory counts as free_stream_bytes.
 * Errors: ACRE_ERR_NOT_FOUND (no such device), ACRE_ERR_HOST_MEMORY. */
acre_status device_state_create(const struct snapshot *snapshot, uint32_t device, uint64_t event,
                                uint64_t stream, struct device_state **out);
void device_state_destroy(struct device_state *device_state); /* NULL is fine */

/* The moment when most was live by the history: the end without one. */
acre_status device_state_of_peak(const struct snapshot *snapshot, uint32_t device,
                                 uint64_t *out_event);

#define MOMENT_NO_STACK "(no stack was recorded)"

/* Writes a stack in one line, innermost first: at most four frames that say something,
 * those of Python where there are any. Returns buffer. */
const char *device_state_stack_text(const struct snapshot *snapshot, uint32_t stack, char *buffer,
                                    size_t size);

#endif
