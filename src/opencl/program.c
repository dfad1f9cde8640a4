/* SPDX-License-Identifier: MIT */
/* Programs and kernels built from source. Arguments belong to a kernel object, so
 * that a lock around setting them and enqueueing makes launches whole. */
#include "opencl/opencl.h"

#include "base/heap.h"
#include "base/process/fork.h"
#include "base/status.h"
#include "base/text.h"

#include <string.h>

struct acre_opencl_program {
    struct opencl *self;
    unsigned fork_generation; /* of the process that made it */
    int device;
    ocl_program program;
};

struct acre_opencl_kernel {
    struct opencl *self;
    unsigned fork_generation; /* of the process that made its program */
    int device;
    ocl_kernel kernel;
    ocl_uint arg_count;
    struct lock lock; /* from the first argument until it is enqueued */
};

/* ACRE_ERR_FORKED in a child of the process that made a program: drivers do not work there. */
static acre_status child_refuse(unsigned generation, const char *call)
{
    if (generation == fork_generation())
        return ACRE_OK;
    return status_fail(ACRE_ERR_FORKED,
                       "%s: the program was built before fork and does not work in the child; "
                       "build it there, with a backend that was started there",
                       call);
}

acre_status acre_opencl_native_get(acre_device *device, acre_opencl_native *out)
{
    struct opencl *cl;
    acre_status status = opencl_of(device, &cl);

    if (status == ACRE_OK && !out)
        status = status_fail(ACRE_ERR_INVALID, "acre_opencl_native_get: out is NULL");
    if (status != ACRE_OK)
        return status;
    *out = (acre_opencl_native){
        .platform = cl->platforms[cl->devices[device->index].platform].id,
        .context = opencl_context(cl, device->index),
        .device = cl->devices[device->index].id,
    };
    return ACRE_OK;
}

acre_status acre_opencl_queue(acre_device *device, void *handle, void **out_queue)
{
    struct opencl *cl;
    struct stream *stream = NULL;
    acre_status status = opencl_of(device, &cl);

    if (status == ACRE_OK && !out_queue)
        status = status_fail(ACRE_ERR_INVALID, "acre_opencl_queue: out_queue is NULL");
    if (status == ACRE_OK)
        status = stream_enter(cl, device->index, handle, &stream);
    if (status != ACRE_OK)
        return status;
    stream->is_lent = true;
    *out_queue = stream->queue;
    lock_drop(&stream->lock);
    return ACRE_OK;
}

/* ---- Programs ------------------------------------------------------------------------------- */

