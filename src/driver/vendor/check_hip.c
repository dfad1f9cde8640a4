/* SPDX-License-Identifier: MIT */
/* Compares entry_points.h and types.h with HIP's header, where that is found at
 * build; see check_cuda.c. What a header of HIP 5 lacks or lays out otherwise is
 * left out: driver/vendor/hip.c does not use it with a library that old. */
#include "driver/vendor/check.h"

#include "driver/vendor/entry_points.h"
#include "driver/vendor/types.h"

#if defined(__has_include)
#if __has_include(<hip/hip_runtime_api.h>)
#define HAVE_HIP_H
#endif
#endif

#ifdef HAVE_HIP_H
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <hip/hip_runtime_api.h>
#pragma GCC diagnostic pop

#if HIP_VERSION_MAJOR < 6
typedef void (*hipHostFn_t)(void *arg);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t fn, void *arg);
#define hipDeviceAttributeMemoryPoolsSupported             88
#define hipDeviceAttributeVirtualMemoryManagementSupported 89
#endif

/* ---- Layouts -------------------------------------------------------------------- */

SAME_SIZE(driver_ptr, hipDeviceptr_t)
SAME_SIZE(driver_handle, hipMemGenericAllocationHandle_t)
SAME_SIZE(driver_result, hipError_t)
SAME_SIZE(driver_device, hipDevice_t)
SAME_SIZE(driver_device_attribute, hipDeviceAttribute_t)
SAME_SIZE(driver_pointer_attribute, hipPointer_attribute)
SAME_SIZE(driver_pool_attribute, hipMemPoolAttr)
SAME_SIZE(driver_handle_type, hipMemAllocationHandleType)
SAME_SIZE(driver_granularity_kind, hipMemAllocationGranularity_flags)
SAME_SIZE(driver_capture_mode, hipStreamCaptureMode)
SAME_SIZE(driver_capture_status, hipStreamCaptureStatus)
SAME_SIZE(driver_hip_copy_kind, hipMemcpyKind)
SAME_SIZE(driver_location, hipMemLocation)
SAME_SIZE(driver_access_desc, hipMemAccessDesc)
SAME_SIZE(driver_pool_prop, hipMemPoolProps)
SAME_SIZE(driver_ipc_memory, hipIpcMemHandle_t)
SAME_SIZE(driver_ipc_event, hipIpcEventHandle_t)
SAME_FIELD(driver_location, type, hipMemLocation, type)
SAME_FIELD(driver_location, id, hipMemLocation, id)
SAME_FIELD(driver_access_desc, location, hipMemAccessDesc, location)
SAME_FIELD(driver_access_desc, flags, hipMemAccessDesc, flags)
SAME_FIELD(driver_pool_prop, type, hipMemPoolProps, allocType)
SAME_FIELD(driver_pool_prop, handle_types, hipMemPoolProps, handleTypes)
SAME_FIELD(driver_pool_prop, location, hipMemPoolProps, location)
SAME_FIELD(driver_pool_prop, windows, hipMemPoolProps, win32SecurityAttributes)
#if HIP_VERSION_MAJOR >= 6
SAME_SIZE(driver_memory_prop, hipMemAllocationProp)
SAME_FIELD(driver_memory_prop, type, hipMemAllocationProp, type)
SAME_FIELD(driver_memory_prop, location, hipMemAllocationProp, location)
SAME_FIELD(driver_memory_prop, windows, hipMemAllocationProp, win32HandleMetaData)
SAME_FIELD(driver_memory_prop, usage, hipMemAllocationProp, allocFlags.usage)
#endif

/* ---- Numbers --------------------------------------------------------------------- */

#define NONE (-1)
#define SAME_NUMBER(name, value, cuda, hip)                                                        \
    _Static_assert((long)(hip) == NONE || (long)(hip) == (value), #name " is not " #hip);
DRIVER_NUMBER_MAP(SAME_NUMBER)
#define SAME_ATTRIBUTE(name, cuda_value, cuda, value, hip)                                         \
    _Static_assert((long)(hip) == (value), #name " is not " #hip);
DRIVER_ATTRIBUTE_MAP(SAME_ATTRIBUTE)
#undef NONE
_Static_assert(DRIVER_HIP_COPY_DEFAULT == hipMemcpyDefault, "hipMemcpyDefault");

/* ---- Declarations ----------------------------------------------------------------- */

#define driver_ptr               hipDeviceptr_t
#define driver_handle            hipMemGenericAllocationHandle_t
#define driver_stream            hipStream_t
#define driver_event             hipEvent_t
#define driver_graph             hipGraph_t
#define driver_graph_exec        hipGraphExec_t
#define driver_node              hipGraphNode_t
#define driver_pool              hipMemPool_t
#define driver_result            hipError_t
#define driver_device            hipDevice_t
#define driver_device_attribute  hipDeviceAttribute_t
#define driver_pointer_attribute hipPointer_attribute
#define driver_pool_attribute    hipMemPoolAttr
#define driver_handle_type       hipMemAllocationHandleType
#define driver_granularity_kind  hipMemAllocationGranularity_flags
#define driver_capture_mode      hipStreamCaptureMode
#define driver_capture_status    hipStreamCaptureStatus
#define driver_capture_id        unsigned long long
#define driver_hip_copy_kind     hipMemcpyKind
#define driver_host_fn           hipHostFn_t
#define driver_memory_prop       hipMemAllocationProp
#define driver_access_desc       hipMemAccessDesc
#define driver_pool_prop         hipMemPoolProps
#define driver_ipc_memory        hipIpcMemHandle_t
#define driver_ipc_event         hipIpcEventHandle_t

#define SAME_FUNCTION(need, name, cuda, older, hip, parameters)                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&hip), driver_result(*) parameters),    \
                   "the list declares " #hip " otherwise than HIP's header");
DRIVER_COMMON_MAP(SAME_FUNCTION)
DRIVER_HIP_MAP(SAME_FUNCTION)
#define SAME_TEXT(name, hip, parameters)                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&hip), const char *(*)parameters),      \
                   "the list declares " #hip " otherwise than HIP's header");
DRIVER_HIP_TEXT_MAP(SAME_TEXT)
#endif
