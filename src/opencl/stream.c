/* SPDX-License-Identifier: MIT */
/* Streams: in-order queues, each with the event of what was enqueued last.
 *
 * The tail answers whether the stream is idle without asking the queue, which
 * OpenCL does not allow. Where the queue was lent to the caller, who enqueues
 * without telling, a query first puts a marker behind everything and answers by
 * it: such a query speaks of the moment of the query before.
 */
#include "opencl/opencl.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

static acre_status stream_find_locked(struct opencl *cl, int device, void *handle,
                                      struct stream **out)
{
    struct stream *stream = handle ? ptrmap_get(&cl->streams, handle) : NULL;

    if (!stream || stream->device != device || stream->is_leaving)
        return status_fail(ACRE_ERR_INVALID, "opencl: %p is not a stream of device %d", handle,
                           device);
    *out = stream;
    return ACRE_OK;
}

static acre_status stream_find(struct opencl *cl, int device, void *handle, struct stream **out)
{
    acre_status status;

    lock_take(&cl->lock);
    status = stream_find_locked(cl, device, handle, out);
    lock_drop(&cl->lock);
    return status;
}

acre_status stream_enter(struct opencl *cl, int device, void *handle, struct stream **out)
{
    acre_status status = stream_find(cl, device, handle, out);

    if (status == ACRE_OK)
        lock_take(&(*out)->lock);
    return status;
}

/* Replaces the tail by an event that becomes the stream's. */
static void tail_set_locked(struct stream *stream, ocl_event event, bool is_probe)
{
    if (stream->tail)
        ocl.ReleaseEvent(stream->tail);
    stream->tail = event;
    stream->tail_is_probe = is_probe;
}

acre_status stream_leave(struct stream *stream, const char *call, ocl_int code, ocl_event event)
{
    if (code == OCL_SUCCESS) {
        tail_set_locked(stream, event, false);
        code = ocl.Flush(stream->queue);
        call = "Flush";
    }
    lock_drop(&stream->lock);
    return code == OCL_SUCCESS ? ACRE_OK : api_fail(call, code);
}

/* ---- Life ------------------------------------------------------------------------------ */

static void stream_release(struct stream *stream)
{
    tail_set_locked(stream, NULL, false);
    ocl.ReleaseCommandQueue(stream->queue);
    pthread_cond_destroy(&stream->wake);
    lock_fini(&stream->lock);
    heap_free(stream);
}

acre_status stream_create(void *self, int device, uint32_t flags, int priority, void **out)
{
    struct opencl *cl = self;
    struct stream *stream = heap_zalloc(sizeof *stream);
    acre_status status;

    (void)flags; /* no queue waits for another unless told to */
    if (!stream)
        return ACRE_ERR_HOST_MEMORY;
    status = opencl_queue_create(cl, device, &stream->queue);
    if (status != ACRE_OK) {
        heap_free(stream);
        return status;
    }
    stream->device = device;
    stream->priority = priority;
    lock_init(&stream->lock, RANK_STREAM, "opencl stream");
    lock_condition_init(&stream->wake);
    list_init(&stream->functions);
    lock_take(&cl->lock);
    status = ptrmap_put(&cl->streams, stream, stream);
    lock_drop(&cl->lock);
    if (status == ACRE_OK)
        *out = stream;
    else
        stream_release(stream);
    return status;
}

/* Runs what is queued, then lets go of the stream, which nobody finds any more. Until then, who
 * waits for all work waits for its work too. */
static acre_status stream_end(struct opencl *cl, struct stream *stream)
{
    ocl_int code;

    function_thread_end(stream);
    code = ocl.Finish(stream->queue);
    lock_take(&cl->lock);
    ptrmap_take(&cl->streams, stream);
    lock_drop(&cl->lock);
    stream_release(stream);
    return code == OCL_SUCCESS ? ACRE_OK : api_fail("Finish", code);
}

acre_status stream_destroy(void *self, int device, void *handle)
{
    struct opencl *cl = self;
    struct stream *stream = NULL;
    acre_status status;

    lock_take(&cl->lock);
    status = stream_find_locked(cl, device, handle, &stream);
    if (status == ACRE_OK)
        stream->is_leaving = true;
    lock_drop(&cl->lock);
    return status == ACRE_OK ? stream_end(cl, stream) : status;
}

void stream_fini(struct opencl *cl)
{
    const struct ptrmap_entry *entry;
    size_t at = 0;

    while ((entry = ptrmap_next(&cl->streams, &at))) {
        stream_end(cl, entry->value);
        at = 0; /* the others have moved */
    }
    ptrmap_fini(&cl->streams);
}

acre_status stream_priority(void *self, int device, void *handle, int *out_priority)
{
    struct stream *stream = NULL;
    acre_status status = stream_find(self, device, handle, &stream);

    if (status == ACRE_OK)
        *out_priority = stream->priority;
    return status;
}

/* ---- Waiting ----------------------------------------------------------------------------- */

/* Puts a marker behind everything that a borrower of the queue enqueued. */
static acre_status probe_locked(struct stream *stream)
{
    ocl_event event = NULL;
    ocl_int code = ocl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event);

    if (code != OCL_SUCCESS)
        return api_fail("EnqueueMarkerWithWaitList", code);
    tail_set_locked(stream, event, true);
    code = ocl.Flush(stream->queue);
    return code == OCL_SUCCESS ? event_status(event) : api_fail("Flush", code);
}

