/* SPDX-License-Identifier: MIT */
/* Allocating and freeing under policy torch where nothing special is going on. */
#ifndef SRC_CACHE_TORCH_QUICK_H
#define SRC_CACHE_TORCH_QUICK_H

#include "cache/cache.h"

/* As acre_cache_alloc and acre_cache_free, for a cache, not NULL, whose threads keep nothing. */
acre_status quick_alloc(acre_cache *cache, size_t bytes, void *stream, void **out);
acre_status quick_free(acre_cache *cache, void *pointer);

#endif
