/* SPDX-License-Identifier: MIT */
#include "opencl/api.h"

#include "base/dl.h"
#include "base/status.h"

#include <string.h>

struct ocl_api ocl;

static const struct dl_symbol symbols[] = {
#define OCL_ENTRY(kind, result, name, parameters, arguments)                                       \
    {"cl" #name, NULL, offsetof(struct ocl_api, name), false},
    OCL_ENTRY_MAP(OCL_ENTRY)
#undef OCL_ENTRY
};

acre_status api_open(void)
{
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};
    static void *library; /* never closed; the start lock of the registry guards it */
    struct status_saved why;

    if (library ||
        dl_open(names, symbols, sizeof symbols / sizeof symbols[0], &ocl, &library) == ACRE_OK)
        return ACRE_OK;
    status_save(&why);
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "OpenCL is not there; install a loader and a driver (Debian: "
                       "ocl-icd-libopencl1, pocl-opencl-icd): %s",
                       why.text);
}

const char *api_error_name(ocl_int code)
{
    switch (code) {
#define OCL_ERROR_CASE(name, value)                                                                \
    case value:                                                                                    \
        return "CL_" #name;
        OCL_ERROR_MAP(OCL_ERROR_CASE)
#undef OCL_ERROR_CASE
    default:
        return "an unknown error";
    }
}

acre_status api_fail(const char *call, ocl_int code)
{
    acre_status status = ACRE_ERR_DEVICE;

    if (code == OCL_OUT_OF_HOST_MEMORY)
        status = ACRE_ERR_HOST_MEMORY;
    else if (code <= OCL_INVALID_VALUE && code > OCL_PLATFORM_NOT_FOUND)
        status = ACRE_ERR_INVALID;
    return status_fail_native(status, code, "OpenCL: cl%s answers %s (%d)", call,
                              api_error_name(code), (int)code);
}

/* ---- The vendor's header, where it is installed, must say the same ---------------- */

#if defined(__has_include)
#if __has_include(<CL/cl.h>)
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#ifdef CL_VERSION_2_0

#define OCL_SAME_VALUE(name, value)                                                                \
    _Static_assert(CL_##name == (value), "CL_" #name " has another value in CL/cl.h");
OCL_CONSTANT_MAP(OCL_SAME_VALUE)
OCL_ERROR_MAP(OCL_SAME_VALUE)
#undef OCL_SAME_VALUE

#define OCL_SAME_TYPE(kind, result, name, parameters, arguments)                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&cl##name), result(*) parameters),      \
                   "cl" #name " is declared differently in CL/cl.h");
OCL_ENTRY_MAP(OCL_SAME_TYPE)
#undef OCL_SAME_TYPE

#endif
#endif
#endif
