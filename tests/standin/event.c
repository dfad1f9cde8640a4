/* SPDX-License-Identifier: MIT */
/* Events: recorded in one context, waited for anywhere. */
#include "tests/standin/context.h"
#include "tests/standin/ipc_event.h"

/* An event as a call needs it, copied from the books. */
struct event_view {
    int device;
    void *sim, *context;
    unsigned flags;
    int was_recorded;
    struct ipc_event *shared; /* a reference, or NULL */
};

static CUresult event_view(CUevent handle, struct event_view *out)
{
    books_lock();
    struct event *event = object_find(KIND_EVENT, handle);
    if (event)
        *out = (struct event_view){event->object.device, event->sim, event->context,
                                   event->flags, event->was_recorded,
                                   ipc_event_ref(event->shared)};
    books_unlock();
    return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Publishes an event of the current context; takes over sim and shared. */
static CUresult event_publish(struct context *context, unsigned flags, void *sim,
                              struct ipc_event *shared, CUevent *out)
{
    int device = context->object.device;

    books_lock();
    struct event *event = object_create(KIND_EVENT, sizeof *event, device);
    if (event) {
        event->context = context;
        event->sim = sim;
        event->flags = flags;
        event->shared = shared;
        *out = HANDLE(event);
    }
    books_unlock();
    if (event)
        return CUDA_SUCCESS;
    standin.ops->event_destroy(standin.self, device, sim);
    ipc_event_unref(shared);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_make(unsigned flags, struct ipc_event *shared, CUevent *out)
{
    void *sim = NULL;

    books_lock();
    struct context *context = context_current();
    books_unlock();
    CUresult result = context ? SIM(event_create, context->object.device,
                                    flags & CU_EVENT_DISABLE_TIMING ? 0 : ACRE_EVENT_TIMING,
                                    &sim)
                              : CUDA_ERROR_INVALID_CONTEXT;
    if (result) {
        ipc_event_unref(shared);
        return result;
    }
    return event_publish(context, flags, sim, shared, out);
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    struct ipc_event *shared = NULL;
    CUresult result = CUDA_SUCCESS;

    ENTRY(cuEventCreate);
    if (!out || flags > 7 || (flags & 6) == CU_EVENT_INTERPROCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS)
        result = ipc_event_create(&shared);
    return result ? result : event_make(flags, shared, out);
}

CUresult cuEventDestroy_v2(CUevent handle)
{
    struct event copy = {.sim = NULL};

    ENTRY(cuEventDestroy_v2);
    books_lock();
    struct event *event = object_find(KIND_EVENT, handle);
    if (event) {
        copy = *event;
        object_destroy(event);
    }
    books_unlock();
    if (!copy.sim)
        return CUDA_ERROR_INVALID_HANDLE;
    ipc_event_unref(copy.shared);
    return SIM(event_destroy, copy.object.device, copy.sim);
}

static void note_recorded(CUevent handle)
{
    books_lock();
    struct event *event = object_find(KIND_EVENT, handle);
    if (event)
        event->was_recorded = 1;
    books_unlock();
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
    struct event_view event;
    struct place at;

    ENTRY(cuEventRecord);
    CUresult result = event_view(handle, &event);
    if (result)
        return result;
    result = stream_place(stream, &at);
    if (!result && at.device != event.device)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = event.shared ? ipc_event_record(event.shared, &at)
                              : SIM(event_record, event.device, event.sim, at.sim);
    if (!result)
        note_recorded(handle);
    ipc_event_unref(event.shared);
    return result;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned flags)
{
    struct event_view event;
    struct place at;

    ENTRY(cuStreamWaitEvent);
    CUresult result = flags > 1 ? CUDA_ERROR_INVALID_VALUE : event_view(handle, &event);
    if (result)
        return result;
    result = stream_place(stream, &at);
    if (!result)
        result = event.shared ? ipc_event_wait(event.shared, &at)
                              : SIM(stream_wait_event, at.device, at.sim, event.sim);
    ipc_event_unref(event.shared);
    return result;
}

CUresult cuEventQuery(CUevent handle)
{
    struct event_view event;

    ENTRY(cuEventQuery);
    CUresult result = event_view(handle, &event);
    if (result)
        return result;
    result = capture_allows();
    if (!result && event.shared)
        result = ipc_event_is_done(event.shared) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    else if (!result)
        result = SIM(event_query, event.device, event.sim);
    ipc_event_unref(event.shared);
    return result;
}

CUresult cuEventSynchronize(CUevent handle)
{
    struct event_view event;

    ENTRY(cuEventSynchronize);
    CUresult result = event_view(handle, &event);
    if (result)
        return result;
    result = capture_allows();
    if (!result && event.shared)
        ipc_event_synchronize(event.shared);
    else if (!result)
        result = waited(standin.ops->event_synchronize(standin.self, event.device, event.sim));
    ipc_event_unref(event.shared);
    pools_settle();
    return result;
}

static CUresult elapsed(float *out, CUevent start, CUevent end)
{
    struct event_view from, to;
    double ms = 0;

    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (event_view(start, &from))
        return CUDA_ERROR_INVALID_HANDLE;
    ipc_event_unref(from.shared);
    if (event_view(end, &to))
        return CUDA_ERROR_INVALID_HANDLE;
    ipc_event_unref(to.shared);
    if ((from.flags | to.flags) & CU_EVENT_DISABLE_TIMING || from.device != to.device ||
        !from.was_recorded || !to.was_recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = SIM(event_elapsed, from.device, from.sim, to.sim, &ms);
    if (!result)
        *out = (float)ms;
    return result;
}

CUresult cuEventElapsedTime_v2(float *out, CUevent start, CUevent end)
{
    ENTRY(cuEventElapsedTime_v2);
    return elapsed(out, start, end);
}

CUresult cuEventElapsedTime(float *out, CUevent start, CUevent end)
{
    ENTRY(cuEventElapsedTime);
    return elapsed(out, start, end);
}

/* ---- Between processes ---------------------------------------------------------------- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent handle)
{
    struct event_view event;

    ENTRY(cuIpcGetEventHandle);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = event_view(handle, &event);
    if (result)
        return result;
    result = event.shared ? ipc_event_handle(event.shared, out->reserved)
                          : CUDA_ERROR_INVALID_HANDLE;
    ipc_event_unref(event.shared);
    return result;
}

CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    struct ipc_event *shared = NULL;

    ENTRY(cuIpcOpenEventHandle);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = ipc_event_open(handle.reserved, &shared);
    return result ? result
                  : event_make(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, shared, out);
}
