/* SPDX-License-Identifier: MIT */
/* Events: each record is a marker in a queue, and the latest one counts. Events of
 * OpenCL are counted, so that waits for an older record stay safe. */
#include "opencl/opencl.h"

#include "base/heap.h"
#include "base/status.h"

static acre_status event_find_locked(struct opencl *cl, void *handle, struct opencl_event **out)
{
    struct opencl_event *event = handle ? ptrmap_get(&cl->events, handle) : NULL;

    if (!event)
        return status_fail(ACRE_ERR_INVALID, "opencl: %p is not an event", handle);
    *out = event;
    return ACRE_OK;
}

acre_status event_create(void *self, int device, uint32_t flags, void **out_event)
{
    struct opencl *cl = self;
    struct opencl_event *event = heap_zalloc(sizeof *event);
    acre_status status;

    if (!event)
        return ACRE_ERR_HOST_MEMORY;
    event->device = device;
    event->flags = flags;
    lock_take(&cl->lock);
    status = ptrmap_put(&cl->events, event, event);
    lock_drop(&cl->lock);
    if (status == ACRE_OK)
        *out_event = event;
    else
        heap_free(event);
    return status;
}

static void event_end(struct opencl_event *event)
{
    if (event->latest)
        ocl.ReleaseEvent(event->latest);
    heap_free(event);
}

acre_status event_destroy(void *self, int device, void *handle)
{
    struct opencl *cl = self;
    struct opencl_event *event = NULL;
    acre_status status;

    (void)device;
    lock_take(&cl->lock);
    status = event_find_locked(cl, handle, &event);
    if (status == ACRE_OK)
        ptrmap_take(&cl->events, event);
    lock_drop(&cl->lock);
    if (status == ACRE_OK)
        event_end(event);
    return status;
}

void event_fini(struct opencl *cl)
{
    const struct ptrmap_entry *entry;
    size_t at = 0;

    while ((entry = ptrmap_next(&cl->events, &at)))
        event_end(entry->value);
    ptrmap_fini(&cl->events);
}

/* ---- Records ----------------------------------------------------------------------------- */

/* Enqueues a marker and gives it with a reference for the caller. */
static acre_status marker_enqueue(struct opencl *cl, int device, void *stream_handle,
                                  ocl_event *out)
{
    struct stream *stream = NULL;
    ocl_event marker = NULL;
    acre_status status = stream_enter(cl, device, stream_handle, &stream);
    const char *call = "EnqueueMarkerWithWaitList";

    if (status != ACRE_OK)
        return status;
    ocl_int code = ocl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &marker);

    if (code == OCL_SUCCESS && (code = ocl.RetainEvent(marker)) != OCL_SUCCESS) {
        ocl.ReleaseEvent(marker);
        call = "RetainEvent";
    }
    status = stream_leave(stream, call, code, marker);
    if (status == ACRE_OK)
        *out = marker;
    else if (code == OCL_SUCCESS) /* enqueued, but the flush failed */
        ocl.ReleaseEvent(marker);
    return status;
}

/* An event that may be recorded on streams of a device. */
static acre_status event_of_device_locked(struct opencl *cl, int device, void *handle,
                                          struct opencl_event **out)
{
    acre_status status = event_find_locked(cl, handle, out);

    if (status == ACRE_OK && (*out)->device != device)
        status = status_fail(ACRE_ERR_INVALID,
                             "opencl: an event of device %d is not recorded on a stream of "
                             "device %d",
                             (*out)->device, device);
    return status;
}

acre_status event_record(void *self, int device, void *handle, void *stream)
{
    struct opencl *cl = self;
    ocl_event marker = NULL, drop = NULL;
    struct opencl_event *event = NULL;
    acre_status status;

    lock_take(&cl->lock);
    status = event_of_device_locked(cl, device, handle, &event);
    lock_drop(&cl->lock);
    if (status == ACRE_OK)
        status = marker_enqueue(cl, device, stream, &marker);
    if (status != ACRE_OK)
        return status;
    lock_take(&cl->lock);
    status = event_of_device_locked(cl, device, handle, &event); /* it may have gone since */
    drop = status == ACRE_OK ? event->latest : marker;
    if (status == ACRE_OK)
        event->latest = marker;
    lock_drop(&cl->lock);
    if (drop)
        ocl.ReleaseEvent(drop);
    return status;
}

