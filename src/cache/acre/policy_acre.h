/* SPDX-License-Identifier: MIT */
/* Policy acre, as its front sees it. */
#ifndef SRC_CACHE_POLICY_ACRE_H
#define SRC_CACHE_POLICY_ACRE_H

#include "cache/acre/arena.h"
#include "cache/cache.h"
#include "cache/threads/credit.h"

/* The arena of a class and stream, made if need be; NULL: no host memory. */
struct arena *acre_arena_locked(acre_cache *cache, enum credit_class class, void *stream);

/* Whether all work queued on the stream of an arena is done. */
bool acre_arena_is_idle(acre_cache *cache, struct arena *arena);

/* A LIVE block in the map for an arena from free blocks of any stream, those that
 * threads keep included; NULL: none. A spare block object must be there. */
struct block *acre_take_free_locked(acre_cache *cache, struct arena *arena, size_t bytes);
/* The same from what is free anywhere, without asking the
 * device for memory; NULL: none. A spare block object must be there. */
struct block *acre_take_locked(acre_cache *cache, struct arena *arena, size_t bytes);

/* Finds or makes a block for request, whose rounded size, stream and pool are
 * set: LIVE, in the map, without a tag, not in the live statistics. arena is that
 * of the stream. Otherwise as engine_alloc_locked. */
acre_status acre_alloc_locked(acre_cache *cache, struct arena *arena, struct request *request);

#endif
