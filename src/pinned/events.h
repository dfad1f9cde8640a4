/* SPDX-License-Identifier: MIT */
/* Which streams use a piece, and the events a freed one waits for.
 *
 * Streams may belong to any device of the backend. When a piece is freed, an event is
 * recorded on each stream that uses it; the last that passes makes it free. Events are
 * kept with their entries for reuse until event_store_trim.
 *
 *   queues   policy acre: one per stream, oldest event first, so a stream that is
 *            behind holds up nobody else; policy torch: one for all streams
 *
 * Adding a piece queues all its events or changes nothing. An event whose query fails
 * stays where it is, and is asked again later.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_PINNED_EVENTS_H
#define SRC_PINNED_EVENTS_H

#include "base/list.h"

#include <acre/base.h>

#include <stdbool.h>

struct acre_device;
struct host_block;

/* A stream that uses a piece. */
struct host_use {
    struct acre_device *device;
    void *stream;
    bool is_captured;  /* as part of a graph */
    struct host_use *next;
};

/* Events and objects not needed at the moment; one for all pools. */
struct event_store {
    struct list spares;  /* entries with an event each */
    uint64_t query_count;
};

struct events {
    struct list queues;  /* in order of first wait */
    uint64_t pending;    /* events in all queues   */
    bool in_one_order;
};

/* Called when the last event of a piece has passed. */
typedef void (*events_done_fn)(void *arg, struct host_block *host_block);

void event_store_init(struct event_store *store);
/* Destroys the events that are not pending. */
void event_store_trim(struct event_store *store);

void events_init(struct events *events, bool in_one_order);

/* Notes that a stream uses a piece; again is fine. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status use_add(struct host_block *host_block, struct acre_device *device, void *stream,
                    bool is_captured);
/* Forgets the uses of a piece: all of them, or those of captures. */
void uses_forget(struct host_block *host_block, bool captured_only);
/* Whether a stream is being captured at this moment. */
bool stream_is_captured(struct acre_device *device, void *stream);
/* Whether the uses of a piece are part of a graph; whether one of its streams is being
 * captured, so that no event can be recorded there now. */
bool uses_are_captured(const struct host_block *host_block);
bool uses_are_in_capture(const struct host_block *host_block);

/* Records an event for every use, which are gone then. On failure nothing has changed.
 * Errors: ACRE_ERR_HOST_MEMORY, what the device answers. */
acre_status events_add(struct event_store *store, struct events *events,
                       struct host_block *host_block);

/* Calls done for blocks whose events have passed; waits for all of them if is_waiting.
 * Goes on after an error of the device, unless there is one order, and gives the first. */
acre_status events_collect(struct event_store *store, struct events *events, bool is_waiting,
                           events_done_fn done, void *arg);

/* Forgets what is pending; its blocks go with their memory. */
void events_fini(struct event_store *store, struct events *events);

#endif
