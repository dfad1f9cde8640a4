/* SPDX-License-Identifier: MIT */
/* What makes a stand-in the HIP runtime: its names and shapes over what the CUDA
 * one does. Both vendors share their codes. Every thread has a current device,
 * and contexts are out of sight.
 *
 * Numbers are those of HIP 6; STANDIN_VERSION below 60000000 gives the kinds of
 * memory of HIP 5.
 */
#include "tests/standin/context.h"

#include <stddef.h>

/* Attributes of devices that HIP numbers otherwise. */
enum { HIP_ATTRIBUTE_UNITS = 63, HIP_ATTRIBUTE_POOLS = 88, HIP_ATTRIBUTE_VIRTUAL = 89 };
enum { HIP_COPY_TO_DEVICE = 1, HIP_COPY_TO_HOST = 2, HIP_COPY_ON_DEVICE = 3, HIP_COPY_DEFAULT = 4 };
#define HIP_VERSION_FD_BY_VALUE 70100000
#define HIP_VERSION_KINDS 60000000 /* since then kinds of memory are numbered as in CUDA */

/* Declares and defines an entry point that is another under a new name. */
#define ALIAS(name, parameters, target, arguments)                             \
    STANDIN_EXPORT CUresult name parameters;                                   \
    CUresult name parameters                                                   \
    {                                                                          \
        ENTRY(name);                                                           \
        return target arguments;                                               \
    }

/* Declares an entry point that follows. */
#define SHAPE(name, parameters)                                                \
    STANDIN_EXPORT CUresult name parameters;                                   \
    CUresult name parameters

/* ---- Runtime and devices ---------------------------------------------------------------- */

SHAPE(hipInit, (unsigned flags))
{
    ENTER(hipInit, ENTRY_EARLY);
    return cuInit(flags);
}

SHAPE(hipRuntimeGetVersion, (int *out))
{
    ENTER(hipRuntimeGetVersion, ENTRY_EARLY);
    return cuDriverGetVersion(out);
}

STANDIN_EXPORT const char *hipGetErrorName(CUresult error);
const char *hipGetErrorName(CUresult error)
{
    const char *name = NULL;

    return cuGetErrorName(error, &name) ? "hipErrorUnknown" : name;
}

STANDIN_EXPORT const char *hipGetErrorString(CUresult error);
const char *hipGetErrorString(CUresult error)
{
    const char *text = NULL;

    return cuGetErrorString(error, &text) ? "unknown" : text;
}

