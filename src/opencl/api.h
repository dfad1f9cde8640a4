/* SPDX-License-Identifier: MIT */
/* What Acre calls of OpenCL, declared here: no header of OpenCL is needed.
 *
 * The library is found at run time. Entry points, constants and error codes are
 * lists, so that where CL/cl.h is installed the compiler compares each of them
 * with it (api.c), and so that tests can stand between (they replace pointers of
 * ocl). Once loaded the library stays: drivers keep threads that run its code.
 */
#ifndef SRC_OPENCL_API_H
#define SRC_OPENCL_API_H

#include <acre/base.h>

typedef int32_t ocl_int;
typedef uint32_t ocl_uint;
typedef uint64_t ocl_bits;
typedef struct _cl_platform_id *ocl_platform;
typedef struct _cl_device_id *ocl_device;
typedef struct _cl_context *ocl_context;
typedef struct _cl_command_queue *ocl_queue;
typedef struct _cl_mem *ocl_mem;
typedef struct _cl_event *ocl_event;
typedef struct _cl_program *ocl_program;
typedef struct _cl_kernel *ocl_kernel;

#define OCL_CONSTANT_MAP(C)                                                    \
    C(COMPLETE, 0)                                                             \
    C(TRUE, 1)                                                                 \
    C(FALSE, 0)                                                                \
    C(DEVICE_TYPE_CPU, 1 << 1)                                                 \
    C(DEVICE_TYPE_GPU, 1 << 2)                                                 \
    C(DEVICE_TYPE_ACCELERATOR, 1 << 3)                                         \
    C(DEVICE_TYPE_ALL, 0xFFFFFFFFu)                                            \
    C(DEVICE_MAX_COMPUTE_UNITS, 0x1002)                                        \
    C(DEVICE_MAX_MEM_ALLOC_SIZE, 0x1010)                                       \
    C(DEVICE_GLOBAL_MEM_SIZE, 0x101F)                                          \
    C(DEVICE_AVAILABLE, 0x1027)                                                \
    C(DEVICE_EXECUTION_CAPABILITIES, 0x1029)                                   \
    C(DEVICE_NAME, 0x102B)                                                     \
    C(DEVICE_SVM_CAPABILITIES, 0x1053)                                         \
    C(DEVICE_SVM_COARSE_GRAIN_BUFFER, 1 << 0)                                  \
    C(DEVICE_SVM_FINE_GRAIN_BUFFER, 1 << 1)                                    \
    C(EXEC_NATIVE_KERNEL, 1 << 1)                                              \
    C(QUEUE_PROPERTIES, 0x1093)                                                \
    C(QUEUE_PROFILING_ENABLE, 1 << 1)                                          \
    C(MEM_READ_WRITE, 1 << 0)                                                  \
    C(MEM_USE_HOST_PTR, 1 << 3)                                                \
    C(MEM_SVM_FINE_GRAIN_BUFFER, 1 << 10)                                      \
    C(EVENT_COMMAND_EXECUTION_STATUS, 0x11D3)                                  \
    C(PROFILING_COMMAND_END, 0x1283)                                           \
    C(PROGRAM_BUILD_LOG, 0x1183)                                               \
    C(KERNEL_NUM_ARGS, 0x1191)

enum ocl_constant {
#define OCL_CONSTANT(name, value) OCL_##name = (value),
    OCL_CONSTANT_MAP(OCL_CONSTANT)
#undef OCL_CONSTANT
};

#define OCL_ERROR_MAP(C)                                                       \
    C(SUCCESS, 0)                                                              \
    C(DEVICE_NOT_FOUND, -1)                                                    \
    C(DEVICE_NOT_AVAILABLE, -2)                                                \
    C(COMPILER_NOT_AVAILABLE, -3)                                              \
    C(MEM_OBJECT_ALLOCATION_FAILURE, -4)                                       \
    C(OUT_OF_RESOURCES, -5)                                                    \
    C(OUT_OF_HOST_MEMORY, -6)                                                  \
    C(PROFILING_INFO_NOT_AVAILABLE, -7)                                        \
    C(MEM_COPY_OVERLAP, -8)                                                    \
    C(BUILD_PROGRAM_FAILURE, -11)                                              \
    C(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14)                          \
    C(INVALID_VALUE, -30)                                                      \
    C(INVALID_PLATFORM, -32)                                                   \
    C(INVALID_DEVICE, -33)                                                     \
    C(INVALID_CONTEXT, -34)                                                    \
    C(INVALID_QUEUE_PROPERTIES, -35)                                           \
    C(INVALID_COMMAND_QUEUE, -36)                                              \
    C(INVALID_HOST_PTR, -37)                                                   \
    C(INVALID_MEM_OBJECT, -38)                                                 \
    C(INVALID_BUILD_OPTIONS, -43)                                              \
    C(INVALID_PROGRAM, -44)                                                    \
    C(INVALID_PROGRAM_EXECUTABLE, -45)                                         \
    C(INVALID_KERNEL_NAME, -46)                                                \
    C(INVALID_KERNEL_DEFINITION, -47)                                          \
    C(INVALID_KERNEL, -48)                                                     \
    C(INVALID_ARG_INDEX, -49)                                                  \
    C(INVALID_ARG_VALUE, -50)                                                  \
    C(INVALID_ARG_SIZE, -51)                                                   \
    C(INVALID_KERNEL_ARGS, -52)                                                \
    C(INVALID_WORK_DIMENSION, -53)                                             \
    C(INVALID_WORK_GROUP_SIZE, -54)                                            \
    C(INVALID_WORK_ITEM_SIZE, -55)                                             \
    C(INVALID_GLOBAL_OFFSET, -56)                                              \
    C(INVALID_EVENT_WAIT_LIST, -57)                                            \
    C(INVALID_EVENT, -58)                                                      \
    C(INVALID_OPERATION, -59)                                                  \
    C(INVALID_BUFFER_SIZE, -61)                                                \
    C(INVALID_GLOBAL_WORK_SIZE, -63)

