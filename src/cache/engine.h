/* SPDX-License-Identifier: MIT */
/* The engine: moves blocks between pools, users and queues, whatever the policy.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_ENGINE_H
#define SRC_CACHE_ENGINE_H

#include "cache/cache.h"

/* Finds or makes a block for an attempt that was started by attempt_init: state LIVE, in
 * the map, uses empty. Does not move the live statistics (stats.h). May drop and
 * retake the lock. On failure, call attempt_failed after dropping the lock. */
acre_status engine_alloc_locked(acre_cache *cache, struct attempt *attempt);

/* Makes a FREE block that is in no index LIVE, cut to the request's size if the policy
 * allows. A spare block object must be there. */
struct block *engine_commit_locked(acre_cache *cache, struct block *block,
                                   const struct request *request);

/* Takes the block that covers [address, address + rounded) and cuts it out.
 * Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_HOST_MEMORY. out_prefix is a LIVE block of
 * what lies before, or NULL; the caller frees it. */
acre_status engine_alloc_at_locked(acre_cache *cache, struct attempt *attempt, char *address,
                                   struct block **out_prefix);

/* Makes the first bytes of an indexed FREE block LIVE, whatever the policy thinks of
 * cutting it. A spare block object must be there. Does not move the live
 * statistics. */
struct block *engine_cut_locked(acre_cache *cache, struct block *block, size_t bytes);

/* Ends the life of a LIVE block: back to its pool, or WAITING when other streams
 * use it; policy.retire is called when nobody does any more. *out_waits is written
 * when there were uses: whether it is WAITING. On failure the block stays LIVE. */
acre_status engine_free_locked(acre_cache *cache, struct block *block, bool *out_waits);

/* Returns a block that nobody uses (LIVE without uses, or WAITING without
 * events) to its pool, joined with free neighbours. policy.retire is not called. */
void engine_put_locked(acre_cache *cache, struct block *block);

/* Retires a block and puts it back; the last event of arg's, a cache's, block. */
void engine_done_locked(void *arg, struct block *block);

/* Sees which waiting blocks have become free, before an allocation for stream. */
acre_status engine_collect_slow_locked(acre_cache *cache, void *stream);
static inline acre_status engine_collect_locked(acre_cache *cache, void *stream)
{
    if (__builtin_expect(cache->deferred.pending_count == 0, 1))
        return ACRE_OK;
    return engine_collect_slow_locked(cache, stream);
}

/* The block that is LIVE, or DIRECT, with that base, and was not freed late; NULL otherwise. */
static inline struct block *engine_find_locked(const acre_cache *cache, const void *pointer)
{
    struct block *block = map_find(&cache->map, pointer);

    if (!block || block->base != pointer || block->is_late)
        return NULL;
    if (block_is_tagged(block) && !block_tag_is_live(block))
        return NULL; /* freed, and kept by a thread */
    return block->state == BLOCK_LIVE || block->state == BLOCK_DIRECT ? block : NULL;
}

#endif
