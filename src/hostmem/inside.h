/* SPDX-License-Identifier: MIT */
/* What a heap needs of its cache beyond the public calls. */
#ifndef SRC_HOSTMEM_INSIDE_H
#define SRC_HOSTMEM_INSIDE_H

#include <acre/cache.h>

/* Bytes of the live block that begins at pointer, or 0. Takes no lock. */
size_t inside_block_bytes(const acre_cache *cache, const void *pointer);

/* Bytes that the cache holds from the device; about now. Takes no lock. */
uint64_t inside_held_bytes(const acre_cache *cache);

/* Lets large requests have the best fit of all that is free. Before the first allocation. */
void inside_fit_best(acre_cache *cache);

/* Told of a free block of whole pages. Returns false to end the walk. */
typedef bool (*inside_free_fn)(void *arg, char *base, size_t bytes, bool is_whole_segment);

/* Walks the free blocks of the large pool under the lock of the cache, after all threads
 * have given back the large blocks they keep. */
void inside_walk_free(acre_cache *cache, inside_free_fn fn, void *arg);

#endif
