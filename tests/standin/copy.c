/* SPDX-License-Identifier: MIT */
/* Copies, fills, and plain memory in other processes. */
#include "tests/standin/context.h"

#include <string.h>

static void *address_of(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer;
}

static int is_device(CUdeviceptr pointer)
{
    books_lock();
    struct block *block = block_around(pointer);
    int device = block ? block->device : -1;
    books_unlock();
    return device >= 0;
}

/* The kind that the addresses say. */
static acre_copy_kind kind_of(CUdeviceptr dst, CUdeviceptr src)
{
    return (acre_copy_kind)((is_device(dst) ? 1 : 0) | (is_device(src) ? 2 : 0));
}

/* ---- Blocking ----------------------------------------------------------------------- */

/* A blocking copy waits for the default stream first; one between device memory is queued there,
 * and nobody waits for it. */
static CUresult copy_now(CUdeviceptr dst, CUdeviceptr src, size_t bytes, acre_copy_kind kind)
{
    struct place at;
    CUresult result = stream_work_place(NULL, &at);

    if (result || bytes == 0)
        return result;
    if (!dst || !src)
        return CUDA_ERROR_INVALID_VALUE;
    result = capture_allows();
    if (!result && kind == ACRE_COPY_DEVICE_TO_DEVICE)
        return SIM(copy_async, at.device, address_of(dst), address_of(src), bytes, kind, at.sim);
    if (!result)
        result = waited(standin.ops->stream_synchronize(standin.self, at.device, at.sim));
    return result ? result : SIM(copy, address_of(dst), address_of(src), bytes, kind);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    ENTRY(cuMemcpy);
    return copy_now(dst, src, bytes, kind_of(dst, src));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
    ENTRY(cuMemcpyHtoD_v2);
    return copy_now(dst, (uintptr_t)src, bytes, ACRE_COPY_HOST_TO_DEVICE);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
    ENTRY(cuMemcpyDtoH_v2);
    return copy_now((uintptr_t)dst, src, bytes, ACRE_COPY_DEVICE_TO_HOST);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    ENTRY(cuMemcpyDtoD_v2);
    return copy_now(dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE);
}

/* ---- Queued ---------------------------------------------------------------------------- */

static CUresult copy_later(CUdeviceptr dst, CUdeviceptr src, size_t bytes, acre_copy_kind kind,
                           CUstream stream)
{
    struct place at;
    CUresult result = stream_work_place(stream, &at);

    if (result || bytes == 0)
        return result;
    if (!dst || !src)
        return CUDA_ERROR_INVALID_VALUE;
    return SIM(copy_async, at.device, address_of(dst), address_of(src), bytes, kind, at.sim);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    ENTRY(cuMemcpyAsync);
    return copy_later(dst, src, bytes, kind_of(dst, src), stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
    ENTRY(cuMemcpyHtoDAsync_v2);
    return copy_later(dst, (uintptr_t)src, bytes, ACRE_COPY_HOST_TO_DEVICE, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    ENTRY(cuMemcpyDtoHAsync_v2);
    return copy_later((uintptr_t)dst, src, bytes, ACRE_COPY_DEVICE_TO_HOST, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    ENTRY(cuMemcpyDtoDAsync_v2);
    return copy_later(dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                           CUcontext src_context, size_t bytes, CUstream stream)
{
    struct context *to, *from;
    struct place at;
    int to_device = 0, from_device = 0;

    ENTRY(cuMemcpyPeerAsync);
    books_lock();
    CUresult result = context_find(dst_context, &to);
    if (!result)
        result = context_find(src_context, &from);
    if (!result) {
        to_device = to->object.device;
        from_device = from->object.device;
    }
    books_unlock();
    if (!result)
        result = stream_work_place(stream, &at);
    if (result || bytes == 0)
        return result;
    if (!dst || !src)
        return CUDA_ERROR_INVALID_VALUE;
    return SIM(copy_peer_async, address_of(dst), to_device, address_of(src), from_device, bytes,
               at.sim);
}

/* ---- Fills -------------------------------------------------------------------------------- */

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
    struct place at;

    ENTRY(cuMemsetD8Async);
    CUresult result = stream_work_place(stream, &at);
    if (result || bytes == 0)
        return result;
    if (!dst || !is_device(dst))
        return CUDA_ERROR_INVALID_VALUE;
    return SIM(fill_async, at.device, address_of(dst), value, bytes, at.sim);
}

struct words {
    void *dst;
    unsigned value;
    size_t count;
};

static void words_fill(acre_kernel_context *context, void *args)
{
    const struct words *words = args;
    unsigned *at = acre_kernel_pointer(context, words->dst, words->count * sizeof *at);

    for (size_t i = 0; at && i < words->count; i++)
        at[i] = words->value;
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream)
{
    struct words words = {address_of(dst), value, count};
    struct place at;

    ENTRY(cuMemsetD32Async);
    CUresult result = stream_work_place(stream, &at);
    if (result || count == 0)
        return result;
    if (!dst || dst % 4 || !is_device(dst))
        return CUDA_ERROR_INVALID_VALUE;
    return SIM(launch_kernel, at.device, at.sim, words_fill, &words, sizeof words);
}

/* ---- Other processes ---------------------------------------------------------------------- */

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr pointer)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    uintptr_t base = 0;
    int device = 0;

    ENTRY(cuIpcGetMemHandle);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct block *block = block_around(pointer);
    if (block && block->kind == BLOCK_PLAIN) {
        base = block->base;
        device = block->device;
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result ? result : SIM(ipc_export, device, (void *)base, (uint8_t *)out->reserved);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
    uint64_t bytes = 0;
    void *base = NULL;
    int device;

    ENTRY(cuIpcOpenMemHandle_v2);
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = context_device(&device);
    if (!result)
        result = SIM(ipc_open, device, (const uint8_t *)handle.reserved, &base, &bytes);
    if (result)
        return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_INVALID_HANDLE : result;
    books_lock();
    struct block *block = block_add(BLOCK_OPENED, (uintptr_t)base, bytes, device);
    books_unlock();
    if (!block) {
        standin.ops->ipc_close(standin.self, device, base);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUdeviceptr)(uintptr_t)base;
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr base)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    int device = 0;

    ENTRY(cuIpcCloseMemHandle);
    books_lock();
    struct block *block = block_at(base);
    if (block && block->kind == BLOCK_OPENED) {
        device = block->device;
        block_remove(block);
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result ? result : SIM(ipc_close, device, address_of(base));
}
