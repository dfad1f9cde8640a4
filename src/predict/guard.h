/* SPDX-License-Identifier: MIT */
/* CUDA devices that PyTorch believes in, without CUDA and without a compiler.
 *
 * PyTorch asks two objects about its devices: a device guard (which device and which
 * stream is current on this thread) and the hooks of CUDA (how many devices there
 * are, which libraries). A build of PyTorch for CPUs has no guard, and hooks that
 * say "none". This file makes both in C: an object whose first word points to a
 * table of functions, in the order of PyTorch 2.13's headers
 * (c10/core/impl/DeviceGuardImplInterface.h, ATen/detail/CUDAHooksInterface.h).
 * The caller checks the version of PyTorch before it hands them over.
 *
 * Threads: any. The current device and stream belong to the calling thread.
 */
#ifndef SRC_PREDICT_GUARD_H
#define SRC_PREDICT_GUARD_H

#include <acre/base.h>

#include <stdint.h>

/* Most devices that can be shown. */
#define PREDICT_DEVICES_MAX 64

/* The guard, for c10::impl::registerDeviceGuard. It is never destroyed. */
ACRE_API const void *acre_predict_guard(int device_count);

/* Replaces the table of PyTorch's hooks object by one that shows devices and cuDNN, and has
 * allocator (PyTorch's own for the host) give page-locked memory. table_bytes is the size of
 * the object's own table, as the symbol table of PyTorch's library tells it. Returns 0, or -1
 * when that size is not the known one; nothing has changed then. */
ACRE_API int acre_predict_hooks(void *hooks, uint64_t table_bytes, long cudnn_version,
                                void *allocator);

/* The calling thread's current device, and its current stream on a device. */
ACRE_API int acre_predict_device(void);
ACRE_API void acre_predict_device_set(int device);
ACRE_API int64_t acre_predict_stream(int device);
ACRE_API void acre_predict_stream_set(int device, int64_t stream);

/* Whether streams say that they are being captured into a graph. */
ACRE_API void acre_predict_capturing_set(int capturing);

#endif
