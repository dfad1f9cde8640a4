/* SPDX-License-Identifier: MIT */
/* Tensors without data: a block of a cache on a dry device, worn as a DLPack tensor.
 *
 * PyTorch takes the DLPack tensor, and calls its deleter when the last reference to
 * the storage is gone, on whichever thread that happens. So frees reach the cache in
 * the order in which PyTorch makes them, without the lock of the interpreter.
 *
 * The data pointer of a tensor is a handle, not an address: it cannot be touched,
 * and a storage finds its block again by it when it is resized.
 *
 * Threads: any.
 */
#ifndef SRC_PREDICT_TENSOR_H
#define SRC_PREDICT_TENSOR_H

#include <acre/acre.h>

/* Most dimensions of a tensor, and most streams of a device. */
#define PREDICT_DIMS_MAX    64
#define PREDICT_STREAMS_MAX 128

/* Makes the devices: one cache with policy "torch" on each, none of them limited in
 * memory, with a history of everything. conf may be NULL; resolve names the words
 * that acre_predict_frames_set() was given. Once in a process. */
ACRE_API acre_status acre_predict_open(int device_count, const char *conf,
                                       void (*resolve)(void *, uint64_t, acre_frame *));

/* The cache of a device, or NULL. */
ACRE_API acre_cache *acre_predict_cache(int device);

/* The stack that the calling thread's next allocations carry, innermost first. */
ACRE_API void acre_predict_frames_set(const uint64_t *frames, uint64_t count);

/* Allocates and frees directly: for memory that kernels use inside. NULL when it fails. */
ACRE_API void *acre_predict_alloc(int device, uint64_t bytes);
ACRE_API void acre_predict_free(int device, void *block);

/* A DLPack tensor (DLManagedTensor) on a device: dims has ndim sizes, then ndim strides.
 * NULL when it fails, and acre_last_error() says why. */
ACRE_API void *acre_predict_tensor(int device, uint64_t bytes, int code, int bits, int ndim,
                                   const int64_t *dims);

/* Changes how many bytes stand behind a tensor's data pointer; 0 frees its block.
 * Returns 0, or -1 when memory runs out. */
ACRE_API int acre_predict_resize(void *data, uint64_t bytes);

/* Tells that a stream of the tensor's device uses what stands behind a data pointer: its free
 * will wait for that stream. Other pointers are ignored. Returns 0, or -1 when host memory
 * runs out. */
ACRE_API int acre_predict_record(void *data, int64_t stream);

/* How many bytes stand behind a data pointer. */
ACRE_API uint64_t acre_predict_bytes(const void *data);

/* The block behind a data pointer: the address that histories show. */
ACRE_API void *acre_predict_block(const void *data);

#endif
