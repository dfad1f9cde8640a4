/* SPDX-License-Identifier: MIT */
/* Frees that the device did not allow: PyTorch is not told, so they are tried again. */
#ifndef SRC_BIND_TORCH_RETRY_H
#define SRC_BIND_TORCH_RETRY_H

#include <acre/allocator.h>
#include <acre/cache.h>

/* Frees, now or when retry_all() succeeds, or when the cache can. The allocator is one of the
 * cache, and stays. False: it is not live in that cache. */
bool retry_free(acre_cache *cache, acre_allocator *allocator, void *pointer);

/* Tries what is left; cheap when nothing is. */
void retry_all(void);

/* Holds the list around a fork, and lets it go. */
void retry_fork(bool is_before);

#endif
