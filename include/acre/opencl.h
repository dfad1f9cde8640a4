/* SPDX-License-Identifier: MIT */
/** @file opencl.h
 *  @brief What users of the backend "opencl" need beside device.h: the objects of
 *  OpenCL behind devices and streams, and kernels built from source.
 *
 * Memory of an OpenCL device, from a cache or straight from acre_device_alloc(),
 * is shared virtual memory: kernels get any address inside it as an argument.
 * Handles of OpenCL (cl_context and so on) are void * here, so that no header of
 * OpenCL is needed; cast them where you include CL/cl.h.
 *
 * The environment variable ACRE_OPENCL sets the backend up, for example
 * "kind:gpu,memory:4GiB,grain:fine": which devices (all, cpu, gpu, accelerator),
 * how much of each at most, and whether memory is coarse-grained (the default;
 * the host goes through copies) or fine-grained (the host may touch it too).
 *
 * Fork: see acre/base.h. In a child, calls on a device that the parent had started answer
 * ACRE_ERR_FORKED, unless the device works there (ACRE_BACKEND_FORK_SAFE).
 */
#ifndef ACRE_OPENCL_H
#define ACRE_OPENCL_H

#include <acre/device.h>

ACRE_BEGIN_DECLS

/** What OpenCL calls a device of the backend. Owned by the backend. */
typedef struct acre_opencl_native {
    void *platform; /**< cl_platform_id                                        */
    void *context;  /**< cl_context, one for all devices of the platform       */
    void *device;   /**< cl_device_id                                          */
} acre_opencl_native;

/** Gives the objects of OpenCL behind a device.
 *
 * Errors: ACRE_ERR_INVALID (NULL, or no device of this backend).
 */
ACRE_API acre_status acre_opencl_native_get(acre_device *device, acre_opencl_native *out);

/** Gives the cl_command_queue of a stream, for work that is enqueued directly.
 *
 * The queue is in order and belongs to the stream. Events recorded on the
 * stream, its synchronize and the return of memory wait for that work as for any
 * other. acre_stream_native_query() needs two calls from now on: it tells about
 * what was enqueued before the call before.
 * Errors: ACRE_ERR_INVALID (no stream of that device).
 */
ACRE_API acre_status acre_opencl_queue(acre_device *device, void *stream, void **out_queue);

/** A program built for a device. Threads: any. */
typedef struct acre_opencl_program acre_opencl_program;

/** Builds OpenCL C source; options as for clBuildProgram, or NULL.
 *
 * The device's backend must outlive the program.
 * Errors: ACRE_ERR_INVALID (the source does not compile; the last error holds
 *         the compiler's words), ACRE_ERR_HOST_MEMORY, ACRE_ERR_DEVICE.
 */
ACRE_API acre_status acre_opencl_program_build(acre_device *device, const char *source,
                                               const char *options, acre_opencl_program **out);
/** Drops a program; its kernels live on. NULL is accepted. */
ACRE_API void acre_opencl_program_destroy(acre_opencl_program *program);

/** A kernel of a program. Threads: any; launches of one kernel take turns. */
typedef struct acre_opencl_kernel acre_opencl_kernel;

/** Finds a kernel by its name.
 *
 * Errors: ACRE_ERR_NOT_FOUND (the program has no such kernel), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_opencl_kernel_create(acre_opencl_program *program, const char *name,
                                               acre_opencl_kernel **out);
/** Drops a kernel; launches under way finish. NULL is accepted. */
ACRE_API void acre_opencl_kernel_destroy(acre_opencl_kernel *kernel);

/** What an argument of a kernel is. */
typedef enum acre_opencl_arg_kind {
    ACRE_OPENCL_POINTER = 0, /**< A __global pointer: an address in device memory, or NULL. */
    ACRE_OPENCL_VALUE = 1,   /**< bytes at value, copied.                                   */
    ACRE_OPENCL_LOCAL = 2,   /**< A __local pointer to bytes of it; value is NULL.          */
} acre_opencl_arg_kind;

/** One argument of a kernel. */
typedef struct acre_opencl_arg {
    acre_opencl_arg_kind kind; /**< What it is.                                     */
    const void *value;         /**< The pointer itself, or where the value lies.    */
    size_t bytes;              /**< Of the value or local memory; 0 for pointers.   */
} acre_opencl_arg;

/** How many work items, in up to three dimensions. */
typedef struct acre_opencl_range {
    size_t global[3]; /**< Work items per dimension; a 0 ends the list.               */
    size_t local[3];  /**< Work items per group; all 0: the driver chooses.           */
} acre_opencl_range;

/** Queues a kernel on a stream of the device it was built for.
 *
 * Pointers may lie anywhere inside memory of the device, or of another one of
 * the same platform; what they point to must stay until the kernel has run.
 * Pointers that are stored in memory, not given here, are for kernels launched
 * through acre_opencl_queue().
 * Errors: ACRE_ERR_INVALID (a number of arguments that is not the kernel's, a
 *         pointer to anything else, sizes that OpenCL refuses), ACRE_ERR_DEVICE.
 */
ACRE_API acre_status acre_opencl_launch(acre_opencl_kernel *kernel, void *stream,
                                        const acre_opencl_range *range,
                                        const acre_opencl_arg *args, uint32_t arg_count);

ACRE_END_DECLS

#endif
