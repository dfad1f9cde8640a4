/* SPDX-License-Identifier: MIT */
/* Captures of graphs that run while a cache is used.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_POOLS_CAPTURE_H
#define SRC_CACHE_POOLS_CAPTURE_H

#include "cache/cache.h"

/* Whether streams may capture: the cache knows of a capture, or has an open scope, in which a
 * capture may begin that nobody tells the cache of. */
static inline bool capture_may_run_locked(const acre_cache *cache)
{
    return __builtin_expect(cache->capture_count || !list_empty(&cache->scopes), 0);
}
/* While a scope is open: marks the capture that a stream takes part in, if the cache does not
 * know of it; is_own: the calling thread works on it. Failures leave no mark.
 * Errors: ACRE_ERR_HOST_MEMORY, what the device says about a stream that there is. */
acre_status capture_notice_locked(acre_cache *cache, void *stream, bool is_own);
/* As capture_notice_locked, for the streams of all blocks: called before anything that would
 * break captures, which must not follow when this fails. */
acre_status capture_search_locked(acre_cache *cache);
/* Drops marks of captures that were found and are over. */
void capture_sweep_locked(acre_cache *cache);
/* Whether a stream takes part in a capture, given by id. */
acre_status capture_has_locked(acre_cache *cache, uint64_t capture_id, void *stream, bool *out_has);
/* Whether a stream captures, or might; false while the cache knows of no capture and has no
 * open scope. */
bool capture_runs_on_locked(const acre_cache *cache, void *stream);
/* Whether the calling thread began a capture that runs. */
bool capture_is_own_locked(const acre_cache *cache);
/* Whether a call about stream is in a capture context (capture.c). */
acre_status capture_context_locked(const acre_cache *cache, void *stream, bool *out);
/* The capture that a use of stream is part of, 0 for none. */
acre_status capture_of_use_slow_locked(const acre_cache *cache, void *stream, uint64_t *out_id);
static inline acre_status capture_of_use_locked(const acre_cache *cache, void *stream,
                                                uint64_t *out_id)
{
    *out_id = 0;
    return capture_may_run_locked(cache) ? capture_of_use_slow_locked(cache, stream, out_id)
                                         : ACRE_OK;
}
/* Tells the cache that stream captures, and that it has ended. */
acre_status mark_begin_locked(acre_cache *cache, void *stream, uint64_t *out_id);
acre_status mark_end_locked(acre_cache *cache, void *stream);
/* As deferred_add, while captures run. */
acre_status capture_free_locked(acre_cache *cache, struct block *block);
/* As deferred_collect_slow, with captures in mind. */
acre_status capture_collect_locked(acre_cache *cache, void *stream);
/* Sets blocks free, of one pool or of all (NULL), whose captures have ended. */
acre_status capture_flush_locked(acre_cache *cache, const struct private_pool *pool);
void capture_fini(acre_cache *cache);

#endif
