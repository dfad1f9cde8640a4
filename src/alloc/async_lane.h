/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory of one device.
 *
 *            async_alloc            free                       helper or own stream
 *   nothing ────────────► LIVE ───────────────► LEAVING ─────────────────────► nothing
 *                                │                 ▲   the device refuses: LIVE
 *                                │ in a capture    │   (PUT OFF, when it came from there)
 *                                └────► PUT OFF ───┘ next call outside it
 *
 * A block is in exactly one of: blocks (LIVE), put_off, or the hands of the thread
 * that frees it. The device is never called with the lock of a lane held.
 */
#ifndef SRC_ALLOC_ASYNC_LANE_H
#define SRC_ALLOC_ASYNC_LANE_H

#include "base/list.h"
#include "base/lock.h"
#include "base/ptrmap.h"

#include <acre/allocator.h>

/* What belongs to one device. */
struct async_lane {
    struct lock lock;
    acre_device *device;
    struct ptrmap blocks;   /* base to block                                      */
    struct list put_off;    /* blocks freed inside a capture they do not belong to */
    void *helper;           /* a stream, made when first needed                    */
    uint64_t limit;         /* bytes in use, UINT64_MAX: none                      */
    acre_stat allocated;    /* as requested; goes down when the device has freed   */
    int64_t alloc_count, free_count;
};

/* The first two arguments of entries of the device of a lane. */
#define LANE lane->device->self, lane->device->index

/* Begins with the device set and the rest zero; ends by freeing what is left. */
void async_lane_init(struct async_lane *lane);
void async_lane_fini(struct async_lane *lane);

/* Errors: ACRE_ERR_LIMIT, ACRE_ERR_DEVICE_MEMORY, ACRE_ERR_HOST_MEMORY. */
acre_status async_lane_alloc(struct async_lane *lane, size_t bytes, void *stream, void **out);
/* False when the base is not of this lane; else out_status tells how freeing went. */
bool async_lane_free(struct async_lane *lane, void *base, acre_status *out_status);
/* Notes that a stream uses a block. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status async_lane_record(struct async_lane *lane, void *pointer, void *stream,
                              bool *out_known);
/* Frees what was put off and is in no capture any more. */
void async_lane_tidy(struct async_lane *lane);

#endif
