/* SPDX-License-Identifier: MIT */
/* Compares entry_points.h and types.h with cuda.h, where that is found at build.
 *
 * Each declaration of the list is repeated with CUDA's own types in the place of
 * ours, and must be the type of the function of that name; then the types that
 * stand for each other are compared in size and layout, and the numbers. This
 * file makes no code.
 */
#include "driver/vendor/check.h"

#include "driver/vendor/entry_points.h"
#include "driver/vendor/types.h"

#if defined(__has_include)
#if __has_include(<cuda.h>)
#define HAVE_CUDA_H
#endif
#endif

#ifdef HAVE_CUDA_H
/* Also declares the older forms of functions. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#endif

/* Older headers lack types that are compared here; the driver is asked at run time. */
#if defined(HAVE_CUDA_H) && CUDA_VERSION >= 12080

/* ---- Layouts -------------------------------------------------------------------- */

SAME_SIZE(driver_ptr, CUdeviceptr)
SAME_SIZE(driver_handle, CUmemGenericAllocationHandle)
SAME_SIZE(driver_context, CUcontext)
SAME_SIZE(driver_stream, CUstream)
SAME_SIZE(driver_event, CUevent)
SAME_SIZE(driver_graph, CUgraph)
SAME_SIZE(driver_graph_exec, CUgraphExec)
SAME_SIZE(driver_node, CUgraphNode)
SAME_SIZE(driver_pool, CUmemoryPool)
SAME_SIZE(driver_green, CUgreenCtx)
SAME_SIZE(driver_resource_desc, CUdevResourceDesc)
SAME_SIZE(driver_result, CUresult)
SAME_SIZE(driver_device, CUdevice)
SAME_SIZE(driver_device_attribute, CUdevice_attribute)
SAME_SIZE(driver_pointer_attribute, CUpointer_attribute)
SAME_SIZE(driver_pool_attribute, CUmemPool_attribute)
SAME_SIZE(driver_handle_type, CUmemAllocationHandleType)
SAME_SIZE(driver_granularity_kind, CUmemAllocationGranularity_flags)
SAME_SIZE(driver_multicast_granularity_kind, CUmulticastGranularity_flags)
SAME_SIZE(driver_capture_mode, CUstreamCaptureMode)
SAME_SIZE(driver_capture_status, CUstreamCaptureStatus)
SAME_SIZE(driver_capture_id, cuuint64_t)
SAME_SIZE(driver_resource_type, CUdevResourceType)
SAME_SIZE(driver_host_fn, CUhostFn)
SAME_SIZE(driver_location, CUmemLocation)
SAME_SIZE(driver_memory_prop, CUmemAllocationProp)
SAME_SIZE(driver_access_desc, CUmemAccessDesc)
SAME_SIZE(driver_pool_prop, CUmemPoolProps)
SAME_SIZE(driver_multicast_prop, CUmulticastObjectProp)
SAME_SIZE(driver_ipc_memory, CUipcMemHandle)
SAME_SIZE(driver_ipc_event, CUipcEventHandle)
SAME_SIZE(driver_edge, CUgraphEdgeData)
/* The struct ends with a pointer since 13.1, and is aligned like a pointer. */
_Static_assert(sizeof(driver_resource) == sizeof(CUdevResource) &&
                   _Alignof(driver_resource) >= _Alignof(CUdevResource),
               "driver_resource cannot stand for CUdevResource");

