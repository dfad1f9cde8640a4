/* SPDX-License-Identifier: MIT */
/* Tests on OpenCL: wrappers around every entry point count what is alive and fail
 * a chosen call.
 *
 * They stand in the table that the backend calls through (opencl/api.h), so that
 * nothing of this is in the library. A failing call that takes back or completes
 * something does its work nevertheless: otherwise the driver would leak or wait
 * for ever.
 */
#ifndef TESTS_SUPPORT_OPENCL_BED_H
#define TESTS_SUPPORT_OPENCL_BED_H

#include <acre/acre.h>

#include <stdbool.h>

/* Starts the backend and puts the wrappers in. ACRE_ERR_UNSUPPORTED, with the
 * reason as the last error, where there is no OpenCL. */
acre_status bed_open(acre_backend **out);
/* The same; skips the test where there is no OpenCL. */
acre_backend *bed_begin(void);

/* What the driver seems to be like for backends opened from now on. */
enum bed_pretence {
    BED_TWO_PLATFORMS = 1, /* its platform twice, so that there are two contexts */
    BED_NO_FUNCTIONS = 2,  /* without native kernels                             */
};
void bed_pretend(unsigned pretences);

/* Objects of OpenCL and pieces of SVM that are alive. */
uint64_t bed_held(acre_backend *backend);

/* Makes the n-th call from now fail, 1 being the next. */
void bed_fail_nth(uint64_t nth);
/* Switches that off; names the call that failed since, or NULL. */
const char *bed_fail_disarm(void);

#endif
