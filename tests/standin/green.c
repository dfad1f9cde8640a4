/* SPDX-License-Identifier: MIT */
/* Green contexts: a share of a device's multiprocessors as a context. */
#include "tests/standin/context.h"

#include <string.h>

#define UNITS 132
#define UNITS_STEP 8 /* a share is a multiple of this */

/* What the padding of a resource says, so that foreign ones are refused. */
struct mark {
    char magic[12];
    int device;
};
static const char mark_magic[12] = "standin-sms";

struct desc {
    struct object object;
    unsigned units;
};

struct green {
    struct object object;
    struct context *context; /* never freed: threads may have it current */
    unsigned units;
};

static void resource_write(CUdevResource *out, int device, unsigned units)
{
    struct mark mark = {.device = device};

    memcpy(mark.magic, mark_magic, sizeof mark.magic);
    memset(out, 0, sizeof *out);
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    memcpy(out->_internal_padding, &mark, sizeof mark);
    out->sm.smCount = units;
    out->sm.minSmPartitionSize = UNITS_STEP;
    out->sm.smCoscheduledAlignment = UNITS_STEP;
}

static CUresult resource_read(const CUdevResource *resource, int *out_device)
{
    struct mark mark;

    if (!resource || resource->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&mark, resource->_internal_padding, sizeof mark);
    if (memcmp(mark.magic, mark_magic, sizeof mark_magic) != 0 ||
        !device_is_valid(mark.device) || resource->sm.smCount > UNITS)
        return CUDA_ERROR_INVALID_VALUE;
    *out_device = mark.device;
    return CUDA_SUCCESS;
}

/* ---- Resources -------------------------------------------------------------------------- */

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *out, CUdevResourceType type)
{
    ENTRY(cuDeviceGetDevResource);
    if (!out || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    resource_write(out, device, UNITS);
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *out_groups, unsigned *group_count,
                                     const CUdevResource *input, CUdevResource *out_rest,
                                     unsigned flags, unsigned units_min)
{
    int device;

    ENTRY(cuDevSmResourceSplitByCount);
    CUresult result = group_count ? resource_read(input, &device) : CUDA_ERROR_INVALID_VALUE;
    if (result || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned units = (units_min + UNITS_STEP - 1) / UNITS_STEP * UNITS_STEP;
    units = units ? units : UNITS_STEP;
    unsigned possible = input->sm.smCount / units;
    if (!out_groups) {
        *group_count = possible;
        return CUDA_SUCCESS;
    }
    if (possible == 0 || *group_count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned count = *group_count < possible ? *group_count : possible;
    for (unsigned i = 0; i < count; i++)
        resource_write(&out_groups[i], device, units);
    if (out_rest)
        resource_write(out_rest, device, input->sm.smCount - count * units);
    *group_count = count;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources,
                                   unsigned count)
{
    unsigned units = 0;
    int device = 0;

    ENTRY(cuDevResourceGenerateDesc);
    if (!out || !resources || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if (resource_read(&resources[i], &device))
            return CUDA_ERROR_INVALID_VALUE;
        units += resources[i].sm.smCount;
    }
    books_lock();
    struct desc *desc = object_create(KIND_DESC, sizeof *desc, device);
    if (desc) {
        desc->units = units;
        *out = HANDLE(desc);
    }
    books_unlock();
    return desc ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- Contexts ------------------------------------------------------------------------------ */

/* A description is used up by the context that is made of it. */
static CUresult green_make_locked(CUdevResourceDesc handle, int device, void *stream,
                                  CUgreenCtx *out)
{
    struct desc *desc = object_find(KIND_DESC, handle);

    if (!desc || desc->object.device != device)
        return CUDA_ERROR_INVALID_VALUE;
    struct green *green = object_create(KIND_GREEN, sizeof *green, device);
    struct context *context =
        green ? object_create(KIND_CONTEXT, sizeof *context, device) : NULL;
    if (!context) {
        if (green)
            object_destroy(green);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->is_green = 1;
    context->default_stream = stream;
    context->peers = (uint64_t)1 << device;
    green->context = context;
    green->units = desc->units;
    object_destroy(desc);
    *out = HANDLE(green);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device,
                          unsigned flags)
{
    void *stream = NULL;

    ENTRY(cuGreenCtxCreate);
    if (!out || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = SIM(stream_create, device, 0, 0, &stream);
    if (result)
        return result;
    books_lock();
    result = green_make_locked(desc, device, stream, out);
    books_unlock();
    if (result)
        standin.ops->stream_destroy(standin.self, device, stream);
    return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle)
{
    void *stream = NULL;
    int device = 0;

    ENTRY(cuGreenCtxDestroy);
    books_lock();
    struct green *green = object_find(KIND_GREEN, handle);
    if (green) {
        device = green->object.device;
        stream = green->context->default_stream;
        green->context->is_green = 0;
        green->context->default_stream = NULL;
        object_destroy(green);
    }
    books_unlock();
    return stream ? SIM(stream_destroy, device, stream) : CUDA_ERROR_INVALID_VALUE;
}

/* The context and device of a green context; the context is never freed. */
static CUresult green_context(CUgreenCtx handle, struct context **out)
{
    books_lock();
    struct green *green = object_find(KIND_GREEN, handle);
    if (green)
        *out = green->context;
    books_unlock();
    return green ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx handle)
{
    struct context *context;

    ENTRY(cuCtxFromGreenCtx);
    CUresult result = out ? green_context(handle, &context) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = HANDLE(context);
    return result;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *out, CUdevResourceType type)
{
    ENTRY(cuGreenCtxGetDevResource);
    if (!out || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct green *green = object_find(KIND_GREEN, handle);
    if (green)
        resource_write(out, green->object.device, green->units);
    books_unlock();
    return green ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx handle, unsigned flags, int priority)
{
    struct context *context;

    ENTRY(cuGreenCtxStreamCreate);
    if (flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = green_context(handle, &context);
    return result ? result : stream_make(context, flags, priority, out);
}

/* Does something with the default stream of a green context. */
static CUresult with_current(CUgreenCtx handle, CUevent event,
                             CUresult (*work)(CUstream stream, CUevent event))
{
    struct context *context;
    CUcontext before;
    CUresult result = green_context(handle, &context);

    if (!result)
        result = cuCtxPushCurrent_v2(HANDLE(context));
    if (result)
        return result;
    result = work(NULL, event);
    cuCtxPopCurrent_v2(&before);
    return result;
}

static CUresult work_record(CUstream stream, CUevent event)
{
    return cuEventRecord(event, stream);
}

static CUresult work_wait(CUstream stream, CUevent event)
{
    return cuStreamWaitEvent(stream, event, 0);
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event)
{
    ENTRY(cuGreenCtxRecordEvent);
    return with_current(handle, event, work_record);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event)
{
    ENTRY(cuGreenCtxWaitEvent);
    return with_current(handle, event, work_wait);
}
