/* SPDX-License-Identifier: MIT */
/* Every entry point of libcuda.so.1 that the stand-in has, with the parameters of
 * the vendor: X(name, (parameters)). CUDA_OLD_MAP names shapes that newer headers
 * do not declare any more. */
#ifndef TESTS_STANDIN_CUDA_MAP_H
#define TESTS_STANDIN_CUDA_MAP_H

#define CUDA_BASE_MAP(X)                                                       \
    X(cuInit, (unsigned flags))                                                \
    X(cuDriverGetVersion, (int *version))                                      \
    X(cuGetErrorName, (CUresult error, const char **out))                      \
    X(cuGetErrorString, (CUresult error, const char **out))                    \
    X(cuGetProcAddress_v2, (const char *symbol, void **out, int version, cuuint64_t flags, \
                            CUdriverProcAddressQueryResult *status))           \
    X(cuDeviceGet, (CUdevice *out, int ordinal))                               \
    X(cuDeviceGetCount, (int *out))                                            \
    X(cuDeviceGetName, (char *name, int bytes, CUdevice device))               \
    X(cuDeviceGetUuid_v2, (CUuuid *out, CUdevice device))                      \
    X(cuDeviceTotalMem_v2, (size_t *out, CUdevice device))                     \
    X(cuDeviceGetAttribute, (int *out, CUdevice_attribute attribute, CUdevice device)) \
    X(cuDevicePrimaryCtxRetain, (CUcontext *out, CUdevice device))             \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                         \
    X(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *is_active)) \
    X(cuCtxPushCurrent_v2, (CUcontext context))                                \
    X(cuCtxPopCurrent_v2, (CUcontext *out))                                    \
    X(cuCtxSetCurrent, (CUcontext context))                                    \
    X(cuCtxGetCurrent, (CUcontext *out))                                       \
    X(cuCtxGetDevice, (CUdevice *out))                                         \
    X(cuCtxSynchronize, (void))                                                \
    X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                \
    X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                 \
    X(cuCtxDisablePeerAccess, (CUcontext peer))                                \
    X(cuDeviceCanAccessPeer, (int *out, CUdevice device, CUdevice peer))

#define CUDA_MEMORY_MAP(X)                                                     \
    X(cuMemGetInfo_v2, (size_t *out_free, size_t *out_total))                  \
    X(cuMemAlloc_v2, (CUdeviceptr *out, size_t bytes))                         \
    X(cuMemFree_v2, (CUdeviceptr base))                                        \
    X(cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)) \
    X(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))              \
    X(cuMemFreeHost, (void *base))                                             \
    X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *out, void *base, unsigned flags)) \
    X(cuMemHostGetFlags, (unsigned *out, void *base))                          \
    X(cuMemHostRegister_v2, (void *base, size_t bytes, unsigned flags))        \
    X(cuMemHostUnregister, (void *base))                                       \
    X(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr pointer)) \
    X(cuPointerGetAttributes, (unsigned count, CUpointer_attribute *attributes, void **data, \
                               CUdeviceptr pointer))                           \
    X(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes))              \
    X(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
    X(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes))       \
    X(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes))             \
    X(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes))       \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes,   \
                             CUstream stream))                                 \
    X(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
    X(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, \
                          CUcontext src_context, size_t bytes, CUstream stream)) \
    X(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)) \
    X(cuMemsetD32Async, (CUdeviceptr dst, unsigned value, size_t count, CUstream stream)) \
    X(cuIpcGetMemHandle, (CUipcMemHandle *out, CUdeviceptr pointer))           \
    X(cuIpcOpenMemHandle_v2, (CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)) \
    X(cuIpcCloseMemHandle, (CUdeviceptr base))                                 \
    X(cuIpcGetEventHandle, (CUipcEventHandle *out, CUevent event))             \
    X(cuIpcOpenEventHandle, (CUevent *out, CUipcEventHandle handle))

#define CUDA_STREAM_MAP(X)                                                     \
    X(cuStreamCreate, (CUstream *out, unsigned flags))                         \
    X(cuStreamCreateWithPriority, (CUstream *out, unsigned flags, int priority)) \
    X(cuStreamDestroy_v2, (CUstream stream))                                   \
    X(cuStreamQuery, (CUstream stream))                                        \
    X(cuStreamSynchronize, (CUstream stream))                                  \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))     \
    X(cuStreamGetPriority, (CUstream stream, int *out))                        \
    X(cuStreamGetFlags, (CUstream stream, unsigned *out))                      \
    X(cuStreamGetCtx, (CUstream stream, CUcontext *out))                       \
    X(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *arg))             \
    X(cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr address, cuuint32_t value, \
                                unsigned flags))                               \
    X(cuStreamWaitValue32_v2, (CUstream stream, CUdeviceptr address, cuuint32_t value, \
                               unsigned flags))                                \
    X(cuEventCreate, (CUevent *out, unsigned flags))                           \
    X(cuEventDestroy_v2, (CUevent event))                                      \
    X(cuEventRecord, (CUevent event, CUstream stream))                         \
    X(cuEventQuery, (CUevent event))                                           \
    X(cuEventSynchronize, (CUevent event))                                     \
    X(cuEventElapsedTime_v2, (float *out, CUevent start, CUevent end))         \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *out))      \
    X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))    \
    X(cuStreamEndCapture, (CUstream stream, CUgraph *out))                     \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode))          \
    X(cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus *out_status, \
                                  cuuint64_t *out_id, CUgraph *out_graph,      \
                                  const CUgraphNode **out_nodes,               \
                                  const CUgraphEdgeData **out_edges, size_t *out_count)) \
    X(cuGraphNodeGetDependencies_v2, (CUgraphNode node, CUgraphNode *out_nodes, \
                                      CUgraphEdgeData *out_edges, size_t *count)) \
    X(cuGraphInstantiateWithFlags, (CUgraphExec *out, CUgraph graph, unsigned long long flags)) \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                      \
    X(cuGraphExecDestroy, (CUgraphExec exec))                                  \
    X(cuGraphDestroy, (CUgraph graph))