enum ocl_error {
#define OCL_CONSTANT(name, value) OCL_##name = (value),
    OCL_ERROR_MAP(OCL_CONSTANT)
#undef OCL_CONSTANT
};

/* The error of a loader without any driver; cl_ext.h has it. */
#define OCL_PLATFORM_NOT_FOUND (-1001)

/* Entry points: E(kind, result, name, parameters, arguments). Kinds:
 *   STATUS  answers an error code
 *   ENQUEUE the same, and its last parameter takes an event, or is NULL
 *   RELEASE, RETAIN  the same; drops or takes one reference
 *   OBJECT  answers an object or NULL, the code goes to its last parameter
 *   MEMORY  answers memory or NULL
 *   NOTHING answers nothing
 */
#define OCL_WAITS ocl_uint wait_count, const ocl_event *waits, ocl_event *out_event
#define OCL_WAIT_ARGS wait_count, waits, out_event

#define OCL_ASK_MAP(E)                                                         \
    E(STATUS, ocl_int, GetPlatformIDs,                                         \
      (ocl_uint count, ocl_platform *out, ocl_uint *out_count), (count, out, out_count)) \
    E(STATUS, ocl_int, GetDeviceIDs,                                           \
      (ocl_platform platform, ocl_bits kinds, ocl_uint count, ocl_device *out, \
       ocl_uint *out_count), (platform, kinds, count, out, out_count))         \
    E(STATUS, ocl_int, GetDeviceInfo,                                          \
      (ocl_device device, ocl_uint what, size_t bytes, void *out, size_t *out_bytes), \
      (device, what, bytes, out, out_bytes))                                   \
    E(STATUS, ocl_int, GetEventInfo,                                           \
      (ocl_event event, ocl_uint what, size_t bytes, void *out, size_t *out_bytes), \
      (event, what, bytes, out, out_bytes))                                    \
    E(STATUS, ocl_int, GetEventProfilingInfo,                                  \
      (ocl_event event, ocl_uint what, size_t bytes, void *out, size_t *out_bytes), \
      (event, what, bytes, out, out_bytes))                                    \
    E(STATUS, ocl_int, GetProgramBuildInfo,                                    \
      (ocl_program program, ocl_device device, ocl_uint what, size_t bytes, void *out, \
       size_t *out_bytes), (program, device, what, bytes, out, out_bytes))     \
    E(STATUS, ocl_int, GetKernelInfo,                                          \
      (ocl_kernel kernel, ocl_uint what, size_t bytes, void *out, size_t *out_bytes), \
      (kernel, what, bytes, out, out_bytes))

#define OCL_CREATE_MAP(E)                                                      \
    E(OBJECT, ocl_context, CreateContext,                                      \
      (const intptr_t *properties, ocl_uint count, const ocl_device *devices,  \
       void (*notify)(const char *, const void *, size_t, void *), void *user, \
       ocl_int *out_error), (properties, count, devices, notify, user, out_error)) \
    E(OBJECT, ocl_queue, CreateCommandQueueWithProperties,                     \
      (ocl_context context, ocl_device device, const ocl_bits *properties,     \
       ocl_int *out_error), (context, device, properties, out_error))          \
    E(OBJECT, ocl_event, CreateUserEvent, (ocl_context context, ocl_int *out_error), \
      (context, out_error))                                                    \
    E(OBJECT, ocl_mem, CreateBuffer,                                           \
      (ocl_context context, ocl_bits flags, size_t bytes, void *host, ocl_int *out_error), \
      (context, flags, bytes, host, out_error))                                \
    E(OBJECT, ocl_program, CreateProgramWithSource,                            \
      (ocl_context context, ocl_uint count, const char **texts, const size_t *lengths, \
       ocl_int *out_error), (context, count, texts, lengths, out_error))       \
    E(OBJECT, ocl_kernel, CreateKernel,                                        \
      (ocl_program program, const char *name, ocl_int *out_error), (program, name, out_error)) \
    E(RELEASE, ocl_int, ReleaseContext, (ocl_context context), (context))      \
    E(RELEASE, ocl_int, ReleaseCommandQueue, (ocl_queue queue), (queue))       \
    E(RELEASE, ocl_int, ReleaseEvent, (ocl_event event), (event))              \
    E(RELEASE, ocl_int, ReleaseMemObject, (ocl_mem memory), (memory))          \
    E(RELEASE, ocl_int, ReleaseProgram, (ocl_program program), (program))      \
    E(RELEASE, ocl_int, ReleaseKernel, (ocl_kernel kernel), (kernel))          \
    E(RETAIN, ocl_int, RetainCommandQueue, (ocl_queue queue), (queue))         \
    E(RETAIN, ocl_int, RetainEvent, (ocl_event event), (event))                \
    E(MEMORY, void *, SVMAlloc,                                                \
      (ocl_context context, ocl_bits flags, size_t bytes, ocl_uint alignment), \
      (context, flags, bytes, alignment))                                      \
    E(NOTHING, void, SVMFree, (ocl_context context, void *memory), (context, memory))

