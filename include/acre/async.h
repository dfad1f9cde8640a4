/* SPDX-License-Identifier: MIT */
/** @file async.h
 *  @brief Memory in the order of streams, from the driver's own pools.
 *
 * The alternative to a cache that PyTorch calls `backend:cudaMallocAsync`: each
 * allocation and each free is queued on a stream, and the driver decides what is
 * used again when. acre_device_allocator() gives a stream-ordered allocator instead of one
 * of caches when the configuration says so and the devices have ACRE_CAP_ASYNC.
 *
 * A free goes to the stream of the allocation; when other streams were recorded, a
 * helper stream of the device waits for all of them and frees. Memory that was
 * allocated outside a capture is not freed inside one: the free is put off until
 * the next call after it. Snapshots, history, private pools, checkpoints and IPC
 * need a cache; they do not work on this memory.
 *
 * Threads: every call may come from any thread.
 *
 * Fork: see acre/base.h. In a child, calls on a device that the parent had started answer
 * ACRE_ERR_FORKED, unless the device works there (ACRE_BACKEND_FORK_SAFE).
 */
#ifndef ACRE_ASYNC_H
#define ACRE_ASYNC_H

#include <acre/allocator.h>

ACRE_BEGIN_DECLS

/** Makes an allocator of stream-ordered memory for all devices of a type.
 *
 * As every allocator it serves the thread's current device, and its current stream.
 * Reserved bytes in its statistics are what the driver tells, current and peak only.
 * Errors: ACRE_ERR_UNSUPPORTED (a device has no ACRE_CAP_ASYNC, or there is none),
 *         ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT (hundreds of
 *         allocators).
 */
ACRE_API acre_status acre_async_allocator_create(acre_device_type type, acre_allocator **out);

/** Allocates on a device and a native stream; later work of the stream may use it.
 *
 * Errors: ACRE_ERR_INVALID (another kind of allocator, 0 bytes), ACRE_ERR_RANGE,
 *         ACRE_ERR_DEVICE_MEMORY, ACRE_ERR_LIMIT (it would exceed the allowed
 *         memory; see acre_async_memory_fraction_set()).
 */
ACRE_API acre_status acre_async_alloc(acre_allocator *allocator, size_t bytes, int device,
                                      void *stream, void **out);

/** Frees in the order of the streams that use it. NULL is accepted.
 *  Errors: ACRE_ERR_INVALID (not from here). */
ACRE_API acre_status acre_async_free(acre_allocator *allocator, void *pointer);

/** A native stream uses an allocation too. Errors: ACRE_ERR_INVALID (not from here). */
ACRE_API acre_status acre_async_record_stream(acre_allocator *allocator, void *pointer,
                                              void *stream);

/** Limits what may be in use on a device to a part of its memory, above 0 and up to 1.
 *  Errors: ACRE_ERR_INVALID, ACRE_ERR_RANGE. */
ACRE_API acre_status acre_async_memory_fraction_set(acre_allocator *allocator, int device,
                                                    double fraction);

/** The size of an allocation that works at this moment, found by trying: *largest, or
 *  all free memory when that is 0, halved until it does.
 *  Errors: ACRE_ERR_INVALID, ACRE_ERR_RANGE. */
ACRE_API acre_status acre_async_info(acre_allocator *allocator, int device, uint64_t *largest);

ACRE_END_DECLS

#endif
