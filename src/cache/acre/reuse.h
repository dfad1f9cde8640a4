/* SPDX-License-Identifier: MIT */
/* Free memory for one stream, whichever stream it served last and whichever thread
 * keeps it: policy acre's first look before memory is stitched or obtained.
 *
 * Memory that an idle stream served may be used at once, through the shared arena
 * (arena.h). Memory of a busy stream is used behind a wait for that stream, if the
 * option cross_stream_reuse allows it.
 *
 * Not thread-safe: the cache's lock is held around every call.
 */
#ifndef SRC_CACHE_ACRE_REUSE_H
#define SRC_CACHE_ACRE_REUSE_H

#include "cache/acre/arena.h"
#include "cache/cache.h"
#include "cache/threads/credit.h"

/* The arena of a class and stream in the shared pool, made if need be; NULL: no host
 * memory. */
struct arena *reuse_arena_locked(acre_cache *cache, enum credit_class class, void *stream);

/* Whether all work queued on the stream of an arena is done; false where nothing may be asked. */
bool reuse_is_idle(acre_cache *cache, struct arena *arena);

/* A LIVE block in the map for an arena from free blocks of any stream, including those
 * that threads keep; NULL: none. A spare block object must be there. */
struct block *reuse_take_locked(acre_cache *cache, struct arena *arena, size_t bytes);

/* Whether a pool may grow while threads keep small blocks. Threads would be asked for
 * these again and again, although they are a small part of all that is held. */
bool reuse_has_slack(const acre_cache *cache, const struct pool *pool);

#endif
