/* SPDX-License-Identifier: MIT */
/* Copies and fills. OpenCL copies between any two of host memory and SVM of the
 * context of a queue, but not between ranges that overlap: those go through a
 * temporary, which the queue itself gives back. */
#include "opencl/opencl.h"

#include "base/heap.h"
#include "base/status.h"

#include <string.h>

/* What one side of a copy is. */
struct copy_side {
    const char *name;
    const void *pointer;
    bool must_be_device;
    acre_pointer_info info;
};

static acre_status side_check(struct opencl *cl, struct copy_side *side, size_t bytes)
{
    bool is_device;

    memory_pointer_info(cl, side->pointer, &side->info);
    is_device = side->info.kind == ACRE_MEMORY_DEVICE;
    if (is_device != side->must_be_device)
        return status_fail(ACRE_ERR_INVALID,
                           "opencl: %s %p is %sdevice memory, against the kind "
                           "of the copy",
                           side->name, side->pointer, is_device ? "" : "not ");
    if (side->info.kind != ACRE_MEMORY_UNMANAGED &&
        bytes > side->info.bytes -
                    (uintptr_t)((const char *)side->pointer - (const char *)side->info.base))
        return status_fail(ACRE_ERR_INVALID,
                           "opencl: %zu bytes at %s %p leave its block of %llu bytes", bytes,
                           side->name, side->pointer, (unsigned long long)side->info.bytes);
    return ACRE_OK;
}

/* The devices that own the two sides of a copy; -1: the host. */
struct copy_owners {
    int dst, src;
};

/* Checks both sides, and gives the devices that own them, -1 for the host. */
static acre_status sides_check(struct opencl *cl, void *dst, const void *src, size_t bytes,
                               acre_copy_kind kind, struct copy_owners *out)
{
    struct copy_side to = {
        .name = "destination", .pointer = dst, .must_be_device = (kind & 1) != 0};
    struct copy_side from = {.name = "source", .pointer = src, .must_be_device = (kind & 2) != 0};
    acre_status status;

    if (!dst || !src || bytes == 0 || (unsigned)kind > ACRE_COPY_DEVICE_TO_DEVICE)
        return status_fail(ACRE_ERR_INVALID,
                           "opencl: a copy of %zu bytes from %p to %p of kind "
                           "%d",
                           bytes, src, dst, (int)kind);
    status = side_check(cl, &to, bytes);
    if (status == ACRE_OK)
        status = side_check(cl, &from, bytes);
    if (status == ACRE_OK) {
        out->dst = to.info.device;
        out->src = from.info.device;
    }
    return status;
}

/* All devices that take part must share the context of the queue's device. */
static acre_status platform_check(struct opencl *cl, int device, int dst, int src)
{
    int platform = cl->devices[device].platform;
    int other = dst >= 0 && cl->devices[dst].platform != platform ? dst : src;

    if (other < 0 || cl->devices[other].platform == platform)
        return ACRE_OK;
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "opencl: a queue of %s does not reach memory of %s, of another platform; "
                       "copy through host memory",
                       cl->devices[device].name, cl->devices[other].name);
}

static bool copy_overlaps(const void *dst, const void *src, size_t bytes)
{
    uintptr_t a = (uintptr_t)dst, b = (uintptr_t)src;

    return a < b ? b - a < bytes : a - b < bytes;
}

/* A copy on its way into a queue. */
struct opencl_transfer {
    ocl_context context;
    ocl_queue queue;
    void *dst;
    const void *src;
    size_t bytes;
    const char *call; /* the last one made                                       */
    ocl_int code;     /* what it answered                                        */
    ocl_event event;  /* behind everything, when that is OCL_SUCCESS             */
    void *scratch;    /* a temporary that the queue does not give back, or NULL  */
};

static void enqueue_overlapping(struct opencl_transfer *t)
{
    t->scratch = ocl.SVMAlloc(t->context, OCL_MEM_READ_WRITE, t->bytes, 0);
    t->call = "SVMAlloc";
    t->code = t->scratch ? OCL_SUCCESS : OCL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (t->code != OCL_SUCCESS)
        return;
    t->call = "EnqueueSVMMemcpy";
    t->code =
        ocl.EnqueueSVMMemcpy(t->queue, OCL_FALSE, t->scratch, t->src, t->bytes, 0, NULL, NULL);
    if (t->code == OCL_SUCCESS)
        t->code =
            ocl.EnqueueSVMMemcpy(t->queue, OCL_FALSE, t->dst, t->scratch, t->bytes, 0, NULL, NULL);
    if (t->code != OCL_SUCCESS)
        return;
    t->call = "EnqueueSVMFree";
    t->code = ocl.EnqueueSVMFree(t->queue, 1, &t->scratch, NULL, NULL, 0, NULL, &t->event);
    if (t->code == OCL_SUCCESS)
        t->scratch = NULL;
}

