/* SPDX-License-Identifier: MIT */
/* What libacre_torch.so exports: Acre's caches behind the signatures that PyTorch's
 * CUDAPluggableAllocator calls. They are found by name, hence no public header.
 *
 * PyTorch's two functions have no way to report, so a request that cannot be met
 * is answered with NULL and the reason goes to acre_last_error(); frees that are
 * refused change nothing. With ACRE_LOG=error both go to standard error as well.
 *
 * Threads: any. Nothing happens before the first call.
 */
#ifndef SRC_BIND_TORCH_H
#define SRC_BIND_TORCH_H

#include <acre/acre.h>

#include <sys/types.h>

/* torch.cuda.memory.CUDAPluggableAllocator(library, "acre_torch_malloc",
 * "acre_torch_free") */
ACRE_API void *acre_torch_malloc(ssize_t bytes, int device, void *stream);
ACRE_API void acre_torch_free(void *pointer, ssize_t bytes, int device, void *stream);

/* Hooks, for set_init_fn and its like. */
ACRE_API void acre_torch_init(int device_count);
ACRE_API void acre_torch_reset(void);
ACRE_API void acre_torch_memory_fraction(double fraction, int device);
ACRE_API void *acre_torch_base_alloc(void *pointer, size_t *bytes);
ACRE_API void acre_torch_record_stream(void *pointer, void *stream);
ACRE_API void acre_torch_begin_allocate_to_pool(int device, acre_pool_id id, void *filter);
ACRE_API void acre_torch_end_allocate_to_pool(int device, acre_pool_id id);
ACRE_API void acre_torch_release_pool(int device, acre_pool_id id);

/* The cache behind a device, for statistics, history and snapshots; NULL when there
 * is no such device, and the last error says why. */
ACRE_API acre_cache *acre_torch_cache(int device);

#endif
