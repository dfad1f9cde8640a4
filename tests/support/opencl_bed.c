/* SPDX-License-Identifier: MIT */
#include "tests/support/opencl_bed.h"

#include "opencl/api.h"
#include "tests/support/t.h"

#include <stdatomic.h>
#include <string.h>

static struct ocl_api real; /* what the library gave */
static _Atomic uint64_t held;
static _Atomic uint64_t calls_left; /* until the one that fails; 0: none does */
static const char *_Atomic failed;
static unsigned pretended; /* enum bed_pretence */

/* Whether this call is the one. */
static bool fails(const char *name)
{
    uint64_t left = atomic_load(&calls_left);

    while (left > 0 && !atomic_compare_exchange_weak(&calls_left, &left, left - 1))
        ;
    if (left == 1)
        atomic_store(&failed, name);
    return left == 1;
}

/* Of the calls that answer a code, these work also when they fail. */
static bool must_work(const char *name)
{
    return strcmp(name, "SetUserEventStatus") == 0;
}

#define WRAP_STATUS(result, name, parameters, arguments)                       \
    static result wrap_##name parameters                                       \
    {                                                                          \
        bool is_failing = fails(#name);                                        \
                                                                               \
        if (is_failing && !must_work(#name))                                   \
            return OCL_OUT_OF_RESOURCES;                                       \
        result code = real.name arguments;                                     \
        return is_failing ? OCL_OUT_OF_RESOURCES : code;                       \
    }
/* A call that gives something when it works. */
#define WRAP_GIVES(result, name, parameters, arguments, refusal, given)        \
    static result wrap_##name parameters                                       \
    {                                                                          \
        if (fails(#name))                                                      \
            return refusal;                                                    \
        result answer = real.name arguments;                                   \
        held += given;                                                         \
        return answer;                                                         \
    }
#define WRAP_ENQUEUE(result, name, parameters, arguments)                      \
    WRAP_GIVES(result, name, parameters, arguments, OCL_OUT_OF_RESOURCES,      \
               answer == OCL_SUCCESS && out_event)
#define WRAP_RETAIN(result, name, parameters, arguments)                       \
    WRAP_GIVES(result, name, parameters, arguments, OCL_OUT_OF_RESOURCES,      \
               answer == OCL_SUCCESS)
#define WRAP_OBJECT(result, name, parameters, arguments)                       \
    WRAP_GIVES(result, name, parameters, arguments,                            \
               (*out_error = OCL_OUT_OF_RESOURCES, NULL), answer != NULL)
#define WRAP_MEMORY(result, name, parameters, arguments)                       \
    WRAP_GIVES(result, name, parameters, arguments, NULL, answer != NULL)
#define WRAP_RELEASE(result, name, parameters, arguments)                      \
    static result wrap_##name parameters                                       \
    {                                                                          \
        bool is_failing = fails(#name);                                        \
        result code = real.name arguments;                                     \
                                                                               \
        held -= code == OCL_SUCCESS;                                           \
        return is_failing ? OCL_OUT_OF_RESOURCES : code;                       \
    }
#define WRAP_NOTHING(result, name, parameters, arguments)                      \
    static result wrap_##name parameters                                       \
    {                                                                          \
        real.name arguments;                                                   \
        held--;                                                                \
    }
#define WRAP(kind, result, name, parameters, arguments)                        \
    WRAP_##kind(result, name, parameters, arguments)
OCL_ENTRY_MAP(WRAP)

/* Memory that a queue frees is counted off when it is told to. */
static ocl_int free_enqueue(ocl_queue queue, ocl_uint count, void *pointers[],
                            void (*free_them)(ocl_queue, ocl_uint, void *[], void *), void *user,
                            OCL_WAITS)
{
    ocl_int code = wrap_EnqueueSVMFree(queue, count, pointers, free_them, user, OCL_WAIT_ARGS);

    held -= code == OCL_SUCCESS ? count : 0;
    return code;
}

static ocl_int platforms_get(ocl_uint count, ocl_platform *out, ocl_uint *out_count)
{
    ocl_int code = wrap_GetPlatformIDs(count, out, out_count);

    if (code == OCL_SUCCESS && (pretended & BED_TWO_PLATFORMS) && *out_count == 1 && count > 1) {
        out[1] = out[0];
        *out_count = 2;
    }
    return code;
}

static ocl_int device_info_get(ocl_device device, ocl_uint what, size_t bytes, void *out,
                               size_t *out_bytes)
{
    ocl_int code = wrap_GetDeviceInfo(device, what, bytes, out, out_bytes);

    if (what == OCL_DEVICE_EXECUTION_CAPABILITIES && (pretended & BED_NO_FUNCTIONS))
        *(ocl_bits *)out &= ~(ocl_bits)OCL_EXEC_NATIVE_KERNEL;
    return code;
}

static void wrappers_put(void)
{
    if (real.GetPlatformIDs)
        return;
    real = ocl;
#define PUT(kind, result, name, parameters, arguments) ocl.name = wrap_##name;
    OCL_ENTRY_MAP(PUT)
#undef PUT
    ocl.EnqueueSVMFree = free_enqueue;
    ocl.GetPlatformIDs = platforms_get;
    ocl.GetDeviceInfo = device_info_get;
}

void bed_pretend(unsigned pretences)
{
    pretended = pretences;
}

acre_status bed_open(acre_backend **out)
{
    acre_status status;

    setenv("ACRE_BACKENDS", "sim,host,opencl", 1);
    status = api_open();
    if (status != ACRE_OK)
        return status;
    wrappers_put();
    return acre_backend_find("opencl", out);
}

acre_backend *bed_begin(void)
{
    acre_backend *backend;
    acre_status status = bed_open(&backend);

    if (status == ACRE_ERR_UNSUPPORTED)
        T_SKIP("%s", acre_last_error());
    REQUIRE_OK(status);
    return backend;
}

uint64_t bed_held(acre_backend *backend)
{
    (void)backend;
    return held;
}

void bed_fail_nth(uint64_t nth)
{
    atomic_store(&failed, NULL);
    atomic_store(&calls_left, nth);
}

const char *bed_fail_disarm(void)
{
    atomic_store(&calls_left, 0);
    return atomic_load(&failed);
}