/* Fails with the words of the compiler, as many as fit, in one line. */
static acre_status build_fail(const struct acre_opencl_program *program, ocl_int code)
{
    char log[800] = "";
    size_t bytes = 0;
    ocl_device device = program->self->devices[program->device].id;

    if (ocl.GetProgramBuildInfo(program->program, device, OCL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            OCL_SUCCESS &&
        bytes > 0) {
        char *whole = heap_zalloc(bytes + 1);

        if (whole && ocl.GetProgramBuildInfo(program->program, device, OCL_PROGRAM_BUILD_LOG, bytes,
                                             whole, NULL) == OCL_SUCCESS)
            strncpy(log, whole, sizeof log - 1);
        heap_free(whole);
    }
    for (char *at = log; *at; at++)
        *at = *at == '\n' || *at == '\t' ? ' ' : *at;
    if (code == OCL_OUT_OF_HOST_MEMORY || !*log)
        return api_fail("BuildProgram", code);
    return status_fail_native(ACRE_ERR_INVALID, code, "OpenCL: the program does not compile: %s",
                              log);
}

static acre_status program_create(struct acre_opencl_program *program, const char *source,
                                  const char *options)
{
    struct opencl *cl = program->self;
    ocl_int code = OCL_SUCCESS;

    program->program =
        ocl.CreateProgramWithSource(opencl_context(cl, program->device), 1, &source, NULL, &code);
    if (!program->program)
        return api_fail("CreateProgramWithSource", code);
    code = ocl.BuildProgram(program->program, 1, &cl->devices[program->device].id,
                            options ? options : "", NULL, NULL);
    return code == OCL_SUCCESS ? ACRE_OK : build_fail(program, code);
}

acre_status acre_opencl_program_build(acre_device *device, const char *source, const char *options,
                                      acre_opencl_program **out)
{
    struct opencl *cl;
    acre_opencl_program *program;
    acre_status status = opencl_of(device, &cl);

    if (status == ACRE_OK && (!source || !out))
        status = status_fail(ACRE_ERR_INVALID, "acre_opencl_program_build: %s is NULL",
                             source ? "out" : "source");
    if (status != ACRE_OK)
        return status;
    program = heap_zalloc(sizeof *program);
    if (!program)
        return ACRE_ERR_HOST_MEMORY;
    program->self = cl;
    program->fork_generation = fork_generation();
    program->device = device->index;
    status = program_create(program, source, options);
    if (status == ACRE_OK)
        *out = program;
    else
        acre_opencl_program_destroy(program);
    return status;
}

void acre_opencl_program_destroy(acre_opencl_program *program)
{
    if (!program)
        return;
    if (program->program && program->fork_generation == fork_generation())
        ocl.ReleaseProgram(program->program);
    heap_free(program);
}

/* ---- Kernels -------------------------------------------------------------------------------- */

acre_status acre_opencl_kernel_create(acre_opencl_program *program, const char *name,
                                      acre_opencl_kernel **out)
{
    acre_opencl_kernel *kernel;
    ocl_int code = OCL_SUCCESS;
    acre_status status = ACRE_OK;

    if (!program || !name || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_opencl_kernel_create: %s is NULL",
                           !program ? "program"
                           : name   ? "out"
                                    : "name");
    status = child_refuse(program->fork_generation, "acre_opencl_kernel_create");
    if (status != ACRE_OK)
        return status;
    kernel = heap_zalloc(sizeof *kernel);
    if (!kernel)
        return ACRE_ERR_HOST_MEMORY;
    kernel->self = program->self;
    kernel->fork_generation = program->fork_generation;
    kernel->device = program->device;
    kernel->kernel = ocl.CreateKernel(program->program, name, &code);
    if (!kernel->kernel)
        status = code == OCL_INVALID_KERNEL_NAME
                     ? status_fail_native(ACRE_ERR_NOT_FOUND, code,
                                          "OpenCL: the program has no kernel \"%s\"", name)
                     : api_fail("CreateKernel", code);
    if (status == ACRE_OK) {
        code = ocl.GetKernelInfo(kernel->kernel, OCL_KERNEL_NUM_ARGS, sizeof kernel->arg_count,
                                 &kernel->arg_count, NULL);
        if (code != OCL_SUCCESS)
            status = api_fail("GetKernelInfo", code);
    }
    lock_init(&kernel->lock, RANK_RUNTIME, "opencl kernel");
    if (status == ACRE_OK)
        *out = kernel;
    else
        acre_opencl_kernel_destroy(kernel);
    return status;
}

void acre_opencl_kernel_destroy(acre_opencl_kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->kernel && kernel->fork_generation == fork_generation())
        ocl.ReleaseKernel(kernel->kernel);
    lock_fini(&kernel->lock);
    heap_free(kernel);
}

/* ---- Launches ------------------------------------------------------------------------------- */

static acre_status arg_set(acre_opencl_kernel *kernel, ocl_uint index, const acre_opencl_arg *arg)
{
    const char *call = "SetKernelArg";
    ocl_int code;

    if (arg->kind == ACRE_OPENCL_POINTER && arg->value) {
        call = "SetKernelArgSVMPointer";
        code = ocl.SetKernelArgSVMPointer(kernel->kernel, index, arg->value);
    } else if (arg->kind == ACRE_OPENCL_POINTER) {
        code = ocl.SetKernelArg(kernel->kernel, index, sizeof(ocl_mem), NULL);
    } else {
        code = ocl.SetKernelArg(kernel->kernel, index, arg->bytes,
                                arg->kind == ACRE_OPENCL_VALUE ? arg->value : NULL);
    }
    return code == OCL_SUCCESS ? ACRE_OK : api_fail(call, code);
}

