/* SPDX-License-Identifier: MIT */
/* The backends that come with the library. Each function registers one.
 *
 * One that cannot be had here answers ACRE_ERR_UNSUPPORTED and says why with
 * status_fail, in one line: "acre devices" prints that line and nothing else.
 * It leaves nothing behind then, and is asked again at the next use.
 */
#ifndef SRC_BACKEND_BUILTIN_H
#define SRC_BACKEND_BUILTIN_H

#include <acre/backend.h>

/* The reference device, configured by ACRE_SIM. */
acre_status sim_start(acre_backend **out);

/* The CUDA driver, and the HIP runtime: libraries found at run time. */
acre_status cuda_start(acre_backend **out);
acre_status hip_start(acre_backend **out);

/* Host memory as a device. */
acre_status host_start(acre_backend **out);

/* OpenCL devices with shared virtual memory, configured by ACRE_OPENCL. */
acre_status opencl_start(acre_backend **out);

#endif
