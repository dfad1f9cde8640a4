/* SPDX-License-Identifier: MIT */
/* What gives memory back to the device.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_RECLAIM_H
#define SRC_CACHE_RECLAIM_H

#include "cache/cache.h"

/* Waits for all queued work, which memory must before the device takes it back. */
acre_status reclaim_quiesce(const acre_cache *cache);
/* Whether a segment may go back, or pages of it: while captures run, if its streams
 * take no part in one, and no graph can be using it. */
bool reclaim_may_release_locked(const acre_cache *cache, const struct segment *segment);
/* Waits until nothing that is queued uses a segment: once per run, which *is_quiet
 * tells, for everything; while captures run, for the streams of its blocks. */
acre_status reclaim_settle_locked(acre_cache *cache, const struct segment *segment, bool *is_quiet);
/* Releases the segments that were idle longest while more is held than the option
 * garbage_collection_threshold allows; nothing without it, or without a limit. */
void reclaim_garbage_locked(acre_cache *cache);
bool reclaim_available_locked(acre_cache *cache, const struct request *request);
/* Waits for pending uses, then releases all idle segments. Goes on after an
 * error and gives the first one. */
acre_status reclaim_all_locked(acre_cache *cache);
/* Waits for pending uses of a private pool that is freeable, and releases its idle segments;
 * the pool may end. This call and reclaim_all_locked may drop and retake the lock. */
acre_status reclaim_private_locked(acre_cache *cache, struct private_pool *pool);

#endif
