/* SPDX-License-Identifier: MIT */
/* The history of a device as the events of a trace.
 *
 * What was live at the start is allocated first, by address. Then every alloc is an
 * allocation and every free_completed a free; a run of segments given back that no new
 * segment follows is an emptied cache. A request that failed is no part of the job and is
 * left out; when asked for, it is an allocation that is freed at once, so that whoever
 * replays has to serve it. Sizes include the padding of the allocator (facts.h). Streams are
 * numbered in the
 * order they are met, the default one is 0.
 */
#ifndef SRC_REPLAY_HISTORY_H
#define SRC_REPLAY_HISTORY_H

#include "replay/past.h"

#include <acre/trace.h>

struct trace_history {
    acre_trace_event *events;
    uint32_t *entries;        /* by event: of the device's entries; SNAP_NONE: start    */
    size_t event_count, event_capacity, entry_capacity;
    uint64_t slot_count;
    uint64_t *streams;        /* native handles by number                               */
    size_t stream_count, stream_capacity;
    uint64_t start_count;     /* events that stand for the state at the start           */
    uint64_t oom_count;       /* requests that failed                                   */
    bool has_requests;        /* those are among the events                             */
    struct past past;
};

/* Errors: ACRE_ERR_NOT_FOUND (no history), ACRE_ERR_LIMIT (too many streams),
 * ACRE_ERR_HOST_MEMORY. */
acre_status history_create(const struct snapshot *snapshot, uint32_t device,
                           bool has_requests, struct trace_history **out);
void history_destroy(struct trace_history *history); /* NULL is fine */

#endif