SAME_FIELD(driver_location, type, CUmemLocation, type)
SAME_FIELD(driver_location, id, CUmemLocation, id)
SAME_FIELD(driver_memory_prop, type, CUmemAllocationProp, type)
SAME_FIELD(driver_memory_prop, handle_types, CUmemAllocationProp, requestedHandleTypes)
SAME_FIELD(driver_memory_prop, location, CUmemAllocationProp, location)
SAME_FIELD(driver_memory_prop, windows, CUmemAllocationProp, win32HandleMetaData)
SAME_FIELD(driver_memory_prop, compression, CUmemAllocationProp, allocFlags.compressionType)
SAME_FIELD(driver_memory_prop, rdma_capable, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
SAME_FIELD(driver_memory_prop, usage, CUmemAllocationProp, allocFlags.usage)
SAME_FIELD(driver_access_desc, location, CUmemAccessDesc, location)
SAME_FIELD(driver_access_desc, flags, CUmemAccessDesc, flags)
SAME_FIELD(driver_pool_prop, type, CUmemPoolProps, allocType)
SAME_FIELD(driver_pool_prop, handle_types, CUmemPoolProps, handleTypes)
SAME_FIELD(driver_pool_prop, location, CUmemPoolProps, location)
SAME_FIELD(driver_pool_prop, windows, CUmemPoolProps, win32SecurityAttributes)
SAME_FIELD(driver_pool_prop, bytes_max, CUmemPoolProps, maxSize)
SAME_FIELD(driver_multicast_prop, device_count, CUmulticastObjectProp, numDevices)
SAME_FIELD(driver_multicast_prop, bytes, CUmulticastObjectProp, size)
SAME_FIELD(driver_multicast_prop, handle_types, CUmulticastObjectProp, handleTypes)
SAME_FIELD(driver_multicast_prop, flags, CUmulticastObjectProp, flags)
SAME_FIELD(driver_ipc_memory, bytes, CUipcMemHandle, reserved)
SAME_FIELD(driver_ipc_event, bytes, CUipcEventHandle, reserved)
SAME_FIELD(driver_edge, from_port, CUgraphEdgeData, from_port)
SAME_FIELD(driver_edge, to_port, CUgraphEdgeData, to_port)
SAME_FIELD(driver_edge, type, CUgraphEdgeData, type)
SAME_FIELD(driver_resource, type, CUdevResource, type)
SAME_FIELD(driver_resource, unit_count, CUdevResource, sm.smCount)
#if CUDA_VERSION >= 13010 /* reserved before */
SAME_FIELD(driver_resource, units_min, CUdevResource, sm.minSmPartitionSize)
SAME_FIELD(driver_resource, units_step, CUdevResource, sm.smCoscheduledAlignment)
#endif

/* ---- Numbers --------------------------------------------------------------------- */

#define NONE (-1)
#define SAME_NUMBER(name, value, cuda, hip)                                                        \
    _Static_assert((long)(cuda) == NONE || (long)(cuda) == (value), #name " is not " #cuda);
DRIVER_NUMBER_MAP(SAME_NUMBER)
#define SAME_ATTRIBUTE(name, value, cuda, hip_value, hip)                                          \
    _Static_assert((long)(cuda) == (value), #name " is not " #cuda);
DRIVER_ATTRIBUTE_MAP(SAME_ATTRIBUTE)
#undef NONE

/* ---- Declarations ----------------------------------------------------------------- */

#define driver_ptr                        CUdeviceptr
#define driver_handle                     CUmemGenericAllocationHandle
#define driver_context                    CUcontext
#define driver_stream                     CUstream
#define driver_event                      CUevent
#define driver_graph                      CUgraph
#define driver_graph_exec                 CUgraphExec
#define driver_node                       CUgraphNode
#define driver_pool                       CUmemoryPool
#define driver_green                      CUgreenCtx
#define driver_resource_desc              CUdevResourceDesc
#define driver_result                     CUresult
#define driver_device                     CUdevice
#define driver_device_attribute           CUdevice_attribute
#define driver_pointer_attribute          CUpointer_attribute
#define driver_pool_attribute             CUmemPool_attribute
#define driver_handle_type                CUmemAllocationHandleType
#define driver_granularity_kind           CUmemAllocationGranularity_flags
#define driver_multicast_granularity_kind CUmulticastGranularity_flags
#define driver_capture_mode               CUstreamCaptureMode
#define driver_capture_status             CUstreamCaptureStatus
#define driver_capture_id                 cuuint64_t
#define driver_resource_type              CUdevResourceType
#define driver_host_fn                    CUhostFn
#define driver_memory_prop                CUmemAllocationProp
#define driver_access_desc                CUmemAccessDesc
#define driver_pool_prop                  CUmemPoolProps
#define driver_multicast_prop             CUmulticastObjectProp
#define driver_ipc_memory                 CUipcMemHandle
#define driver_ipc_event                  CUipcEventHandle
#define driver_edge                       CUgraphEdgeData
#define driver_resource                   CUdevResource

#define SAME_FUNCTION(need, name, cuda, older, hip, parameters)                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&cuda), driver_result(*) parameters),   \
                   "the list declares " #cuda " otherwise than cuda.h");
DRIVER_COMMON_MAP(SAME_FUNCTION)
DRIVER_CUDA_MAP(SAME_FUNCTION)
#endif
