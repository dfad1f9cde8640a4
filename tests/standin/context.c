/* SPDX-License-Identifier: MIT */
/* Contexts: one primary context for each device, a stack of current ones for each
 * thread. A runtime without contexts has a device for each thread, whose primary
 * context is always there. */
#include "tests/standin/core.h"
#include "tests/standin/context.h"

#include <pthread.h>
#include <stdlib.h>

#define STACK_MAX 32

struct thread {
    int device; /* of a runtime        */
    int depth;  /* contexts on stack   */
    void *stack[STACK_MAX];
};

static _Thread_local struct thread *self;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static struct context *primaries[64]; /* NULL until first wanted */

static void key_make(void)
{
    if (pthread_key_create(&key, free) != 0)
        abort();
}

static struct thread *thread_self(void)
{
    if (!self) {
        pthread_once(&key_once, key_make);
        self = calloc(1, sizeof *self);
        if (!self || pthread_setspecific(key, self) != 0)
            abort();
    }
    return self;
}

static struct context *primary_locked(int device)
{
    if (!primaries[device]) {
        struct context *context = object_create(KIND_CONTEXT, sizeof *context, device);

        if (context)
            context->peers = (uint64_t)1 << device;
        primaries[device] = context;
    }
    return primaries[device];
}

static int is_active(const struct context *context)
{
    return context->is_green || context->retain_count > 0 || !vendor.has_contexts;
}

struct context *context_primary(int device)
{
    return primary_locked(device);
}

static struct context *top_locked(void)
{
    struct thread *thread = thread_self();

    if (!vendor.has_contexts)
        return primary_locked(thread->device);
    return thread->depth ? object_find(KIND_CONTEXT, thread->stack[thread->depth - 1]) : NULL;
}

struct context *context_current(void)
{
    struct context *context = top_locked();

    return context && is_active(context) ? context : NULL;
}

/* Why there is no current context. */
static CUresult refusal_locked(void)
{
    struct thread *thread = thread_self();

    return thread->depth && thread->stack[thread->depth - 1] ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                             : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_device(int *out_device)
{
    CUresult result = CUDA_SUCCESS;

    books_lock();
    struct context *context = context_current();
    if (context)
        *out_device = context->object.device;
    else
        result = refusal_locked();
    books_unlock();
    return result;
}

CUresult context_find(CUcontext handle, struct context **out)
{
    struct context *context = object_find(KIND_CONTEXT, handle);

    if (!context || !is_active(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = context;
    return CUDA_SUCCESS;
}

void context_live(struct standin_live *live)
{
    for (int i = 0; i < 64; i++)
        if (primaries[i])
            live->contexts += (uint64_t)primaries[i]->retain_count;
}

int device_is_valid(CUdevice device)
{
    return device >= 0 && device < standin.device_count;
}

void runtime_set_device(int device)
{
    thread_self()->device = device;
}

int runtime_device(void)
{
    return thread_self()->device;
}

/* ---- Primary contexts --------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    ENTRY(cuDevicePrimaryCtxRetain);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    books_lock();
    struct context *context = primary_locked(device);
    if (context) {
        context->retain_count++;
        *out = HANDLE(context);
    }
    books_unlock();
    return context ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult result = CUDA_SUCCESS;

    ENTRY(cuDevicePrimaryCtxRelease_v2);
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    books_lock();
    struct context *context = primary_locked(device);
    if (context && context->retain_count > 0)
        context->retain_count--;
    else
        result = CUDA_ERROR_INVALID_CONTEXT;
    books_unlock();
    return result;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    ENTRY(cuDevicePrimaryCtxGetState);
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    *flags = 0;
    *active = primaries[device] && primaries[device]->retain_count > 0;
    books_unlock();
    return CUDA_SUCCESS;
}

/* ---- Current contexts ------------------------------------------------------------------ */

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    struct context *context;

    ENTRY(cuCtxPushCurrent_v2);
    struct thread *thread = thread_self();
    books_lock();
    CUresult result = context_find(handle, &context);
    if (!result && thread->depth == STACK_MAX)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        thread->stack[thread->depth++] = handle;
    books_unlock();
    return result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    ENTRY(cuCtxPopCurrent_v2);
    struct thread *thread = thread_self();
    if (thread->depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    thread->depth--;
    if (out)
        *out = thread->stack[thread->depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    struct context *context;
    CUresult result = CUDA_SUCCESS;

    ENTRY(cuCtxSetCurrent);
    struct thread *thread = thread_self();
    if (!handle) {
        thread->depth -= thread->depth > 0;
        return CUDA_SUCCESS;
    }
    books_lock();
    result = context_find(handle, &context);
    if (!result) {
        thread->depth += thread->depth == 0;
        thread->stack[thread->depth - 1] = handle;
    }
    books_unlock();
    return result;
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    ENTRY(cuCtxGetCurrent);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct thread *thread = thread_self();
    *out = thread->depth ? thread->stack[thread->depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *out)
{
    ENTRY(cuCtxGetDevice);
    return out ? context_device(out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxSynchronize(void)
{
    int device;

    ENTRY(cuCtxSynchronize);
    CUresult result = context_device(&device);
    if (!result)
        result = waited(standin.ops->device_synchronize(standin.self, device));
    pools_settle();
    return result;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    int device;

    ENTRY(cuCtxGetStreamPriorityRange);
    CUresult result = context_device(&device);
    if (result)
        return result;
    if (least)
        *least = vendor.priority_least;
    if (greatest)
        *greatest = vendor.priority_greatest;
    return CUDA_SUCCESS;
}

/* ---- Peers --------------------------------------------------------------------------------- */

CUresult cuDeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer)
{
    bool can = false;

    ENTRY(cuDeviceCanAccessPeer);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device) || !device_is_valid(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = SIM(peer_query, device, peer, &can);
    if (!result)
        *out = can && device != peer;
    return result;
}

static CUresult peer_change_locked(CUcontext handle, int is_on, int *out_device, int *out_peer)
{
    struct context *context = context_current(), *peer;

    if (!context || context_find(handle, &peer) || peer == context)
        return CUDA_ERROR_INVALID_CONTEXT;
    uint64_t bit = (uint64_t)1 << peer->object.device;
    if (is_on && (context->peers & bit))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (!is_on && !(context->peers & bit))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers ^= bit;
    *out_device = context->object.device;
    *out_peer = peer->object.device;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags)
{
    int device = 0, peer = 0;

    ENTRY(cuCtxEnablePeerAccess);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    CUresult result = peer_change_locked(handle, 1, &device, &peer);
    books_unlock();
    if (result)
        return result;
    if (standin.ops->peer_enable(standin.self, device, peer) == ACRE_OK)
        return CUDA_SUCCESS;
    books_lock();
    primaries[device]->peers &= ~((uint64_t)1 << peer);
    books_unlock();
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    int device, peer;

    ENTRY(cuCtxDisablePeerAccess);
    books_lock();
    CUresult result = peer_change_locked(handle, 0, &device, &peer);
    books_unlock();
    return result;
}
