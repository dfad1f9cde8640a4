/* SPDX-License-Identifier: MIT */
/* Every entry point of the CUDA driver API and of the HIP runtime that is used,
 * written once.
 *
 *   DRIVER_COMMON_MAP(X)  X(need, name, cuda, older, hip, (parameters)): both have
 *                         it with the same shape
 *   DRIVER_CUDA_MAP(X)    the same columns; hip is NONE
 *   DRIVER_HIP_MAP(X)     the same columns; cuda is NONE
 *   DRIVER_MAP(X)         all of them, in the order of struct driver_entries
 *
 *   need    what is lost without it: REQUIRED everything, OPTIONAL nothing by
 *           itself, else the capability of that name
 *   cuda    the exported name with its suffix; hip likewise
 *   older   tried when cuda is not exported, or NULL; the same shape
 *
 * All of them return driver_result. The parameters are written in the types of
 * driver/vendor/types.h, which stand for the vendor's; driver/vendor/check_cuda.c and
 * driver/vendor/check_hip.c replace them by the vendor's own and compare, where the
 * vendor's header is found. What differs in shape between the two is in the two
 * lists that follow, and is evened out in driver/vendor/cuda.c and driver/vendor/hip.c.
 */
#ifndef SRC_DRIVER_ENTRY_POINTS_H
#define SRC_DRIVER_ENTRY_POINTS_H

