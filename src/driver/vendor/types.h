/* SPDX-License-Identifier: MIT */
/* Types and numbers of the CUDA driver API and of the HIP runtime, declared here
 * so that no vendor header is needed.
 *
 * One set serves both: device addresses and handles are pointers in one API and
 * 64-bit integers in the other, which are passed alike; structs and flags agree
 * unless a name says whose they are. check_cuda.c and check_hip.c compare all of
 * it with the vendor's header where there is one.
 */
#ifndef SRC_DRIVER_TYPES_H
#define SRC_DRIVER_TYPES_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(void *) == 8, "the drivers exist for 64-bit systems only");

/* Opaque things. */
typedef void *driver_ptr;     /* address of device memory            */
typedef void *driver_handle;  /* physical memory, or multicast       */
typedef struct driver_context_st *driver_context;
typedef struct driver_stream_st *driver_stream;
typedef struct driver_event_st *driver_event;
typedef struct driver_graph_st *driver_graph;
typedef struct driver_graph_exec_st *driver_graph_exec;
typedef struct driver_node_st *driver_node;
typedef struct driver_pool_st *driver_pool;
typedef struct driver_green_st *driver_green;
typedef struct driver_resource_desc_st *driver_resource_desc;

/* Numbers. */
typedef unsigned driver_result;
typedef int driver_device;
typedef unsigned driver_device_attribute;
typedef unsigned driver_pointer_attribute;
typedef unsigned driver_pool_attribute;
typedef unsigned driver_handle_type;
typedef unsigned driver_granularity_kind;
typedef unsigned driver_multicast_granularity_kind;
typedef unsigned driver_capture_mode;
typedef unsigned driver_capture_status;
typedef unsigned long long driver_capture_id; /* unsigned long where the vendor says so */
typedef unsigned driver_resource_type;
typedef unsigned driver_hip_copy_kind;
typedef void (*driver_host_fn)(void *arg);

/* Where memory lies: type DRIVER_LOCATION_DEVICE and the index of the device. */
typedef struct driver_location {
    unsigned type;
    int id;
} driver_location;

/* What physical memory is to be. */
typedef struct driver_memory_prop {
    unsigned type;
    driver_handle_type handle_types;
    driver_location location;
    void *windows;
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
} driver_memory_prop;

typedef struct driver_access_desc {
    driver_location location;
    unsigned flags;
} driver_access_desc;

typedef struct driver_pool_prop {
    unsigned type;
    driver_handle_type handle_types;
    driver_location location;
    void *windows;
    size_t bytes_max;
    unsigned short usage;
    unsigned char reserved[54];
} driver_pool_prop;

typedef struct driver_multicast_prop {
    unsigned device_count;
    size_t bytes;
    unsigned long long handle_types;
    unsigned long long flags;
} driver_multicast_prop;

typedef struct driver_ipc_memory {
    char bytes[64];
} driver_ipc_memory;

typedef struct driver_ipc_event {
    char bytes[64];
} driver_ipc_event;

typedef struct driver_edge {
    unsigned char from_port, to_port, type, reserved[5];
} driver_edge;

/* A part of a device: its compute units. */
typedef struct driver_resource {
    _Alignas(8) driver_resource_type type;
    unsigned char padding[92];
    unsigned unit_count;
    unsigned units_min;
    unsigned units_step;
    unsigned char reserved[36];
} driver_resource;

/* Numbers that both APIs share: name, value, CUDA's name, HIP's name. NONE where
 * an API has no name for it. */
