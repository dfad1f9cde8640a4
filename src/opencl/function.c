/* SPDX-License-Identifier: MIT */
/* Functions on streams.
 *
 * Host functions run on a thread of their stream, so that one that waits holds
 * up nobody else. In the queue stand, for each of them,
 *
 *     marker `turn`   everything before has ended; the thread waits for it
 *     barrier         holds up what follows until the thread, having run the
 *                     function, completes the user event `done`
 *
 * Kernels that are functions of C run as native kernels, on devices that have
 * these; others answer ACRE_ERR_UNSUPPORTED.
 */
#include "opencl/opencl.h"

#include "base/heap.h"
#include "base/process/thread.h"
#include "base/log.h"
#include "base/status.h"

#include <string.h>

struct function {
    struct list link;
    void (*fn)(void *);
    void *arg;
    ocl_event turn;
    ocl_event done;
};

static void function_destroy(struct function *function)
{
    if (function->turn)
        ocl.ReleaseEvent(function->turn);
    if (function->done)
        ocl.ReleaseEvent(function->done);
    heap_free(function);
}

/* A function whose turn never came is left out, and the stream goes on. */
static void function_run(struct stream *stream, struct function *function)
{
    ocl_int code = ocl.WaitForEvents(1, &function->turn);

    if (code == OCL_SUCCESS) {
        function->fn(function->arg);
    } else {
        lock_take(&stream->lock);
        stream->failure = code;
        lock_drop(&stream->lock);
    }
    code = ocl.SetUserEventStatus(function->done, OCL_COMPLETE);
    if (code != OCL_SUCCESS)
        log_line(ACRE_LOG_ERROR, "opencl: clSetUserEventStatus answers %s (%d)",
                 api_error_name(code), (int)code);
    function_destroy(function);
}

/* The next function, or NULL when the stream ends. */
static struct function *function_next(struct stream *stream)
{
    struct function *function = NULL;

    lock_take(&stream->lock);
    while (list_empty(&stream->functions) && !stream->is_ending)
        lock_wait(&stream->lock, &stream->wake);
    if (!list_empty(&stream->functions)) {
        function = CONTAINER_OF(stream->functions.next, struct function, link);
        list_remove(&function->link);
    }
    lock_drop(&stream->lock);
    return function;
}

static void *function_thread(void *arg)
{
    struct function *function;

    while ((function = function_next(arg)))
        function_run(arg, function);
    return NULL;
}

void function_thread_end(struct stream *stream)
{
    if (!stream->has_thread)
        return;
    lock_take(&stream->lock);
    stream->is_ending = true;
    pthread_cond_signal(&stream->wake);
    lock_drop(&stream->lock);
    pthread_join(stream->thread, NULL);
}

static acre_status thread_start_locked(struct stream *stream)
{
    int error = stream->has_thread ? 0 : thread_start(&stream->thread, function_thread, stream);

    if (error)
        return status_fail_native(ACRE_ERR_HOST_MEMORY, error,
                                  "opencl: no thread for host functions: %s", strerror(error));
    stream->has_thread = true;
    return ACRE_OK;
}

/* Puts turn and barrier into the queue; the event of the barrier goes to *out. */
static const char *places_enqueue(struct opencl *cl, struct stream *stream,
                                  struct function *function, ocl_event *out, ocl_int *code)
{
    function->done = ocl.CreateUserEvent(opencl_context(cl, stream->device), code);
    if (!function->done)
        return "CreateUserEvent";
    *code = ocl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &function->turn);
    if (*code != OCL_SUCCESS)
        return "EnqueueMarkerWithWaitList";
    *code = ocl.EnqueueBarrierWithWaitList(stream->queue, 1, &function->done, out);
    return "EnqueueBarrierWithWaitList";
}

acre_status function_launch_host(void *self, int device, void *handle, void (*fn)(void *),
                                 void *arg)
{
    struct function *function = heap_zalloc(sizeof *function);
    struct stream *stream = NULL;
    ocl_event after = NULL;
    ocl_int code = OCL_SUCCESS;
    const char *call;
    acre_status status;

    if (!function)
        return ACRE_ERR_HOST_MEMORY;
    function->fn = fn;
    function->arg = arg;
    status = stream_enter(self, device, handle, &stream);
    if (status != ACRE_OK)
        goto destroy;
    status = thread_start_locked(stream);
    if (status != ACRE_OK) {
        lock_drop(&stream->lock);
        goto destroy;
    }
    call = places_enqueue(self, stream, function, &after, &code);
    if (code != OCL_SUCCESS) {
        status = stream_leave(stream, call, code, NULL);
        goto destroy;
    }
    list_push_back(&stream->functions, &function->link);
    pthread_cond_signal(&stream->wake);
    /* The function runs from here on, so that a flush that fails refuses nothing: the thread, which
     * waits for its turn, flushes as well. */
    struct status_saved before;
    status_save(&before);
    if (stream_leave(stream, call, code, after) != ACRE_OK)
        status_restore(&before);
    return ACRE_OK;

destroy:
    function_destroy(function);
    return status;
}

/* ---- Kernels that are functions ------------------------------------------------------------ */

/* What a native kernel gets a copy of; the arguments follow, aligned. */
struct native {
    struct opencl *self;
    acre_kernel_fn fn;
    int device;
    _Alignas(16) unsigned char args[];
};

struct native_context {
    acre_kernel_context base;
    struct opencl *self;
};

static void *native_pointer(acre_kernel_context *context, const void *pointer, size_t bytes)
{
    struct native_context *native = (struct native_context *)context;

    return memory_is_reached(native->self, context->device, pointer, bytes)
               ? (void *)(uintptr_t)pointer
               : NULL;
}

static void native_run(void *arg)
{
    struct native *native = arg;
    struct native_context context = {.base = {.device = native->device, .pointer = native_pointer},
                                     .self = native->self};

    native->fn(&context.base, native->args);
}

acre_status function_launch_kernel(void *self, int device, void *handle, acre_kernel_fn fn,
                                   const void *args, size_t args_bytes)
{
    struct opencl *cl = self;
    struct native *native;
    struct stream *stream = NULL;
    ocl_event event = NULL;
    acre_status status;
    ocl_int code;

    if (!cl->devices[device].runs_functions)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "opencl:%d (%s) does not run functions of C as kernels; build them "
                           "from source with acre_opencl_program_build",
                           device, cl->devices[device].name);
    native = heap_zalloc(sizeof *native + args_bytes);
    if (!native)
        return ACRE_ERR_HOST_MEMORY;
    native->self = cl;
    native->fn = fn;
    native->device = device;
    if (args_bytes)
        memcpy(native->args, args, args_bytes);
    status = stream_enter(cl, device, handle, &stream);
    if (status == ACRE_OK) {
        code = ocl.EnqueueNativeKernel(stream->queue, native_run, native,
                                       sizeof *native + args_bytes, 0, NULL, NULL, 0, NULL, &event);
        status = stream_leave(stream, "EnqueueNativeKernel", code, event);
    }
    heap_free(native);
    return status;
}