#define OCL_WORK_MAP(E)                                                        \
    E(STATUS, ocl_int, Flush, (ocl_queue queue), (queue))                      \
    E(STATUS, ocl_int, Finish, (ocl_queue queue), (queue))                     \
    E(STATUS, ocl_int, WaitForEvents, (ocl_uint count, const ocl_event *events), \
      (count, events))                                                         \
    E(STATUS, ocl_int, SetUserEventStatus, (ocl_event event, ocl_int status),  \
      (event, status))                                                         \
    E(STATUS, ocl_int, BuildProgram,                                           \
      (ocl_program program, ocl_uint count, const ocl_device *devices, const char *options, \
       void (*notify)(ocl_program, void *), void *user),                       \
      (program, count, devices, options, notify, user))                        \
    E(STATUS, ocl_int, SetKernelArg,                                           \
      (ocl_kernel kernel, ocl_uint index, size_t bytes, const void *value),    \
      (kernel, index, bytes, value))                                           \
    E(STATUS, ocl_int, SetKernelArgSVMPointer,                                 \
      (ocl_kernel kernel, ocl_uint index, const void *pointer), (kernel, index, pointer)) \
    E(ENQUEUE, ocl_int, EnqueueSVMMemcpy,                                      \
      (ocl_queue queue, ocl_uint is_blocking, void *dst, const void *src, size_t bytes, \
       OCL_WAITS), (queue, is_blocking, dst, src, bytes, OCL_WAIT_ARGS))       \
    E(ENQUEUE, ocl_int, EnqueueSVMMemFill,                                     \
      (ocl_queue queue, void *dst, const void *pattern, size_t pattern_bytes, size_t bytes, \
       OCL_WAITS), (queue, dst, pattern, pattern_bytes, bytes, OCL_WAIT_ARGS)) \
    E(ENQUEUE, ocl_int, EnqueueSVMFree,                                        \
      (ocl_queue queue, ocl_uint count, void *pointers[],                      \
       void (*free_them)(ocl_queue, ocl_uint, void *[], void *), void *user, OCL_WAITS), \
      (queue, count, pointers, free_them, user, OCL_WAIT_ARGS))                \
    E(ENQUEUE, ocl_int, EnqueueMarkerWithWaitList, (ocl_queue queue, OCL_WAITS), \
      (queue, OCL_WAIT_ARGS))                                                  \
    E(ENQUEUE, ocl_int, EnqueueBarrierWithWaitList, (ocl_queue queue, OCL_WAITS), \
      (queue, OCL_WAIT_ARGS))                                                  \
    E(ENQUEUE, ocl_int, EnqueueNativeKernel,                                   \
      (ocl_queue queue, void (*fn)(void *), void *args, size_t args_bytes,     \
       ocl_uint memory_count, const ocl_mem *memories, const void **places, OCL_WAITS), \
      (queue, fn, args, args_bytes, memory_count, memories, places, OCL_WAIT_ARGS)) \
    E(ENQUEUE, ocl_int, EnqueueNDRangeKernel,                                  \
      (ocl_queue queue, ocl_kernel kernel, ocl_uint dimensions, const size_t *offsets, \
       const size_t *global, const size_t *local, OCL_WAITS),                  \
      (queue, kernel, dimensions, offsets, global, local, OCL_WAIT_ARGS))

#define OCL_ENTRY_MAP(E) OCL_ASK_MAP(E) OCL_CREATE_MAP(E) OCL_WORK_MAP(E)

struct ocl_api {
#define OCL_ENTRY(kind, result, name, parameters, arguments) result(*name) parameters;
    OCL_ENTRY_MAP(OCL_ENTRY)
#undef OCL_ENTRY
};

/* The entry points; callable after api_open succeeded once. */
extern struct ocl_api ocl;

/* Finds the library, once per process; further calls do nothing.
 * Errors: ACRE_ERR_UNSUPPORTED says what is missing. */
acre_status api_open(void);

/* "CL_OUT_OF_RESOURCES", or "an unknown error". */
const char *api_error_name(ocl_int code);

/* Records that a call failed and gives the status for its code: host memory,
 * a bad argument, or the device. call has no "cl" in front. */
acre_status api_fail(const char *call, ocl_int code) __attribute__((cold));

#endif
