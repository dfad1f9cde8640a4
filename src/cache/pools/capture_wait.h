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

/* One block that is parked. */
struct park {
    struct list link;      /* in parks.list                                        */
    struct block *block;
    struct use *uses;      /* those it had when it was freed                       */
    uint64_t capture_id;   /* that has to end                                      */
    void *stream;          /* one that takes part in it                            */
    uint32_t marker_count; /* 0: only the end of the capture sets it free          */
    uint64_t markers[];
};

/* What one stream of one capture depends on. */
struct view {
    struct list link;      /* in parks.views                                       */
    uint64_t capture_id;
    void *stream;
    struct ptrmap nodes;   /* ids as keys                                          */
};

struct parks {
    struct list list;      /* of struct park, oldest first                         */
    struct list views;
};

void parks_init(struct parks *parks);
/* Frees parks and views; blocks are forgotten, uses go back to deferred. */
void parks_fini(struct parks *parks, struct deferred *deferred);

/* A park with room for so many markers; NULL: no host memory. */
struct park *park_create(uint32_t marker_capacity);
/* Lets a LIVE block with uses wait. */
void park_begin(struct parks *parks, struct deferred *deferred, struct park *park,
                struct block *block);
/* Makes the block LIVE with its uses for a moment, and undoes that. */
struct block *park_lift(struct park *park);
void park_lower(struct park *park);
/* Ends a park whose block was lifted. */
void park_destroy(struct deferred *deferred, struct park *park);

/* The view of a stream; made if need be. NULL: no host memory. */
struct view *view_get(struct parks *parks, uint64_t capture_id, void *stream);
/* Adds the terminals of info and all that they depend on.
 * Errors: ACRE_ERR_HOST_MEMORY, what the device says; then less is in view. */
acre_status view_extend(struct view *view, struct acre_device *device,
                        const acre_capture_info *info);
/* Whether all markers of a park are in view; false without markers. */
bool view_covers(const struct view *view, const struct park *park);
/* Forgets the views of a capture. */
void views_drop(struct parks *parks, uint64_t capture_id);

#endif
