/* SPDX-License-Identifier: MIT */
/* Frees that the device did not allow: PyTorch is not told, so they are tried again. */
#ifndef SRC_BIND_TORCH_RETRY_H
#define SRC_BIND_TORCH_RETRY_H

#include <acre/cache.h>

/* Frees, now or when retry_all() succeeds, or when the pool of it wakes. False: it is not live in
 * that cache, or there was no host memory to note it, and it stays live. */
bool retry_free(acre_cache *cache, void *pointer);

/* Tries what is left; cheap when nothing is. */
void retry_all(void);

/* Holds the list around a fork, and lets it go. */
void retry_fork(bool is_before);

#endif
