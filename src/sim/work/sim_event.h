/* SPDX-License-Identifier: MIT */
/* An event of the reference device: the position of its latest record.
 *
 *            record               the stream gets there
 *   never ──────────► pending ────────────────────────────► done
 *     │                ▲   └── record again: another position ─┘ │
 *     │ record on a    │                                         │
 *     │ capturing      └────────────── record ───────────────────┤
 *     ▼ stream                                                   │
 *   captured ◄──────────────── record on a capturing stream ─────┘
 *
 * A wait copies the position when it is called, so later records cannot move it.
 * Done is a comparison with what the stream has completed; nothing is written when
 * it happens, except the time into events that want it.
 */
#ifndef SRC_BACKEND_SIM_EVENT_H
#define SRC_BACKEND_SIM_EVENT_H

#include "sim/sim_handle.h"

#include <stdbool.h>

struct capture_mark;
struct op;
struct sim_event;
struct sim_stream;
struct sim_streams;

/* Guarded by slot.lock. */
struct sim_event {
    struct slot slot;
    int device;                 /* constant while live                               */
    bool has_timing;            /* constant while live                               */
    bool is_stamped;            /* stamp_ns is the time of the latest record         */
    struct sim_stream *stream;  /* of the latest record; NULL: never                 */
    uint64_t position;          /* of the latest record                              */
    uint64_t stamp_ns;          /* monotonic clock                                   */
    struct capture_mark *mark;  /* owned; not NULL: captured, stream counts no more  */
};

/* Prepares a fresh slot. */
void event_slot_init(struct slot *slot);
/* Finds a live event and takes its lock; device -1: of any device. */
acre_status event_lock(struct sim_streams *all, int device, void *handle,
                       struct sim_event **out);
/* Writes the time into the event of an OP_STAMP unless it was recorded anew. */
void event_stamp(const struct op *op, struct sim_stream *stream);

#endif