static acre_status query_locked(struct stream *stream)
{
    acre_status status = stream->tail ? event_status(stream->tail) : ACRE_OK;

    if (status == ACRE_ERR_NOT_READY)
        return status;
    if (status == ACRE_OK && stream->is_lent && !stream->tail_is_probe)
        return probe_locked(stream);
    tail_set_locked(stream, NULL, false);
    return status;
}

acre_status stream_query(void *self, int device, void *handle)
{
    struct stream *stream = NULL;
    acre_status status = stream_enter(self, device, handle, &stream);

    if (status != ACRE_OK)
        return status;
    status = query_locked(stream);
    lock_drop(&stream->lock);
    return status;
}

/* What went wrong since the last time, once. Everything has ended. */
static acre_status failure_take_locked(struct stream *stream)
{
    ocl_int failure = stream->failure;
    acre_status status = stream->tail ? event_status(stream->tail) : ACRE_OK;

    stream->failure = OCL_SUCCESS;
    if (status == ACRE_ERR_NOT_READY) /* enqueued by another thread since */
        status = ACRE_OK;
    else
        tail_set_locked(stream, NULL, false);
    if (failure != OCL_SUCCESS)
        return status_fail_native(ACRE_ERR_DEVICE, failure,
                                  "opencl: a host function did not run, because waiting for its "
                                  "turn failed: %s (%d)",
                                  api_error_name(failure), (int)failure);
    return status;
}

acre_status stream_synchronize(void *self, int device, void *handle)
{
    struct stream *stream = NULL;
    acre_status status = stream_find(self, device, handle, &stream);
    ocl_int code;

    if (status != ACRE_OK)
        return status;
    code = ocl.Finish(stream->queue);
    if (code != OCL_SUCCESS)
        return api_fail("Finish", code);
    lock_take(&stream->lock);
    status = failure_take_locked(stream);
    lock_drop(&stream->lock);
    return status;
}

acre_status stream_wait_event(void *self, int device, void *handle, void *event)
{
    struct opencl *cl = self;
    ocl_event awaited = NULL, done = NULL;
    struct stream *stream = NULL;
    int owner;
    acre_status status = event_latest(cl, event, &owner, &awaited);

    if (status == ACRE_OK && cl->devices[owner].platform != cl->devices[device].platform)
        status = status_fail(ACRE_ERR_UNSUPPORTED,
                             "opencl: a stream of %s cannot wait for an event of %s; synchronize "
                             "the event instead",
                             cl->devices[device].name, cl->devices[owner].name);
    if (status == ACRE_OK)
        status = stream_enter(cl, device, handle, &stream);
    if (status == ACRE_OK && !awaited)
        lock_drop(&stream->lock);
    else if (status == ACRE_OK) {
        ocl_int code = ocl.EnqueueBarrierWithWaitList(stream->queue, 1, &awaited, &done);

        status = stream_leave(stream, "EnqueueBarrierWithWaitList", code, done);
    }
    if (awaited)
        ocl.ReleaseEvent(awaited);
    return status;
}

/* ---- Many streams -------------------------------------------------------------------------- */

/* Whether a stream may have work under way. */
static bool is_busy(struct stream *stream)
{
    bool busy;

    lock_take(&stream->lock);
    busy = stream->is_lent || (stream->tail && event_status(stream->tail) != ACRE_OK);
    lock_drop(&stream->lock);
    return busy;
}

/* The queues of busy streams of a device, or of a platform when device is -1;
 * retained, so that the streams may go meanwhile. */
static acre_status busy_queues(struct opencl *cl, int device, int platform, ocl_queue **out,
                               size_t *out_count)
{
    const struct ptrmap_entry *entry;
    acre_status status = ACRE_OK;
    size_t at = 0, count = 0;
    ocl_queue *queues = NULL;

    lock_take(&cl->lock);
    if (cl->streams.count > 0 && !(queues = heap_array(cl->streams.count, sizeof *queues)))
        status = ACRE_ERR_HOST_MEMORY;
    while (status == ACRE_OK && (entry = ptrmap_next(&cl->streams, &at))) {
        struct stream *stream = entry->value;

        if (device >= 0 ? stream->device != device
                        : cl->devices[stream->device].platform != platform)
            continue;
        if (!is_busy(stream))
            continue;
        ocl_int code = ocl.RetainCommandQueue(stream->queue);

        if (code == OCL_SUCCESS)
            queues[count++] = stream->queue;
        else
            status = api_fail("RetainCommandQueue", code);
    }
    lock_drop(&cl->lock);
    *out = queues;
    *out_count = count;
    return status;
}

static acre_status stream_finish(struct opencl *cl, int device, int platform)
{
    ocl_queue *queues;
    size_t count;
    acre_status status = busy_queues(cl, device, platform, &queues, &count);

    for (size_t i = 0; i < count; i++) {
        ocl_int code = ocl.Finish(queues[i]);

        if (code != OCL_SUCCESS && status == ACRE_OK)
            status = api_fail("Finish", code);
        ocl.ReleaseCommandQueue(queues[i]);
    }
    heap_free(queues);
    return status;
}

acre_status stream_device_synchronize(void *self, int device)
{
    return stream_finish(self, device, -1);
}

acre_status stream_platform_synchronize(struct opencl *cl, int platform)
{
    return stream_finish(cl, -1, platform);
}