SHAPE(hipGetDeviceCount, (int *out))
{
    ENTRY(hipGetDeviceCount);
    CUresult result = cuDeviceGetCount(out);
    return result ? result : *out ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

SHAPE(hipSetDevice, (int device))
{
    ENTRY(hipSetDevice);
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    runtime_set_device(device);
    return CUDA_SUCCESS;
}

SHAPE(hipGetDevice, (int *out))
{
    ENTRY(hipGetDevice);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = runtime_device();
    return CUDA_SUCCESS;
}

static unsigned attribute_number(unsigned attribute)
{
    switch (attribute) {
    case HIP_ATTRIBUTE_UNITS:
        return CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    case HIP_ATTRIBUTE_POOLS:
        return CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    case HIP_ATTRIBUTE_VIRTUAL:
        return CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    default:
        return 0; /* refused */
    }
}

ALIAS(hipDeviceGetAttribute, (int *out, unsigned attribute, int device), cuDeviceGetAttribute,
      (out, attribute_number(attribute), device))
ALIAS(hipDeviceGetName, (char *name, int bytes, int device), cuDeviceGetName,
      (name, bytes, device))
ALIAS(hipDeviceTotalMem, (size_t *out, int device), cuDeviceTotalMem_v2, (out, device))
ALIAS(hipDeviceSynchronize, (void), cuCtxSynchronize, ())
ALIAS(hipDeviceGetStreamPriorityRange, (int *least, int *greatest), cuCtxGetStreamPriorityRange,
      (least, greatest))
ALIAS(hipDeviceCanAccessPeer, (int *out, int device, int peer), cuDeviceCanAccessPeer,
      (out, device, peer))

/* The handle of a device's context. */
static CUcontext context_of(int device)
{
    books_lock();
    struct context *context = device_is_valid(device) ? context_primary(device) : NULL;
    books_unlock();
    return context ? HANDLE(context) : NULL;
}

SHAPE(hipDeviceEnablePeerAccess, (int peer, unsigned flags))
{
    ENTRY(hipDeviceEnablePeerAccess);
    if (!device_is_valid(peer) || peer == runtime_device())
        return CUDA_ERROR_INVALID_DEVICE;
    return cuCtxEnablePeerAccess(context_of(peer), flags);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static CUdeviceptr number_of(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

ALIAS(hipMemGetInfo, (size_t *out_free, size_t *out_total), cuMemGetInfo_v2,
      (out_free, out_total))
ALIAS(hipMalloc, (void **out, size_t bytes), cuMemAlloc_v2, ((CUdeviceptr *)out, bytes))
ALIAS(hipHostMalloc, (void **out, size_t bytes, unsigned flags), cuMemHostAlloc,
      (out, bytes, flags))
ALIAS(hipHostRegister, (void *base, size_t bytes, unsigned flags), cuMemHostRegister_v2,
      (base, bytes, flags))
ALIAS(hipHostUnregister, (void *base), cuMemHostUnregister, (base))
ALIAS(hipMemGetAddressRange, (void **base, size_t *bytes, void *pointer),
      cuMemGetAddressRange_v2, ((CUdeviceptr *)base, bytes, number_of(pointer)))
ALIAS(hipIpcGetMemHandle, (CUipcMemHandle *out, void *pointer), cuIpcGetMemHandle,
      (out, number_of(pointer)))
ALIAS(hipIpcOpenMemHandle, (void **out, CUipcMemHandle handle, unsigned flags),
      cuIpcOpenMemHandle_v2, ((CUdeviceptr *)out, handle, flags))
ALIAS(hipIpcCloseMemHandle, (void *base), cuIpcCloseMemHandle, (number_of(base)))
ALIAS(hipIpcGetEventHandle, (CUipcEventHandle *out, CUevent event), cuIpcGetEventHandle,
      (out, event))
ALIAS(hipIpcOpenEventHandle, (CUevent *out, CUipcEventHandle handle), cuIpcOpenEventHandle,
      (out, handle))

SHAPE(hipFree, (void *base))
{
    ENTRY(hipFree);
    return base ? cuMemFree_v2(number_of(base)) : CUDA_SUCCESS;
}

SHAPE(hipHostFree, (void *base))
{
    ENTRY(hipHostFree);
    return base ? cuMemFreeHost(base) : CUDA_SUCCESS;
}

SHAPE(hipDrvPointerGetAttributes,
      (unsigned count, CUpointer_attribute *attributes, void **data, void *pointer))
{
    ENTRY(hipDrvPointerGetAttributes);
    CUresult result = cuPointerGetAttributes(count, attributes, data, number_of(pointer));
    if (result || standin.version >= HIP_VERSION_KINDS)
        return result;
    for (unsigned i = 0; i < count; i++)
        if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
            *(unsigned *)data[i] -= 1; /* host 0, device 1, and unknown neither */
    return CUDA_SUCCESS;
}

/* ---- Copies ------------------------------------------------------------------------------- */

SHAPE(hipMemcpy, (void *dst, const void *src, size_t bytes, unsigned kind))
{
    ENTRY(hipMemcpy);
    switch (kind) {
    case HIP_COPY_TO_DEVICE:
        return cuMemcpyHtoD_v2(number_of(dst), src, bytes);
    case HIP_COPY_TO_HOST:
        return cuMemcpyDtoH_v2(dst, number_of(src), bytes);
    case HIP_COPY_ON_DEVICE:
        return cuMemcpyDtoD_v2(number_of(dst), number_of(src), bytes);
    default:
        return kind > HIP_COPY_DEFAULT ? CUDA_ERROR_INVALID_VALUE
                                       : cuMemcpy(number_of(dst), number_of(src), bytes);
    }
}

SHAPE(hipMemcpyAsync,
      (void *dst, const void *src, size_t bytes, unsigned kind, CUstream stream))
{
    ENTRY(hipMemcpyAsync);
    switch (kind) {
    case HIP_COPY_TO_DEVICE:
        return cuMemcpyHtoDAsync_v2(number_of(dst), src, bytes, stream);
    case HIP_COPY_TO_HOST:
        return cuMemcpyDtoHAsync_v2(dst, number_of(src), bytes, stream);
    case HIP_COPY_ON_DEVICE:
        return cuMemcpyDtoDAsync_v2(number_of(dst), number_of(src), bytes, stream);
    default:
        return kind > HIP_COPY_DEFAULT
                   ? CUDA_ERROR_INVALID_VALUE
                   : cuMemcpyAsync(number_of(dst), number_of(src), bytes, stream);
    }
}

ALIAS(hipMemcpyPeerAsync, (void *dst, int dst_device, const void *src, int src_device,
                           size_t bytes, CUstream stream), cuMemcpyPeerAsync,
      (number_of(dst), context_of(dst_device), number_of(src), context_of(src_device), bytes,
       stream))
ALIAS(hipMemsetD8Async, (void *dst, unsigned char value, size_t bytes, CUstream stream),
      cuMemsetD8Async, (number_of(dst), value, bytes, stream))

/* ---- Streams and events --------------------------------------------------------------------- */

ALIAS(hipStreamCreateWithPriority, (CUstream *out, unsigned flags, int priority),
      cuStreamCreateWithPriority, (out, flags, priority))
ALIAS(hipStreamDestroy, (CUstream stream), cuStreamDestroy_v2, (stream))
ALIAS(hipStreamQuery, (CUstream stream), cuStreamQuery, (stream))
ALIAS(hipStreamSynchronize, (CUstream stream), cuStreamSynchronize, (stream))
ALIAS(hipStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), cuStreamWaitEvent,
      (stream, event, flags))
ALIAS(hipStreamGetPriority, (CUstream stream, int *out), cuStreamGetPriority, (stream, out))
ALIAS(hipLaunchHostFunc, (CUstream stream, CUhostFn fn, void *arg), cuLaunchHostFunc,
      (stream, fn, arg))
ALIAS(hipStreamWriteValue32, (CUstream stream, void *address, uint32_t value, unsigned flags),
      cuStreamWriteValue32_v2, (stream, number_of(address), value, flags))
ALIAS(hipEventCreateWithFlags, (CUevent *out, unsigned flags), cuEventCreate, (out, flags))
ALIAS(hipEventDestroy, (CUevent event), cuEventDestroy_v2, (event))
ALIAS(hipEventRecord, (CUevent event, CUstream stream), cuEventRecord, (event, stream))
ALIAS(hipEventQuery, (CUevent event), cuEventQuery, (event))
ALIAS(hipEventSynchronize, (CUevent event), cuEventSynchronize, (event))
ALIAS(hipEventElapsedTime, (float *out, CUevent start, CUevent end), cuEventElapsedTime_v2,
      (out, start, end))

SHAPE(hipStreamWaitValue32,
      (CUstream stream, void *address, uint32_t value, unsigned flags, uint32_t mask))
{
    ENTRY(hipStreamWaitValue32);
    if (mask != UINT32_MAX)
        return CUDA_ERROR_NOT_SUPPORTED; /* nobody here asks for less */
    return cuStreamWaitValue32_v2(stream, number_of(address), value, flags);
}

/* ---- Virtual memory ------------------------------------------------------------------------- */

typedef CUmemGenericAllocationHandle *handle_out;

ALIAS(hipMemAddressReserve, (void **out, size_t bytes, size_t alignment, void *wished,
                             unsigned long long flags), cuMemAddressReserve,
      ((CUdeviceptr *)out, bytes, alignment, number_of(wished), flags))
ALIAS(hipMemAddressFree, (void *base, size_t bytes), cuMemAddressFree, (number_of(base), bytes))
ALIAS(hipMemCreate, (void **out, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags), cuMemCreate,
      ((handle_out)out, bytes, prop, flags))
ALIAS(hipMemRelease, (void *handle), cuMemRelease, (number_of(handle)))
ALIAS(hipMemMap, (void *base, size_t bytes, size_t offset, void *handle,
                  unsigned long long flags), cuMemMap,
      (number_of(base), bytes, offset, number_of(handle), flags))
ALIAS(hipMemUnmap, (void *base, size_t bytes), cuMemUnmap, (number_of(base), bytes))
ALIAS(hipMemSetAccess, (void *base, size_t bytes, const CUmemAccessDesc *desc, size_t count),
      cuMemSetAccess, (number_of(base), bytes, desc, count))
ALIAS(hipMemGetAllocationGranularity, (size_t *out, const CUmemAllocationProp *prop,
                                       unsigned kind), cuMemGetAllocationGranularity,
      (out, prop, kind))
ALIAS(hipMemExportToShareableHandle, (void *out, void *handle, unsigned type,
                                      unsigned long long flags), cuMemExportToShareableHandle,
      (out, number_of(handle), type, flags))

/* Releases before 7.1 want the address of the descriptor, later ones itself. */
SHAPE(hipMemImportFromShareableHandle, (void **out, void *shared, unsigned type))
{
    ENTRY(hipMemImportFromShareableHandle);
    if (standin.version < HIP_VERSION_FD_BY_VALUE && !shared)
        return CUDA_ERROR_INVALID_VALUE;
    if (standin.version < HIP_VERSION_FD_BY_VALUE)
        shared = (void *)(uintptr_t)*(int *)shared;
    return cuMemImportFromShareableHandle((handle_out)out, shared, type);
}

/* ---- Graphs and pools ----------------------------------------------------------------------- */

ALIAS(hipStreamBeginCapture, (CUstream stream, unsigned mode), cuStreamBeginCapture_v2,
      (stream, mode))
ALIAS(hipThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode),
      cuThreadExchangeStreamCaptureMode, (mode))
ALIAS(hipStreamEndCapture, (CUstream stream, CUgraph *out), cuStreamEndCapture, (stream, out))
ALIAS(hipStreamGetCaptureInfo_v2, (CUstream stream, unsigned *out_status,
                                   unsigned long long *out_id, CUgraph *out_graph,
                                   const CUgraphNode **out_nodes, size_t *out_count),
      cuStreamGetCaptureInfo_v2,
      (stream, out_status, (cuuint64_t *)out_id, out_graph, out_nodes, out_count))
ALIAS(hipGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *out, size_t *count),
      cuGraphNodeGetDependencies, (node, out, count))
