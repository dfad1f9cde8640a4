/* SPDX-License-Identifier: MIT */
/* Finding contexts and devices of the stand-ins. The books are locked around
 * context_find and context_primary. */
#ifndef TESTS_STANDIN_CONTEXT_H
#define TESTS_STANDIN_CONTEXT_H

#include "tests/standin/core.h"

/* An active context by its handle. */
CUresult context_find(CUcontext handle, struct context **out);
/* The primary context of a valid device, active or not. */
struct context *context_primary(int device);
int device_is_valid(CUdevice device);

/* The current device of a thread of a runtime without contexts. */
void runtime_set_device(int device);
int runtime_device(void);

#endif