#define DRIVER_COMMON_MAP(X)                                                                    \
    X(REQUIRED, init, cuInit, NULL, hipInit, (unsigned flags))                                  \
    X(REQUIRED, device_count, cuDeviceGetCount, NULL, hipGetDeviceCount, (int *out_count))      \
    X(REQUIRED, device_name, cuDeviceGetName, NULL, hipDeviceGetName,                           \
      (char *name, int bytes, driver_device device))                                            \
    X(REQUIRED, device_total, cuDeviceTotalMem_v2, NULL, hipDeviceTotalMem,                     \
      (size_t *out_bytes, driver_device device))                                                \
    X(REQUIRED, device_attribute, cuDeviceGetAttribute, NULL, hipDeviceGetAttribute,            \
      (int *out_value, driver_device_attribute attribute, driver_device device))                \
    X(REQUIRED, memory_info, cuMemGetInfo_v2, NULL, hipMemGetInfo,                              \
      (size_t *out_free, size_t *out_total))                                                    \
    X(REQUIRED, alloc, cuMemAlloc_v2, NULL, hipMalloc, (driver_ptr *out_base, size_t bytes))    \
    X(REQUIRED, free, cuMemFree_v2, NULL, hipFree, (driver_ptr base))                           \
    X(STREAMS, stream_create, cuStreamCreateWithPriority, NULL, hipStreamCreateWithPriority,    \
      (driver_stream *out_stream, unsigned flags, int priority))                                \
    X(STREAMS, stream_destroy, cuStreamDestroy_v2, NULL, hipStreamDestroy,                      \
      (driver_stream stream))                                                                   \
    X(STREAMS, stream_query, cuStreamQuery, NULL, hipStreamQuery, (driver_stream stream))       \
    X(STREAMS, stream_synchronize, cuStreamSynchronize, NULL, hipStreamSynchronize,             \
      (driver_stream stream))                                                                   \
    X(STREAMS, stream_wait_event, cuStreamWaitEvent, NULL, hipStreamWaitEvent,                  \
      (driver_stream stream, driver_event event, unsigned flags))                               \
    X(STREAMS, stream_priority, cuStreamGetPriority, NULL, hipStreamGetPriority,                \
      (driver_stream stream, int *out_priority))                                                \
    X(STREAMS, device_synchronize, cuCtxSynchronize, NULL, hipDeviceSynchronize, (void))        \
    X(STREAMS, priority_range, cuCtxGetStreamPriorityRange, NULL,                               \
      hipDeviceGetStreamPriorityRange, (int *out_least, int *out_greatest))                     \
    X(STREAMS, event_create, cuEventCreate, NULL, hipEventCreateWithFlags,                      \
      (driver_event *out_event, unsigned flags))                                                \
    X(STREAMS, event_destroy, cuEventDestroy_v2, NULL, hipEventDestroy, (driver_event event))   \
    X(STREAMS, event_record, cuEventRecord, NULL, hipEventRecord,                               \
      (driver_event event, driver_stream stream))                                               \
    X(STREAMS, event_query, cuEventQuery, NULL, hipEventQuery, (driver_event event))            \
    X(STREAMS, event_synchronize, cuEventSynchronize, NULL, hipEventSynchronize,                \
      (driver_event event))                                                                     \
    X(STREAMS, event_elapsed, cuEventElapsedTime_v2, "cuEventElapsedTime", hipEventElapsedTime, \
      (float *out_ms, driver_event start, driver_event end))                                    \
    X(COPY, fill_async, cuMemsetD8Async, NULL, hipMemsetD8Async,                                \
      (driver_ptr dst, unsigned char value, size_t bytes, driver_stream stream))                \
    X(LAUNCH, launch_host, cuLaunchHostFunc, NULL, hipLaunchHostFunc,                           \
      (driver_stream stream, driver_host_fn fn, void *arg))                                     \
    X(VALUES, write_value32, cuStreamWriteValue32_v2, NULL, hipStreamWriteValue32,              \
      (driver_stream stream, driver_ptr address, uint32_t value, unsigned flags))               \
    X(VIRTUAL, reserve, cuMemAddressReserve, NULL, hipMemAddressReserve,                        \
      (driver_ptr *out_base, size_t bytes, size_t alignment, driver_ptr wished,                 \
       unsigned long long flags))                                                               \
    X(VIRTUAL, unreserve, cuMemAddressFree, NULL, hipMemAddressFree,                            \
      (driver_ptr base, size_t bytes))                                                          \
    X(VIRTUAL, create, cuMemCreate, NULL, hipMemCreate,                                         \
      (driver_handle *out_handle, size_t bytes, const driver_memory_prop *prop,                 \
       unsigned long long flags))                                                               \
    X(VIRTUAL, release, cuMemRelease, NULL, hipMemRelease, (driver_handle handle))              \
    X(VIRTUAL, map, cuMemMap, NULL, hipMemMap,                                                  \
      (driver_ptr base, size_t bytes, size_t offset, driver_handle handle,                      \
       unsigned long long flags))                                                               \
    X(VIRTUAL, unmap, cuMemUnmap, NULL, hipMemUnmap, (driver_ptr base, size_t bytes))           \
    X(VIRTUAL, set_access, cuMemSetAccess, NULL, hipMemSetAccess,                               \
      (driver_ptr base, size_t bytes, const driver_access_desc *desc, size_t count))            \
    X(VIRTUAL, granularity, cuMemGetAllocationGranularity, NULL, hipMemGetAllocationGranularity, \
      (size_t *out_bytes, const driver_memory_prop *prop, driver_granularity_kind kind))        \
    X(SHARE_FD, export_handle, cuMemExportToShareableHandle, NULL,                              \
      hipMemExportToShareableHandle,                                                            \
      (void *out_shared, driver_handle handle, driver_handle_type type,                         \
       unsigned long long flags))                                                               \
    X(SHARE_FD, import_handle, cuMemImportFromShareableHandle, NULL,                            \
      hipMemImportFromShareableHandle,                                                          \
      (driver_handle *out_handle, void *shared, driver_handle_type type))                       \
    X(CAPTURE, capture_begin, cuStreamBeginCapture_v2, NULL, hipStreamBeginCapture,             \
      (driver_stream stream, driver_capture_mode mode))                                         \
    X(CAPTURE, capture_end, cuStreamEndCapture, NULL, hipStreamEndCapture,                      \
      (driver_stream stream, driver_graph *out_graph))                                          \
    X(CAPTURE, graph_instantiate, cuGraphInstantiateWithFlags, NULL,                            \
      hipGraphInstantiateWithFlags,                                                             \
      (driver_graph_exec *out_exec, driver_graph graph, unsigned long long flags))              \
    X(CAPTURE, graph_launch, cuGraphLaunch, NULL, hipGraphLaunch,                               \
      (driver_graph_exec exec, driver_stream stream))                                           \
    X(CAPTURE, graph_exec_destroy, cuGraphExecDestroy, NULL, hipGraphExecDestroy,               \
      (driver_graph_exec exec))                                                                 \
    X(CAPTURE, graph_destroy, cuGraphDestroy, NULL, hipGraphDestroy, (driver_graph graph))      \
    X(OPTIONAL, node_dependencies, cuGraphNodeGetDependencies, NULL,                            \
      hipGraphNodeGetDependencies,                                                              \
      (driver_node node, driver_node *out_nodes, size_t *count))                                \
    X(OPTIONAL, capture_exchange_mode, cuThreadExchangeStreamCaptureMode, NULL,                 \
      hipThreadExchangeStreamCaptureMode, (driver_capture_mode *mode))                          \
    X(OPTIONAL, capture_info, cuStreamGetCaptureInfo_v2, NULL, hipStreamGetCaptureInfo_v2,      \
      (driver_stream stream, driver_capture_status *out_status, driver_capture_id *out_id,      \
       driver_graph *out_graph, const driver_node **out_nodes, size_t *out_count))              \
    X(HOST_MEMORY, host_alloc, cuMemHostAlloc, NULL, hipHostMalloc,                             \
      (void **out_base, size_t bytes, unsigned flags))                                          \
    X(HOST_MEMORY, host_free, cuMemFreeHost, NULL, hipHostFree, (void *base))                   \
    X(HOST_MEMORY, host_register, cuMemHostRegister_v2, NULL, hipHostRegister,                  \
      (void *base, size_t bytes, unsigned flags))                                               \
    X(HOST_MEMORY, host_unregister, cuMemHostUnregister, NULL, hipHostUnregister, (void *base)) \
    X(POINTERS, pointer_attributes, cuPointerGetAttributes, NULL, hipDrvPointerGetAttributes,   \
      (unsigned count, driver_pointer_attribute *attributes, void **data, driver_ptr pointer))  \
    X(PEERS, peer_query, cuDeviceCanAccessPeer, NULL, hipDeviceCanAccessPeer,                   \
      (int *out_can, driver_device device, driver_device other))                                \
    X(IPC, ipc_export, cuIpcGetMemHandle, NULL, hipIpcGetMemHandle,                             \
      (driver_ipc_memory *out_handle, driver_ptr base))                                         \
    X(IPC, ipc_open, cuIpcOpenMemHandle_v2, NULL, hipIpcOpenMemHandle,                          \
      (driver_ptr *out_base, driver_ipc_memory handle, unsigned flags))                         \
    X(IPC, ipc_close, cuIpcCloseMemHandle, NULL, hipIpcCloseMemHandle, (driver_ptr base))       \
    X(IPC, address_range, cuMemGetAddressRange_v2, NULL, hipMemGetAddressRange,                 \
      (driver_ptr *out_base, size_t *out_bytes, driver_ptr pointer))                            \
    X(IPC_EVENTS, ipc_event_export, cuIpcGetEventHandle, NULL, hipIpcGetEventHandle,              \
      (driver_ipc_event *out_handle, driver_event event))                                       \
    X(IPC_EVENTS, ipc_event_open, cuIpcOpenEventHandle, NULL, hipIpcOpenEventHandle,              \
      (driver_event *out_event, driver_ipc_event handle))                                       \
    X(ASYNC, pool_alloc_async, cuMemAllocFromPoolAsync, NULL, hipMallocFromPoolAsync,           \
      (driver_ptr *out_base, size_t bytes, driver_pool pool, driver_stream stream))             \
    X(ASYNC, pool_free_async, cuMemFreeAsync, NULL, hipFreeAsync,                               \
      (driver_ptr base, driver_stream stream))                                                  \
    X(ASYNC, pool_create, cuMemPoolCreate, NULL, hipMemPoolCreate,                              \
      (driver_pool *out_pool, const driver_pool_prop *prop))                                    \
    X(ASYNC, pool_destroy, cuMemPoolDestroy, NULL, hipMemPoolDestroy, (driver_pool pool))       \
    X(ASYNC, pool_set, cuMemPoolSetAttribute, NULL, hipMemPoolSetAttribute,                     \
      (driver_pool pool, driver_pool_attribute attribute, void *value))                         \
    X(ASYNC, pool_get, cuMemPoolGetAttribute, NULL, hipMemPoolGetAttribute,                     \
      (driver_pool pool, driver_pool_attribute attribute, void *out_value))                     \
    X(ASYNC, pool_trim, cuMemPoolTrimTo, NULL, hipMemPoolTrimTo,                                \
      (driver_pool pool, size_t bytes_kept))                                                    \
    X(OPTIONAL, pool_set_access, cuMemPoolSetAccess, NULL, hipMemPoolSetAccess,                 \
      (driver_pool pool, const driver_access_desc *desc, size_t count))

