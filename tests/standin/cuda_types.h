/* SPDX-License-Identifier: MIT */
/* Types and numbers of the CUDA driver API as the stand-in declares them itself.
 *
 * Nothing of the vendor is needed to build. Where cuda.h is at hand,
 * compare_cuda.c compiles this file with OWN(x) as own_x beside it and compares
 * every size, place and number.
 */
#ifndef TESTS_STANDIN_CUDA_TYPES_H
#define TESTS_STANDIN_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifndef OWN
#define OWN(name) name
#endif

#define CUDA_CONSTANT_MAP(X)                                                   \
    X(CUDA_SUCCESS, 0) X(CUDA_ERROR_INVALID_VALUE, 1)                          \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2) X(CUDA_ERROR_NOT_INITIALIZED, 3)            \
    X(CUDA_ERROR_DEINITIALIZED, 4) X(CUDA_ERROR_STUB_LIBRARY, 34)              \
    X(CUDA_ERROR_NO_DEVICE, 100) X(CUDA_ERROR_INVALID_DEVICE, 101)             \
    X(CUDA_ERROR_INVALID_CONTEXT, 201) X(CUDA_ERROR_ALREADY_MAPPED, 208)       \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217) X(CUDA_ERROR_OPERATING_SYSTEM, 304) \
    X(CUDA_ERROR_INVALID_HANDLE, 400) X(CUDA_ERROR_ILLEGAL_STATE, 401)         \
    X(CUDA_ERROR_NOT_FOUND, 500) X(CUDA_ERROR_NOT_READY, 600)                  \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700) X(CUDA_ERROR_LAUNCH_FAILED, 719)        \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                             \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705)                                 \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                    \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                          \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)                              \
    X(CUDA_ERROR_NOT_PERMITTED, 800) X(CUDA_ERROR_NOT_SUPPORTED, 801)          \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                              \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                              \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)                                \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)                                 \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)                                \
    X(CUDA_ERROR_CAPTURED_EVENT, 907)                                          \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908) X(CUDA_ERROR_UNKNOWN, 999)  \
    X(CU_STREAM_NON_BLOCKING, 1) X(CU_EVENT_BLOCKING_SYNC, 1)                  \
    X(CU_EVENT_DISABLE_TIMING, 2) X(CU_EVENT_INTERPROCESS, 4)                  \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0) X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)  \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                                 \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0) X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                       \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1) X(CU_MEM_LOCATION_TYPE_DEVICE, 1)      \
    X(CU_MEM_HANDLE_TYPE_NONE, 0) X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1) \
    X(CU_MEM_HANDLE_TYPE_FABRIC, 8)                                            \
    X(CU_MEM_ACCESS_FLAGS_PROT_NONE, 0) X(CU_MEM_ACCESS_FLAGS_PROT_READ, 1)    \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                                   \
    X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0) X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1) \
    X(CU_MULTICAST_GRANULARITY_MINIMUM, 0) X(CU_MULTICAST_GRANULARITY_RECOMMENDED, 1) \
    X(CU_MEMHOSTALLOC_PORTABLE, 1) X(CU_MEMHOSTALLOC_DEVICEMAP, 2)             \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1) X(CU_MEMHOSTREGISTER_READ_ONLY, 8)       \
    X(CU_MEMORYTYPE_HOST, 1) X(CU_MEMORYTYPE_DEVICE, 2)                        \
    X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                                   \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1) X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)  \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3) X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4) \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7) X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8) \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                  \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                               \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12) X(CU_POINTER_ATTRIBUTE_MAPPED, 13)  \
    X(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 17)                                 \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                            \
    X(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19)                             \
    X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                      \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                              \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                        \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                        \
    X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78)                     \
    X(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                         \
    X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)            \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)    \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                         \
    X(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 119)                 \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 123)                  \
    X(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 125)                            \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 128)                   \
    X(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 132)                            \
    X(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1)                      \
    X(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 2)                            \
    X(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 3)                    \
    X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                                    \
    X(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5)                                 \
    X(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6) X(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7) \
    X(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8)                                        \
    X(CU_DEV_RESOURCE_TYPE_SM, 1) X(CU_GREEN_CTX_DEFAULT_STREAM, 1)            \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0) X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)

/* name, fields as they lie */
#define CUDA_STRUCT_MAP(X)                                                     \
    X(CUmemLocation, int type; int id;)                                        \
    X(CUmemAllocationProp, int type; int requestedHandleTypes;                 \
      struct { int type; int id; } location; void *win32HandleMetaData;        \
      struct { unsigned char compressionType, gpuDirectRDMACapable;            \
               unsigned short usage; unsigned char reserved[4]; } allocFlags;) \
    X(CUmemAccessDesc, struct { int type; int id; } location; int flags;)      \
    X(CUmulticastObjectProp, unsigned numDevices; size_t size;                 \
      unsigned long long handleTypes; unsigned long long flags;)               \
    X(CUmemPoolProps, int allocType; int handleTypes;                          \
      struct { int type; int id; } location; void *win32SecurityAttributes;    \
      size_t maxSize; unsigned short usage; unsigned char reserved[54];)       \
    X(CUdevResource, int type; unsigned char _internal_padding[92];            \
      union { struct { unsigned smCount, minSmPartitionSize,                   \
                       smCoscheduledAlignment; } sm;                           \
              unsigned char _oversize[48]; };)                                 \
    X(CUgraphEdgeData, unsigned char from_port, to_port, type, reserved[5];)   \
    X(CUmemFabricHandle, unsigned char data[64];)                              \
    X(CUipcMemHandle, char reserved[64];)                                      \
    X(CUipcEventHandle, char reserved[64];)                                    \
    X(CUuuid, char bytes[16];)

#define CUDA_STRUCT(name, ...) typedef struct OWN(name##_s) { __VA_ARGS__ } OWN(name);
CUDA_STRUCT_MAP(CUDA_STRUCT)
#undef CUDA_STRUCT

#ifndef CUDA_TYPES_COMPARED
enum cuda_constant {
#define CUDA_CONSTANT(name, value) name = value,
    CUDA_CONSTANT_MAP(CUDA_CONSTANT)
#undef CUDA_CONSTANT
};

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef struct cuda_context *CUcontext;
typedef struct cuda_stream *CUstream;
typedef struct cuda_event *CUevent;
typedef struct cuda_graph *CUgraph;
typedef struct cuda_exec *CUgraphExec;
typedef struct cuda_node *CUgraphNode;
typedef struct cuda_pool *CUmemoryPool;
typedef struct cuda_green *CUgreenCtx;
typedef struct cuda_desc *CUdevResourceDesc;
typedef void (*CUhostFn)(void *arg);
/* Enumerations of the vendor, all as wide as int. */
typedef unsigned CUdevice_attribute, CUpointer_attribute, CUstreamCaptureStatus,
    CUstreamCaptureMode, CUmemAllocationHandleType, CUmemAllocationGranularity_flags,
    CUmulticastGranularity_flags, CUmemPool_attribute, CUdevResourceType,
    CUdriverProcAddressQueryResult;
#endif

#endif