#define DRIVER_NUMBER_MAP(N)                                                                    \
    N(DRIVER_SUCCESS, 0, CUDA_SUCCESS, hipSuccess)                                              \
    N(DRIVER_INVALID_VALUE, 1, CUDA_ERROR_INVALID_VALUE, hipErrorInvalidValue)                  \
    N(DRIVER_OUT_OF_MEMORY, 2, CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory)                   \
    N(DRIVER_NOT_INITIALIZED, 3, CUDA_ERROR_NOT_INITIALIZED, hipErrorNotInitialized)            \
    N(DRIVER_DEINITIALIZED, 4, CUDA_ERROR_DEINITIALIZED, hipErrorDeinitialized)                 \
    N(DRIVER_STUB_LIBRARY, 34, CUDA_ERROR_STUB_LIBRARY, NONE)                                   \
    N(DRIVER_NO_DEVICE, 100, CUDA_ERROR_NO_DEVICE, hipErrorNoDevice)                            \
    N(DRIVER_INVALID_DEVICE, 101, CUDA_ERROR_INVALID_DEVICE, hipErrorInvalidDevice)             \
    N(DRIVER_INVALID_CONTEXT, 201, CUDA_ERROR_INVALID_CONTEXT, hipErrorInvalidContext)          \
    N(DRIVER_PEER_UNSUPPORTED, 217, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,                         \
      hipErrorPeerAccessUnsupported)                                                            \
    N(DRIVER_INVALID_HANDLE, 400, CUDA_ERROR_INVALID_HANDLE, hipErrorInvalidHandle)             \
    N(DRIVER_ILLEGAL_STATE, 401, CUDA_ERROR_ILLEGAL_STATE, hipErrorIllegalState)                \
    N(DRIVER_NOT_FOUND, 500, CUDA_ERROR_NOT_FOUND, hipErrorNotFound)                            \
    N(DRIVER_NOT_READY, 600, CUDA_ERROR_NOT_READY, hipErrorNotReady)                            \
    N(DRIVER_PEER_ALREADY, 704, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,                         \
      hipErrorPeerAccessAlreadyEnabled)                                                         \
    N(DRIVER_HOST_ALREADY, 712, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,                      \
      hipErrorHostMemoryAlreadyRegistered)                                                      \
    N(DRIVER_HOST_UNKNOWN, 713, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,                          \
      hipErrorHostMemoryNotRegistered)                                                          \
    N(DRIVER_NOT_PERMITTED, 800, CUDA_ERROR_NOT_PERMITTED, NONE)                                \
    N(DRIVER_NOT_SUPPORTED, 801, CUDA_ERROR_NOT_SUPPORTED, hipErrorNotSupported)                \
    N(DRIVER_CAPTURE_UNSUPPORTED, 900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,                   \
      hipErrorStreamCaptureUnsupported)                                                         \
    N(DRIVER_CAPTURED_EVENT, 907, CUDA_ERROR_CAPTURED_EVENT, hipErrorCapturedEvent)             \
    N(DRIVER_CAPTURE_WRONG_THREAD, 908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,                 \
      hipErrorStreamCaptureWrongThread)                                                         \
    N(DRIVER_STREAM_NON_BLOCKING, 1, CU_STREAM_NON_BLOCKING, hipStreamNonBlocking)              \
    N(DRIVER_EVENT_NO_TIMING, 2, CU_EVENT_DISABLE_TIMING, hipEventDisableTiming)                \
    N(DRIVER_EVENT_SHARED, 4, CU_EVENT_INTERPROCESS, hipEventInterprocess)                      \
    N(DRIVER_HOST_PORTABLE, 1, CU_MEMHOSTALLOC_PORTABLE, hipHostMallocPortable)                 \
    N(DRIVER_HOST_MAPPED, 2, CU_MEMHOSTALLOC_DEVICEMAP, hipHostMallocMapped)                    \
    N(DRIVER_REGISTER_PORTABLE, 1, CU_MEMHOSTREGISTER_PORTABLE, hipHostRegisterPortable)        \
    N(DRIVER_REGISTER_MAPPED, 2, CU_MEMHOSTREGISTER_DEVICEMAP, hipHostRegisterMapped)           \
    N(DRIVER_IPC_LAZY_PEERS, 1, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, NONE) /* 0 in HIP 5 */      \
    N(DRIVER_POINTER_MEMORY_TYPE, 2, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,                          \
      HIP_POINTER_ATTRIBUTE_MEMORY_TYPE)                                                        \
    N(DRIVER_POINTER_DEVICE, 9, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,                            \
      HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL)                                                     \
    N(DRIVER_POINTER_BASE, 11, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,                           \
      HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR)                                                   \
    N(DRIVER_POINTER_BYTES, 12, CU_POINTER_ATTRIBUTE_RANGE_SIZE,                                \
      HIP_POINTER_ATTRIBUTE_RANGE_SIZE)                                                         \
    N(DRIVER_MEMORY_PINNED, 1, CU_MEM_ALLOCATION_TYPE_PINNED, hipMemAllocationTypePinned)       \
    N(DRIVER_LOCATION_DEVICE, 1, CU_MEM_LOCATION_TYPE_DEVICE, hipMemLocationTypeDevice)         \
    N(DRIVER_HANDLE_NONE, 0, CU_MEM_HANDLE_TYPE_NONE, hipMemHandleTypeNone)                     \
    N(DRIVER_HANDLE_POSIX, 1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,                         \
      hipMemHandleTypePosixFileDescriptor)                                                      \
    N(DRIVER_HANDLE_FABRIC, 8, CU_MEM_HANDLE_TYPE_FABRIC, NONE)                                 \
    N(DRIVER_ACCESS_NONE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE, hipMemAccessFlagsProtNone)          \
    N(DRIVER_ACCESS_READ, 1, CU_MEM_ACCESS_FLAGS_PROT_READ, hipMemAccessFlagsProtRead)          \
    N(DRIVER_ACCESS_READ_WRITE, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,                          \
      hipMemAccessFlagsProtReadWrite)                                                           \
    N(DRIVER_GRANULARITY_MINIMUM, 0, CU_MEM_ALLOC_GRANULARITY_MINIMUM,                          \
      hipMemAllocationGranularityMinimum)                                                       \
    N(DRIVER_MULTICAST_MINIMUM, 0, CU_MULTICAST_GRANULARITY_MINIMUM, NONE)                      \
    N(DRIVER_WAIT_GEQ, 0, CU_STREAM_WAIT_VALUE_GEQ, hipStreamWaitValueGte)                      \
    N(DRIVER_WAIT_EQ, 1, CU_STREAM_WAIT_VALUE_EQ, hipStreamWaitValueEq)                         \
    N(DRIVER_WAIT_AND, 2, CU_STREAM_WAIT_VALUE_AND, hipStreamWaitValueAnd)                      \
    N(DRIVER_WAIT_NOR, 3, CU_STREAM_WAIT_VALUE_NOR, hipStreamWaitValueNor)                      \
    N(DRIVER_CAPTURE_NONE, 0, CU_STREAM_CAPTURE_STATUS_NONE, hipStreamCaptureStatusNone)        \
    N(DRIVER_CAPTURE_ACTIVE, 1, CU_STREAM_CAPTURE_STATUS_ACTIVE, hipStreamCaptureStatusActive)  \
    N(DRIVER_CAPTURE_INVALIDATED, 2, CU_STREAM_CAPTURE_STATUS_INVALIDATED,                      \
      hipStreamCaptureStatusInvalidated)                                                        \
    N(DRIVER_CAPTURE_RELAXED, 2, CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed)   \
    N(DRIVER_POOL_RELEASE_THRESHOLD, 4, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,                      \
      hipMemPoolAttrReleaseThreshold)                                                           \
    N(DRIVER_POOL_RESERVED, 5, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,                            \
      hipMemPoolAttrReservedMemCurrent)                                                         \
    N(DRIVER_POOL_RESERVED_PEAK, 6, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,                          \
      hipMemPoolAttrReservedMemHigh)                                                            \
    N(DRIVER_POOL_USED, 7, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, hipMemPoolAttrUsedMemCurrent)      \
    N(DRIVER_POOL_USED_PEAK, 8, CU_MEMPOOL_ATTR_USED_MEM_HIGH, hipMemPoolAttrUsedMemHigh)       \
    N(DRIVER_RESOURCE_UNITS, 1, CU_DEV_RESOURCE_TYPE_SM, NONE)                                  \
    N(DRIVER_GREEN_DEFAULT_STREAM, 1, CU_GREEN_CTX_DEFAULT_STREAM, NONE)

enum driver_number {
#define DRIVER_NUMBER(name, value, cuda, hip) name = (value),
    DRIVER_NUMBER_MAP(DRIVER_NUMBER)
#undef DRIVER_NUMBER
};

/* Numbers that differ: name, CUDA's value and name, HIP's value and name. -1 where
 * an API cannot be asked; a capability then follows from its entry points. */
#define DRIVER_ATTRIBUTE_MAP(A)                                                                 \
    A(units, 16, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 63,                                  \
      hipDeviceAttributeMultiprocessorCount)                                                    \
    A(virtual_memory, 102, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 89,         \
      hipDeviceAttributeVirtualMemoryManagementSupported)                                       \
    A(posix_handles, 103, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, -1,  \
      NONE)                                                                                     \
    A(pools, 115, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 88,                               \
      hipDeviceAttributeMemoryPoolsSupported)                                                   \
    A(fabric_handles, 128, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, -1, NONE)          \
    A(multicast, 132, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, -1, NONE)

/* What hipMemcpy needs to find the direction itself: hipMemcpyDefault. */
#define DRIVER_HIP_COPY_DEFAULT 4

#endif