acre_status event_latest(struct opencl *cl, void *handle, int *out_device, ocl_event *out)
{
    struct opencl_event *event = NULL;
    ocl_int code = OCL_SUCCESS;
    acre_status status;

    lock_take(&cl->lock);
    status = event_find_locked(cl, handle, &event);
    if (status == ACRE_OK && event->latest)
        code = ocl.RetainEvent(event->latest);
    if (status == ACRE_OK && code == OCL_SUCCESS) {
        *out_device = event->device;
        *out = event->latest;
    }
    lock_drop(&cl->lock);
    return code == OCL_SUCCESS ? status : api_fail("RetainEvent", code);
}

acre_status event_status(ocl_event event)
{
    ocl_int state = 0;
    ocl_int code =
        ocl.GetEventInfo(event, OCL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);

    if (code != OCL_SUCCESS)
        return api_fail("GetEventInfo", code);
    if (state < 0)
        return status_fail_native(ACRE_ERR_DEVICE, state,
                                  "opencl: a command of the queue failed: %s (%d)",
                                  api_error_name(state), (int)state);
    return state == OCL_COMPLETE ? ACRE_OK : ACRE_ERR_NOT_READY;
}

/* ---- Questions ----------------------------------------------------------------------------- */

acre_status event_query(void *self, int device, void *handle)
{
    ocl_event latest = NULL;
    int owner;
    acre_status status = event_latest(self, handle, &owner, &latest);

    (void)device;
    if (status != ACRE_OK || !latest)
        return status;
    status = event_status(latest);
    ocl.ReleaseEvent(latest);
    return status;
}

acre_status event_synchronize(void *self, int device, void *handle)
{
    ocl_event latest = NULL;
    ocl_int code;
    int owner;
    acre_status status = event_latest(self, handle, &owner, &latest);

    (void)device;
    if (status != ACRE_OK || !latest)
        return status;
    code = ocl.WaitForEvents(1, &latest);
    if (code != OCL_SUCCESS)
        status = api_fail("WaitForEvents", code);
    ocl.ReleaseEvent(latest);
    return status;
}

/* When the record of a timing event completed, in nanoseconds of the device. */
static acre_status event_time(struct opencl *cl, int device, void *handle, uint64_t *out_ns)
{
    struct opencl_event *event = NULL;
    ocl_event latest = NULL;
    int owner = -1;
    uint32_t flags = 0;
    acre_status status;
    ocl_int code;

    lock_take(&cl->lock);
    status = event_find_locked(cl, handle, &event);
    if (status == ACRE_OK)
        flags = event->flags;
    lock_drop(&cl->lock);
    if (status == ACRE_OK)
        status = event_latest(cl, handle, &owner, &latest);
    if (status != ACRE_OK)
        return status;
    if (!(flags & ACRE_EVENT_TIMING) || !latest || owner != device)
        status = status_fail(ACRE_ERR_INVALID, "opencl: event %p of device %d %s", handle, owner,
                             !(flags & ACRE_EVENT_TIMING) ? "keeps no time; create it with "
                                                            "ACRE_EVENT_TIMING"
                             : latest                     ? "belongs to another device"
                                                          : "was never recorded");
    else
        status = event_status(latest);
    if (status == ACRE_OK) {
        code = ocl.GetEventProfilingInfo(latest, OCL_PROFILING_COMMAND_END, sizeof *out_ns, out_ns,
                                         NULL);
        if (code != OCL_SUCCESS)
            status = api_fail("GetEventProfilingInfo", code);
    }
    if (latest)
        ocl.ReleaseEvent(latest);
    return status;
}

acre_status event_elapsed(void *self, int device, void *start, void *end, double *out_ms)
{
    uint64_t from = 0, to = 0;
    acre_status status = event_time(self, device, start, &from);

    if (status == ACRE_OK)
        status = event_time(self, device, end, &to);
    if (status == ACRE_OK)
        *out_ms = (double)(int64_t)(to - from) / 1e6;
    return status;
}
