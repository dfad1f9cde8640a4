/* SPDX-License-Identifier: MIT */
/* What a device held when its history began, found by undoing the history from the
 * segments at its end: an allocation undone frees its block, a free undone makes it
 * live again, and so with segments and mapped ranges.
 *
 * Sizes of blocks: what is live at both ends is known to the byte. Of a block that
 * was there before the history and freed during it only the requested size is told;
 * its block is at least that, rounded. In the small pool and with expandable segments
 * that is exact. In the large pool up to 1 MiB behind it may belong to it as well: a
 * gap of up to 1 MiB always does, for no free block there is that small; otherwise
 * the first allocation in the gap tells, for it stands where the gap begins. What
 * is left open is counted.
 */
#ifndef SRC_REPLAY_PAST_H
#define SRC_REPLAY_PAST_H

#include "format/snapshot/snapshot.h"

/* A block that was live at the start. */
struct past_block {
    uint64_t address;
    uint64_t bytes;           /* of the block                                    */
    uint64_t requested_bytes;
    uint64_t stream;
    uint32_t stack;           /* or SNAP_NONE                                    */
    bool is_kept;             /* still live at the end: its size is known        */
    uint64_t event;           /* for explanations: which allocated it, where is_met */
    bool is_met;              /* for explanations: its allocation is in the history */
    bool is_pending;          /* freed at the end, but a stream may still use it */
    bool is_open;             /* up to 1 MiB behind it may belong to it          */
};

/* A segment, or a mapped range of an expandable one, at the start. */
struct past_segment {
    uint64_t address, bytes;
    uint64_t stream;
    uint32_t pool;            /* of the snapshot's pools, or SNAP_NONE           */
    bool is_small, is_expandable;
};

struct past {
    struct past_block *blocks;     /* by address                                 */
    size_t block_count, block_capacity;
    struct past_segment *segments; /* by address                                 */
    size_t segment_count, segment_capacity;
    uint64_t requested_bytes;      /* of the blocks                              */
    uint64_t open_count;           /* blocks whose size is not known exactly ... */
    uint64_t open_bytes_max;       /* ... and by how much they may be larger     */
    uint64_t contradictions;       /* events that do not fit the segments        */
    uint64_t first_contradiction;  /* the last in time: undoing meets it first   */
    bool lacks_segments;           /* the file has none, and the history needs some */
    bool has_completed;            /* frees are free_completed; else _requested  */
    uint32_t divisions[16];        /* of powers of two from 1 MiB on, recorded   */
    uint32_t padding;              /* added to requests before rounding          */
};

/* Errors: ACRE_ERR_NOT_FOUND (no such device or no history), ACRE_ERR_HOST_MEMORY. */
acre_status past_recover(const struct snapshot *snapshot, uint32_t device, struct past *past);
/* What was live before an event, which may be the end of the history; a
 * device without history has only that moment. Of a device without segments, what the
 * history allocated before the event and did not free. */
acre_status past_recover_at(const struct snapshot *snapshot, uint32_t device, uint64_t event,
                            struct past *past);
void past_fini(struct past *past); /* a zeroed one is fine */

/* The size of the block that serves a request, by the recorded settings. */
uint64_t past_round(const struct past *past, uint64_t bytes);

#endif
