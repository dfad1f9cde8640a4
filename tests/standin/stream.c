/* SPDX-License-Identifier: MIT */
/* Streams: of contexts, with priorities, and what is queued on them. */
#include "tests/standin/context.h"
#include "tests/standin/graph.h"

#define STREAM_LEGACY ((CUstream)1)
#define STREAM_PER_THREAD ((CUstream)2)

/* The default stream of the current context. */
static CUresult default_place_locked(struct place *out)
{
    struct context *context = context_current();

    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (struct place){context->object.device, context->default_stream, context};
    return CUDA_SUCCESS;
}

static CUresult place_locked(CUstream handle, struct place *out)
{
    if (!handle || handle == STREAM_LEGACY || handle == STREAM_PER_THREAD)
        return default_place_locked(out);
    struct stream *stream = object_find(KIND_STREAM, handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct place){stream->object.device, stream->sim, stream->context};
    return CUDA_SUCCESS;
}

CUresult stream_place(CUstream handle, struct place *out)
{
    books_lock();
    CUresult result = place_locked(handle, out);
    books_unlock();
    return result;
}

CUresult stream_work_place(CUstream handle, struct place *out)
{
    books_lock();
    struct context *current = context_current();
    CUresult result = current ? place_locked(handle, out) : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && out->context != current)
        result = CUDA_ERROR_INVALID_HANDLE;
    books_unlock();
    return result;
}

/* ---- Life --------------------------------------------------------------------------- */

/* Priorities beyond the range are the nearest inside; the device has two. */
static int priority_clamp(int priority)
{
    if (priority > vendor.priority_least)
        return vendor.priority_least;
    return priority < vendor.priority_greatest ? vendor.priority_greatest : priority;
}

CUresult stream_make(struct context *context, unsigned flags, int priority, CUstream *out)
{
    void *sim = NULL;
    int device = context->object.device, clamped = priority_clamp(priority);

    if (!out || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = SIM(stream_create, device, 0, clamped < 0, &sim);
    if (result)
        return result;
    books_lock();
    struct stream *stream = object_create(KIND_STREAM, sizeof *stream, device);
    if (stream) {
        stream->context = context;
        stream->sim = sim;
        stream->flags = flags;
        stream->priority = clamped;
        *out = HANDLE(stream);
    }
    books_unlock();
    if (!stream)
        standin.ops->stream_destroy(standin.self, device, sim);
    return stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    ENTRY(cuStreamCreateWithPriority);
    books_lock();
    struct context *context = context_current();
    books_unlock();
    return context ? stream_make(context, flags, priority, out) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    ENTRY(cuStreamCreate);
    return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    ENTRY(cuStreamDestroy_v2);
    books_lock();
    struct stream *stream = object_find(KIND_STREAM, handle);
    void *sim = stream ? stream->sim : NULL;
    int device = stream ? stream->object.device : 0;
    if (stream) {
        capture_forget_locked(handle);
        object_destroy(stream);
    }
    books_unlock();
    return stream ? waited(standin.ops->stream_destroy(standin.self, device, sim))
                  : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- Asking and waiting ---------------------------------------------------------------- */

CUresult cuStreamQuery(CUstream handle)
{
    struct place at;

    ENTRY(cuStreamQuery);
    CUresult result = stream_place(handle, &at);
    return result ? result : waited(standin.ops->stream_query(standin.self, at.device, at.sim));
}

CUresult cuStreamSynchronize(CUstream handle)
{
    struct place at;

    ENTRY(cuStreamSynchronize);
    CUresult result = stream_place(handle, &at);
    if (!result)
        result = waited(standin.ops->stream_synchronize(standin.self, at.device, at.sim));
    pools_settle();
    return result;
}

CUresult cuStreamGetPriority(CUstream handle, int *out)
{
    ENTRY(cuStreamGetPriority);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct stream *stream = object_find(KIND_STREAM, handle);
    if (stream || !handle)
        *out = stream ? stream->priority : 0;
    books_unlock();
    return stream || !handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *out)
{
    ENTRY(cuStreamGetFlags);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct stream *stream = object_find(KIND_STREAM, handle);
    if (stream || !handle)
        *out = stream ? stream->flags : 0;
    books_unlock();
    return stream || !handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *out)
{
    struct place at;

    ENTRY(cuStreamGetCtx);
    CUresult result = out ? stream_place(handle, &at) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = HANDLE((struct context *)at.context);
    return result;
}

/* ---- Work ------------------------------------------------------------------------------- */

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *arg)
{
    struct place at;

    ENTRY(cuLaunchHostFunc);
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = stream_work_place(handle, &at);
    return result ? result : SIM(launch_host, at.device, at.sim, fn, arg);
}

static CUresult value_check(CUstream handle, CUdeviceptr address, struct place *out)
{
    if (standin.lacks & LACK_VALUES)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!address || address % 4)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_work_place(handle, out);
}

CUresult cuStreamWriteValue32_v2(CUstream handle, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags)
{
    struct place at;

    ENTRY(cuStreamWriteValue32_v2);
    CUresult result = flags > 1 ? CUDA_ERROR_INVALID_VALUE : value_check(handle, address, &at);
    return result ? result
                  : SIM(write_value32, at.device, at.sim, (void *)(uintptr_t)address, value);
}

CUresult cuStreamWaitValue32_v2(CUstream handle, CUdeviceptr address, cuuint32_t value,
                                unsigned flags)
{
    struct place at;

    ENTRY(cuStreamWaitValue32_v2);
    CUresult result = flags > 3 ? CUDA_ERROR_INVALID_VALUE : value_check(handle, address, &at);
    return result ? result
                  : SIM(wait_value32, at.device, at.sim, (void *)(uintptr_t)address, value,
                        (acre_wait_condition)flags);
}