#define DRIVER_CUDA_MAP(X)                                                                      \
    X(REQUIRED, cuda_version, cuDriverGetVersion, NULL, NONE, (int *out_version))               \
    X(REQUIRED, cuda_error_name, cuGetErrorName, NULL, NONE,                                    \
      (driver_result result, const char **out_name))                                            \
    X(REQUIRED, cuda_error_text, cuGetErrorString, NULL, NONE,                                  \
      (driver_result result, const char **out_text))                                            \
    X(REQUIRED, cuda_device, cuDeviceGet, NULL, NONE, (driver_device *out_device, int index))   \
    X(REQUIRED, cuda_primary_retain, cuDevicePrimaryCtxRetain, NULL, NONE,                      \
      (driver_context *out_context, driver_device device))                                      \
    X(REQUIRED, cuda_primary_release, cuDevicePrimaryCtxRelease_v2, NULL, NONE,                 \
      (driver_device device))                                                                   \
    X(REQUIRED, cuda_context_get, cuCtxGetCurrent, NULL, NONE, (driver_context *out_context))   \
    X(REQUIRED, cuda_context_set, cuCtxSetCurrent, NULL, NONE, (driver_context context))        \
    X(REQUIRED, cuda_context_push, cuCtxPushCurrent_v2, NULL, NONE, (driver_context context))   \
    X(REQUIRED, cuda_context_pop, cuCtxPopCurrent_v2, NULL, NONE,                               \
      (driver_context *out_context))                                                            \
    X(COPY, cuda_copy, cuMemcpy, NULL, NONE, (driver_ptr dst, driver_ptr src, size_t bytes))    \
    X(COPY, cuda_copy_async, cuMemcpyAsync, NULL, NONE,                                         \
      (driver_ptr dst, driver_ptr src, size_t bytes, driver_stream stream))                     \
    X(COPY, cuda_copy_peer_async, cuMemcpyPeerAsync, NULL, NONE,                                \
      (driver_ptr dst, driver_context dst_context, driver_ptr src, driver_context src_context,  \
       size_t bytes, driver_stream stream))                                                     \
    X(VALUES, cuda_wait_value32, cuStreamWaitValue32_v2, NULL, NONE,                            \
      (driver_stream stream, driver_ptr address, uint32_t value, unsigned flags))               \
    X(MULTICAST, multicast_create, cuMulticastCreate, NULL, NONE,                               \
      (driver_handle *out_handle, const driver_multicast_prop *prop))                           \
    X(MULTICAST, multicast_add, cuMulticastAddDevice, NULL, NONE,                               \
      (driver_handle handle, driver_device device))                                             \
    X(MULTICAST, multicast_bind, cuMulticastBindAddr, NULL, NONE,                               \
      (driver_handle handle, size_t offset, driver_ptr memory, size_t bytes,                    \
       unsigned long long flags))                                                               \
    X(MULTICAST, multicast_unbind, cuMulticastUnbind, NULL, NONE,                               \
      (driver_handle handle, driver_device device, size_t offset, size_t bytes))                \
    X(MULTICAST, multicast_granularity, cuMulticastGetGranularity, NULL, NONE,                  \
      (size_t *out_bytes, const driver_multicast_prop *prop,                                    \
       driver_multicast_granularity_kind kind))                                                 \
    X(OPTIONAL, cuda_capture_info_v3, cuStreamGetCaptureInfo_v3, NULL, NONE,                    \
      (driver_stream stream, driver_capture_status *out_status, driver_capture_id *out_id,      \
       driver_graph *out_graph, const driver_node **out_nodes, const driver_edge **out_edges,   \
       size_t *out_count))                                                                      \
    X(OPTIONAL, cuda_node_dependencies_v2, cuGraphNodeGetDependencies_v2, NULL, NONE,           \
      (driver_node node, driver_node *out_nodes, driver_edge *out_edges, size_t *count))        \
    X(PEERS, cuda_peer_enable, cuCtxEnablePeerAccess, NULL, NONE,                               \
      (driver_context peer, unsigned flags))                                                    \
    X(GREEN, green_resource, cuDeviceGetDevResource, NULL, NONE,                                \
      (driver_device device, driver_resource *out_resource, driver_resource_type type))         \
    X(GREEN, green_split, cuDevSmResourceSplitByCount, NULL, NONE,                              \
      (driver_resource *out_groups, unsigned *group_count, const driver_resource *input,        \
       driver_resource *out_rest, unsigned flags, unsigned units_min))                          \
    X(GREEN, green_describe, cuDevResourceGenerateDesc, NULL, NONE,                             \
      (driver_resource_desc *out_desc, driver_resource *resources, unsigned count))             \
    X(GREEN, green_create, cuGreenCtxCreate, NULL, NONE,                                        \
      (driver_green *out_green, driver_resource_desc desc, driver_device device,                \
       unsigned flags))                                                                         \
    X(GREEN, green_destroy, cuGreenCtxDestroy, NULL, NONE, (driver_green green))                \
    X(GREEN, green_context, cuCtxFromGreenCtx, NULL, NONE,                                      \
      (driver_context *out_context, driver_green green))                                        \
    X(GREEN, green_stream_create, cuGreenCtxStreamCreate, NULL, NONE,                           \
      (driver_stream *out_stream, driver_green green, unsigned flags, int priority))