#define CUDA_VIRTUAL_MAP(X)                                                    \
    X(cuMemAddressReserve, (CUdeviceptr *out, size_t bytes, size_t alignment,  \
                            CUdeviceptr wished, unsigned long long flags))     \
    X(cuMemAddressFree, (CUdeviceptr base, size_t bytes))                      \
    X(cuMemCreate, (CUmemGenericAllocationHandle *out, size_t bytes,           \
                    const CUmemAllocationProp *prop, unsigned long long flags)) \
    X(cuMemRelease, (CUmemGenericAllocationHandle handle))                     \
    X(cuMemMap, (CUdeviceptr base, size_t bytes, size_t offset,                \
                 CUmemGenericAllocationHandle handle, unsigned long long flags)) \
    X(cuMemUnmap, (CUdeviceptr base, size_t bytes))                            \
    X(cuMemSetAccess, (CUdeviceptr base, size_t bytes, const CUmemAccessDesc *desc, \
                       size_t count))                                          \
    X(cuMemGetAccess, (unsigned long long *out, const CUmemLocation *location, \
                       CUdeviceptr pointer))                                   \
    X(cuMemGetAllocationGranularity, (size_t *out, const CUmemAllocationProp *prop, \
                                      CUmemAllocationGranularity_flags kind))  \
    X(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp *out,       \
                                               CUmemGenericAllocationHandle handle)) \
    X(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *out, void *address)) \
    X(cuMemExportToShareableHandle, (void *out, CUmemGenericAllocationHandle handle, \
                                     CUmemAllocationHandleType type,           \
                                     unsigned long long flags))                \
    X(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *out, void *shared, \
                                       CUmemAllocationHandleType type))        \
    X(cuMulticastCreate, (CUmemGenericAllocationHandle *out,                   \
                          const CUmulticastObjectProp *prop))                  \
    X(cuMulticastAddDevice, (CUmemGenericAllocationHandle handle, CUdevice device)) \
    X(cuMulticastBindMem, (CUmemGenericAllocationHandle handle, size_t offset, \
                           CUmemGenericAllocationHandle memory, size_t memory_offset, \
                           size_t bytes, unsigned long long flags))            \
    X(cuMulticastBindAddr, (CUmemGenericAllocationHandle handle, size_t offset, \
                            CUdeviceptr memory, size_t bytes, unsigned long long flags)) \
    X(cuMulticastUnbind, (CUmemGenericAllocationHandle handle, CUdevice device, \
                          size_t offset, size_t bytes))                        \
    X(cuMulticastGetGranularity, (size_t *out, const CUmulticastObjectProp *prop, \
                                  CUmulticastGranularity_flags kind))

#define CUDA_POOL_MAP(X)                                                       \
    X(cuDeviceGetDefaultMemPool, (CUmemoryPool *out, CUdevice device))         \
    X(cuMemAllocAsync, (CUdeviceptr *out, size_t bytes, CUstream stream))      \
    X(cuMemFreeAsync, (CUdeviceptr base, CUstream stream))                     \
    X(cuMemAllocFromPoolAsync, (CUdeviceptr *out, size_t bytes, CUmemoryPool pool, \
                                CUstream stream))                              \
    X(cuMemPoolCreate, (CUmemoryPool *out, const CUmemPoolProps *props))       \
    X(cuMemPoolDestroy, (CUmemoryPool pool))                                   \
    X(cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes_kept))                 \
    X(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
    X(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value)) \
    X(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)) \
    X(cuDeviceGetDevResource, (CUdevice device, CUdevResource *out, CUdevResourceType type)) \
    X(cuDevSmResourceSplitByCount, (CUdevResource *out_groups, unsigned *group_count, \
                                    const CUdevResource *input, CUdevResource *out_rest, \
                                    unsigned flags, unsigned units_min))       \
    X(cuDevResourceGenerateDesc, (CUdevResourceDesc *out, CUdevResource *resources, \
                                  unsigned count))                             \
    X(cuGreenCtxCreate, (CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device, \
                         unsigned flags))                                      \
    X(cuGreenCtxDestroy, (CUgreenCtx green))                                   \
    X(cuCtxFromGreenCtx, (CUcontext *out, CUgreenCtx green))                   \
    X(cuGreenCtxGetDevResource, (CUgreenCtx green, CUdevResource *out, CUdevResourceType type)) \
    X(cuGreenCtxStreamCreate, (CUstream *out, CUgreenCtx green, unsigned flags, int priority)) \
    X(cuGreenCtxRecordEvent, (CUgreenCtx green, CUevent event))                \
    X(cuGreenCtxWaitEvent, (CUgreenCtx green, CUevent event))

#define CUDA_OLD_MAP(X)                                                        \
    X(cuEventElapsedTime, (float *out, CUevent start, CUevent end))            \
    X(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *out_nodes, size_t *count)) \
    X(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus *out_status, \
                                  cuuint64_t *out_id, CUgraph *out_graph,      \
                                  const CUgraphNode **out_nodes, size_t *out_count))

#define CUDA_MAP(X)                                                            \
    CUDA_BASE_MAP(X) CUDA_MEMORY_MAP(X) CUDA_STREAM_MAP(X) CUDA_VIRTUAL_MAP(X) \
    CUDA_POOL_MAP(X)

#endif