static void transfer_enqueue(struct opencl_transfer *t)
{
    if (copy_overlaps(t->dst, t->src, t->bytes)) {
        enqueue_overlapping(t);
        return;
    }
    t->call = "EnqueueSVMMemcpy";
    t->code =
        ocl.EnqueueSVMMemcpy(t->queue, OCL_FALSE, t->dst, t->src, t->bytes, 0, NULL, &t->event);
}

/* Gives back what a failure left, with no lock held: a copy may be under way. */
static void transfer_end(struct opencl_transfer *t)
{
    if (!t->scratch)
        return;
    ocl.Finish(t->queue);
    ocl.SVMFree(t->context, t->scratch);
}

acre_status copy_now(void *self, void *dst, const void *src, size_t bytes, acre_copy_kind kind)
{
    struct opencl *cl = self;
    struct opencl_transfer t = {.dst = dst, .src = src, .bytes = bytes};
    struct copy_owners owners = {-1, -1};
    int device;
    acre_status status = sides_check(cl, dst, src, bytes, kind, &owners);

    if (status == ACRE_OK && owners.dst < 0 && owners.src < 0) {
        memmove(dst, src, bytes);
        return ACRE_OK;
    }
    if (status != ACRE_OK)
        return status;
    device = owners.src >= 0 ? owners.src : owners.dst;
    status = platform_check(cl, device, owners.dst, owners.src);
    if (status != ACRE_OK)
        return status;
    t.context = opencl_context(cl, device);
    t.queue = cl->devices[device].copies;
    transfer_enqueue(&t);
    if (t.code == OCL_SUCCESS) {
        t.code = ocl.WaitForEvents(1, &t.event);
        t.call = "WaitForEvents";
        ocl.ReleaseEvent(t.event);
    }
    if (t.code != OCL_SUCCESS)
        ocl.Finish(t.queue); /* what is queued still writes into the caller's memory */
    transfer_end(&t);
    return t.code == OCL_SUCCESS ? ACRE_OK : api_fail(t.call, t.code);
}

acre_status copy_queued(void *self, int device, void *dst, const void *src, size_t bytes,
                        acre_copy_kind kind, void *handle)
{
    struct opencl *cl = self;
    struct opencl_transfer t = {.dst = dst, .src = src, .bytes = bytes};
    struct stream *stream = NULL;
    struct copy_owners owners = {-1, -1};
    acre_status status = sides_check(cl, dst, src, bytes, kind, &owners);

    if (status == ACRE_OK)
        status = platform_check(cl, device, owners.dst, owners.src);
    if (status == ACRE_OK)
        status = stream_enter(cl, device, handle, &stream);
    if (status != ACRE_OK)
        return status;
    t.context = opencl_context(cl, device);
    t.queue = stream->queue;
    transfer_enqueue(&t);
    status = stream_leave(stream, t.call, t.code, t.event);
    transfer_end(&t);
    return status;
}

/* The device of a stream, whichever of two it belongs to. */
static acre_status stream_owner(struct opencl *cl, void *handle, int *out_device)
{
    const struct stream *stream;

    lock_take(&cl->lock);
    stream = handle ? ptrmap_get(&cl->streams, handle) : NULL;
    if (stream)
        *out_device = stream->device;
    lock_drop(&cl->lock);
    return stream ? ACRE_OK : status_fail(ACRE_ERR_INVALID, "opencl: %p is not a stream", handle);
}

acre_status copy_peer(void *self, void *dst, int dst_device, const void *src, int src_device,
                      size_t bytes, void *handle)
{
    struct opencl *cl = self;
    struct copy_owners owners = {-1, -1};
    int device = 0;
    acre_status status = sides_check(cl, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE, &owners);

    if (status == ACRE_OK && (owners.dst != dst_device || owners.src != src_device))
        status = status_fail(ACRE_ERR_INVALID,
                             "opencl: the copy goes from device %d to %d, not from %d to %d",
                             owners.src, owners.dst, src_device, dst_device);
    if (status == ACRE_OK)
        status = stream_owner(cl, handle, &device);
    return status == ACRE_OK
               ? copy_queued(cl, device, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE, handle)
               : status;
}

acre_status copy_fill(void *self, int device, void *dst, int value, size_t bytes, void *handle)
{
    struct copy_side to = {.name = "destination", .pointer = dst, .must_be_device = true};
    struct opencl *cl = self;
    struct stream *stream = NULL;
    ocl_event event = NULL;
    unsigned char byte = (unsigned char)value;
    acre_status status;
    ocl_int code;

    if (!dst || bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "opencl: a fill of %zu bytes at %p", bytes, dst);
    status = side_check(cl, &to, bytes);
    if (status == ACRE_OK)
        status = platform_check(cl, device, to.info.device, -1);
    if (status == ACRE_OK)
        status = stream_enter(cl, device, handle, &stream);
    if (status != ACRE_OK)
        return status;
    code = ocl.EnqueueSVMMemFill(stream->queue, dst, &byte, 1, bytes, 0, NULL, &event);
    return stream_leave(stream, "EnqueueSVMMemFill", code, event);
}