#define DRIVER_HIP_MAP(X)                                                                       \
    X(REQUIRED, hip_version, NONE, NULL, hipRuntimeGetVersion, (int *out_version))              \
    X(REQUIRED, hip_device_set, NONE, NULL, hipSetDevice, (int device))                         \
    X(REQUIRED, hip_device_get, NONE, NULL, hipGetDevice, (int *out_device))                    \
    X(COPY, hip_copy, NONE, NULL, hipMemcpy,                                                    \
      (void *dst, const void *src, size_t bytes, driver_hip_copy_kind kind))                    \
    X(COPY, hip_copy_async, NONE, NULL, hipMemcpyAsync,                                         \
      (void *dst, const void *src, size_t bytes, driver_hip_copy_kind kind,                     \
       driver_stream stream))                                                                   \
    X(COPY, hip_copy_peer_async, NONE, NULL, hipMemcpyPeerAsync,                                \
      (void *dst, int dst_device, const void *src, int src_device, size_t bytes,                \
       driver_stream stream))                                                                   \
    X(VALUES, hip_wait_value32, NONE, NULL, hipStreamWaitValue32,                               \
      (driver_stream stream, void *address, uint32_t value, unsigned flags, uint32_t mask))     \
    X(PEERS, hip_peer_enable, NONE, NULL, hipDeviceEnablePeerAccess,                            \
      (int peer, unsigned flags))

/* These two return a text instead of a result: name, hip, (parameters). */
#define DRIVER_HIP_TEXT_MAP(X)                                                                  \
    X(hip_error_name, hipGetErrorName, (driver_result result))                                  \
    X(hip_error_text, hipGetErrorString, (driver_result result))

#define DRIVER_MAP(X)                                                                           \
    DRIVER_COMMON_MAP(X)                                                                        \
    DRIVER_CUDA_MAP(X)                                                                          \
    DRIVER_HIP_MAP(X)

#endif