ALIAS(hipGraphInstantiateWithFlags, (CUgraphExec *out, CUgraph graph, unsigned long long flags),
      cuGraphInstantiateWithFlags, (out, graph, flags))
ALIAS(hipGraphLaunch, (CUgraphExec exec, CUstream stream), cuGraphLaunch, (exec, stream))
ALIAS(hipGraphExecDestroy, (CUgraphExec exec), cuGraphExecDestroy, (exec))
ALIAS(hipGraphDestroy, (CUgraph graph), cuGraphDestroy, (graph))

ALIAS(hipMallocFromPoolAsync, (void **out, size_t bytes, CUmemoryPool pool, CUstream stream),
      cuMemAllocFromPoolAsync, ((CUdeviceptr *)out, bytes, pool, stream))
ALIAS(hipFreeAsync, (void *base, CUstream stream), cuMemFreeAsync, (number_of(base), stream))
ALIAS(hipMemPoolCreate, (CUmemoryPool *out, const CUmemPoolProps *props), cuMemPoolCreate,
      (out, props))
ALIAS(hipMemPoolDestroy, (CUmemoryPool pool), cuMemPoolDestroy, (pool))
ALIAS(hipMemPoolSetAttribute, (CUmemoryPool pool, unsigned attribute, void *value),
      cuMemPoolSetAttribute, (pool, attribute, value))
ALIAS(hipMemPoolGetAttribute, (CUmemoryPool pool, unsigned attribute, void *value),
      cuMemPoolGetAttribute, (pool, attribute, value))
ALIAS(hipMemPoolTrimTo, (CUmemoryPool pool, size_t bytes_kept), cuMemPoolTrimTo,
      (pool, bytes_kept))
ALIAS(hipMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count),
      cuMemPoolSetAccess, (pool, desc, count))

static void *symbol(const char *name)
{
    (void)name;
    return NULL; /* there is no call that asks */
}

const struct vendor vendor = {
    .device_name = "Stand-in HIP device",
    .version = 60200000,
    .priority_least = 1,
    .priority_greatest = -1,
    .has_contexts = 0,
    .symbol = symbol,
};
