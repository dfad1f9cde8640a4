/* SPDX-License-Identifier: MIT */
/* Device memory as the rest of the glue uses it. */
#pragma once

#include "device/runtime.h"

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

namespace acre_torch {

/* The allocator that is registered for the device. */
TORCH_ACRE_API c10::Allocator *allocator_get();

/* Memory of a device for its current stream; NULL for 0 bytes. Throws OutOfMemoryError with
 * Acre's report. Give it back with memory_free(), on any thread. */
TORCH_ACRE_API void *memory_allocate(size_t bytes, int index);
TORCH_ACRE_API void memory_free(void *pointer);

/* Lets every thread but the calling one wait for ever in its next allocation; for the end of
 * the interpreter. */
TORCH_ACRE_API void threads_park();

/* The deleter of the data pointers of this allocator, and whether one has it. */
TORCH_ACRE_API c10::DeleterFnPtr memory_deleter();
TORCH_ACRE_API bool memory_is_ours(const c10::DataPtr &pointer);

/* Keeps memory until work that is queued on a stream is done. Foreign memory is ignored. */
TORCH_ACRE_API void memory_record_stream(const c10::DataPtr &pointer,
                                         const c10::Stream &stream);

/* Queues a copy between two pieces of memory of a device; devices that have no copies of
 * their own are host memory, and the host copies. */
TORCH_ACRE_API void memory_copy_within(int index, void *to, const void *from, size_t bytes);

/* Gives a storage another size; what fits of its contents is kept. The old memory stays until
 * the stream has copied it. */
TORCH_ACRE_API void storage_resize(c10::StorageImpl *storage, size_t bytes);

} // namespace acre_torch
