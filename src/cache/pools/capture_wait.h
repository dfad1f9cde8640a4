/* SPDX-License-Identifier: MIT */
/* Blocks that were freed while a capture was running and that other streams use.
 *
 * No event can tell when such a block is free: what uses it was recorded, not
 * queued. It waits, as a WAITING block with one event of no stream, until
 *   - the capture has ended: uses that were part of it are over with it, others
 *     are waited for as outside of captures; or
 *   - option graph_capture_record_stream_reuse is on, and whatever is captured
 *     next on the stream of the block comes after all that used it. That is so
 *     when the nodes that ended those streams at the time of the free, the
 *     markers, are among what that stream depends on now, its view.
 *
 * A view grows with the capture: nodes once seen are not visited again.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_PARK_H
#define SRC_CACHE_PARK_H

#include "base/ptrmap.h"
#include "cache/deferred.h"

#include <acre/backend.h>

/* One block that is held until the capture ends. */
struct capture_wait {
    struct list link; /* in capture waits.list                                        */
    struct block *block;
    struct use *uses;      /* those it had when it was freed                       */
    uint64_t capture_id;   /* that has to end                                      */
    void *stream;          /* one that takes part in it                            */
    uint32_t marker_count; /* 0: only the end of the capture sets it free          */
    uint64_t markers[];
};

/* What one stream of one capture depends on. */
struct view {
    struct list link; /* in capture waits.views                                       */
    uint64_t capture_id;
    void *stream;
    struct ptrmap nodes; /* ids as keys                                          */
};

struct capture_waits {
    struct list list; /* of struct capture wait, oldest first                         */
    struct list views;
};

void capture_waits_init(struct capture_waits *capture_waits);
/* Frees capture waits and views; blocks are forgotten, uses go back to deferred. */
void capture_waits_fini(struct capture_waits *capture_waits, struct deferred *deferred);

/* A capture wait with room for marker_capacity markers; NULL: no host memory. */
struct capture_wait *capture_wait_create(uint32_t marker_capacity);
/* Lets a LIVE block with uses wait. */
void capture_wait_begin(struct capture_waits *capture_waits, struct deferred *deferred,
                        struct capture_wait *capture_wait, struct block *block);
/* Makes the block LIVE with its uses for a moment, and undoes that. */
struct block *capture_wait_lift(struct capture_wait *capture_wait);
void capture_wait_lower(struct capture_wait *capture_wait);
/* Ends a capture wait whose block was lifted. */
void capture_wait_destroy(struct deferred *deferred, struct capture_wait *capture_wait);

/* The view of a stream; made if need be. NULL: no host memory. */
struct view *view_get(struct capture_waits *capture_waits, uint64_t capture_id, void *stream);
/* Adds the terminals of info and all that they depend on.
 * Errors: ACRE_ERR_HOST_MEMORY, what the device says; then less is in view. */
acre_status view_extend(struct view *view, struct acre_device *device,
                        const acre_capture_info *info);
/* Whether all markers of a capture wait are in view; false without markers. */
bool view_covers(const struct view *view, const struct capture_wait *capture_wait);
/* Forgets the views of a capture. */
void views_drop(struct capture_waits *capture_waits, uint64_t capture_id);

#endif
