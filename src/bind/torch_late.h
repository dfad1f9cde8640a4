/* SPDX-License-Identifier: MIT */
/* Frees that the device did not allow: PyTorch is not told, so they are tried again. */
#ifndef SRC_BIND_TORCH_LATE_H
#define SRC_BIND_TORCH_LATE_H

#include <acre/cache.h>

/* Frees, now or when late_retry() succeeds. False: it is not live in that cache, or there
 * was no host memory to note it, and it stays live. */
bool late_free(acre_cache *cache, void *pointer);

/* Tries what is left; cheap when nothing is. */
void late_retry(void);

/* Holds the list around a fork, and lets it go. */
void late_fork(bool is_before);

#endif
