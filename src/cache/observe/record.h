/* SPDX-License-Identifier: MIT */
/* Writing the history of a cache: what the engine and the front call.
 *
 * Every function below is a test of one byte while nothing is recorded. The ones
 * that end in _locked are called with the cache's lock held.
 *
 * Stacks are gathered before the lock is taken (record_gather) into a
 * thread-local place, and used by what the thread records next in that cache.
 */
#ifndef SRC_CACHE_RECORD_H
#define SRC_CACHE_RECORD_H

#include "cache/cache.h"

void record_gather_slow(acre_cache *cache);
void record_gather_end_slow(void);
void record_alloc_slow(acre_cache *cache, struct block *block);
void record_free_slow(acre_cache *cache, struct block *block, acre_action action);
void record_segment_slow(acre_cache *cache, acre_action action, const void *base, uint64_t bytes,
                         const struct segment *segment);
void record_oom_slow(acre_cache *cache, const struct attempt *attempt);

/* Before the lock: the stack, when the level asks for it. */
static inline void record_gather(acre_cache *cache, acre_context_level level)
{
    if (UNLIKELY(atomic_load_explicit(&cache->history.level, memory_order_relaxed) >= level))
        record_gather_slow(cache);
}

/* After the lock, where a free or the cache's emptying gathered. */
static inline void record_gather_end(acre_cache *cache)
{
    if (UNLIKELY(atomic_load_explicit(&cache->history.level, memory_order_relaxed) >=
                 ACRE_CONTEXT_ALL))
        record_gather_end_slow();
}

/* A block was handed out. */
static inline void record_alloc_locked(acre_cache *cache, struct block *block)
{
    if (UNLIKELY(cache->history.is_armed))
        record_alloc_slow(cache, block);
}

/* Its free was asked for. */
static inline void record_free_locked(acre_cache *cache, struct block *block)
{
    if (UNLIKELY(cache->history.is_armed))
        record_free_slow(cache, block, ACRE_ACTION_FREE_REQUESTED);
}

/* Nobody uses it any more; it has not been joined with neighbours yet. */
static inline void record_done_locked(acre_cache *cache, struct block *block)
{
    if (UNLIKELY(cache->history.is_armed))
        record_free_slow(cache, block, ACRE_ACTION_FREE_COMPLETED);
}

/* Memory of a segment was exchanged with the device. */
static inline void record_segment_locked(acre_cache *cache, acre_action action,
                                         const void *base, uint64_t bytes,
                                         const struct segment *segment)
{
    if (UNLIKELY(cache->history.is_armed))
        record_segment_slow(cache, action, base, bytes, segment);
}

/* The number of the stack that the calling thread gathered last, for a segment. */
uint32_t record_stack_locked(acre_cache *cache);

/* A segment that is not told to be free, because its pages are gone already, ends. */
static inline void record_segment_end_locked(acre_cache *cache, struct segment *segment)
{
    if (UNLIKELY(segment->stack))
        stacks_drop(&cache->history.stacks, segment->stack);
}

/* Lets what is recorded until label_restore carry a line more. */
static inline struct label record_label_locked(const acre_cache *cache, const char *line)
{
    return UNLIKELY(cache->history.is_armed) ? label_extend(line) : label_current();
}

/* A request failed. */
static inline void record_oom_locked(acre_cache *cache, const struct attempt *attempt)
{
    if (UNLIKELY(cache->history.is_armed))
        record_oom_slow(cache, attempt);
}

/* Stops recording; the cache may end next. */
void record_stop_locked(acre_cache *cache);

/* A snapshot was taken; active_bytes were live or waiting. */
void record_snapshot_locked(acre_cache *cache, uint64_t active_bytes, const uint64_t pool[2]);

#endif