static acre_status arg_check(const acre_opencl_kernel *kernel, ocl_uint index,
                             const acre_opencl_arg *arg)
{
    switch (arg->kind) {
    case ACRE_OPENCL_POINTER:
        if (!arg->value || memory_is_reached(kernel->self, kernel->device, arg->value, 1))
            return ACRE_OK;
        return status_fail(ACRE_ERR_INVALID,
                           "acre_opencl_launch: argument %u, %p, is not device memory that %s "
                           "reaches; allocate it with Acre on a device of the same platform",
                           index, arg->value, kernel->self->devices[kernel->device].name);
    case ACRE_OPENCL_VALUE:
        if (arg->value && arg->bytes > 0)
            return ACRE_OK;
        break;
    case ACRE_OPENCL_LOCAL:
        if (!arg->value && arg->bytes > 0)
            return ACRE_OK;
        break;
    }
    return status_fail(ACRE_ERR_INVALID,
                       "acre_opencl_launch: argument %u of kind %d has %zu bytes at %p", index,
                       (int)arg->kind, arg->bytes, arg->value);
}

static ocl_uint dimensions_of(const acre_opencl_range *range)
{
    ocl_uint count = 0;

    while (count < 3 && range->global[count] > 0)
        count++;
    return count;
}

static acre_status launch_check(const acre_opencl_kernel *kernel, const acre_opencl_range *range,
                                const acre_opencl_arg *args, uint32_t arg_count)
{
    acre_status status = ACRE_OK;

    if (!kernel || !range || (arg_count > 0 && !args))
        return status_fail(ACRE_ERR_INVALID, "acre_opencl_launch: %s is NULL",
                           !kernel ? "kernel"
                           : range ? "args"
                                   : "range");
    status = child_refuse(kernel->fork_generation, "acre_opencl_launch");
    if (status != ACRE_OK)
        return status;
    if (arg_count != kernel->arg_count)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_opencl_launch: the kernel takes %u argument%s, not %u",
                           kernel->arg_count, text_plural(kernel->arg_count), arg_count);
    if (dimensions_of(range) == 0)
        return status_fail(ACRE_ERR_INVALID, "acre_opencl_launch: global[0] is 0; give at least "
                                             "one work item");
    for (ocl_uint i = 0; status == ACRE_OK && i < arg_count; i++)
        status = arg_check(kernel, i, &args[i]);
    return status;
}

static acre_status enqueue_locked(acre_opencl_kernel *kernel, void *handle,
                                  const acre_opencl_range *range)
{
    bool has_local = range->local[0] || range->local[1] || range->local[2];
    struct stream *stream = NULL;
    ocl_event event = NULL;
    ocl_int code;
    acre_status status = stream_enter(kernel->self, kernel->device, handle, &stream);

    if (status != ACRE_OK)
        return status;
    code =
        ocl.EnqueueNDRangeKernel(stream->queue, kernel->kernel, dimensions_of(range), NULL,
                                 range->global, has_local ? range->local : NULL, 0, NULL, &event);
    return stream_leave(stream, "EnqueueNDRangeKernel", code, event);
}

acre_status acre_opencl_launch(acre_opencl_kernel *kernel, void *stream,
                               const acre_opencl_range *range, const acre_opencl_arg *args,
                               uint32_t arg_count)
{
    acre_status status = launch_check(kernel, range, args, arg_count);

    if (status != ACRE_OK)
        return status;
    lock_take(&kernel->lock);
    for (ocl_uint i = 0; status == ACRE_OK && i < arg_count; i++)
        status = arg_set(kernel, i, &args[i]);
    if (status == ACRE_OK)
        status = enqueue_locked(kernel, stream, range);
    lock_drop(&kernel->lock);
    return status;
}
