/* SPDX-License-Identifier: MIT */
/* Streams that use a block, as PyTorch tells: what cannot be noted in the cache at once is noted
 * before the block is freed, and the block is kept back until then. */
#ifndef SRC_BIND_TORCH_USE_H
#define SRC_BIND_TORCH_USE_H

#include <acre/allocator.h>
#include <acre/cache.h>

#include <stdbool.h>

/* The cache of a device with an allocator of it; both stay. */
struct torch_home {
    acre_cache *cache;
    acre_allocator *allocator;
};

/* Notes that a stream uses a block, now or later. False: it is not live, or more could not be noted
 * than is remembered; then nothing is freed any more. */
bool use_note(struct torch_home home, void *pointer, void *stream);

/* Frees a block, now or when use_retry() or the cache can. False: it is not live in that cache, or
 * is kept back for ever, since a stream that cannot be told may use it. */
bool use_free(struct torch_home home, void *pointer);

/* Tries what is left; cheap when nothing is. */
void use_retry(void);

/* Holds everything around a fork, and lets it go. */
void use_fork(bool is_before);

#endif
