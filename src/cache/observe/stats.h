/* SPDX-License-Identifier: MIT */
/* Statistics: levels with peaks and sums, over all blocks and per size class.
 *
 * The struct is the public one (names from one list in acre/cache.h). Who moves
 * what:
 *   stats_live_*   allocation, allocated_bytes, active, active_bytes and
 *                  requested_bytes; called by policy torch under the lock;
 *                  policy acre keeps these five by credit (credit.h) instead
 *   stats_segment_*, stats_split_*, stats_oversize_*, counters   the engine
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_STATS_H
#define SRC_CACHE_STATS_H

#include "base/check.h"
#include "cache/block.h"

#include <acre/cache.h>

static inline void stat_up(acre_stat *stat, int64_t amount)
{
    stat->current += amount;
    stat->allocated += amount;
    if (stat->current > stat->peak)
        stat->peak = stat->current;
}

static inline void stat_down(acre_stat *stat, int64_t amount)
{
    stat->current -= amount;
    stat->freed += amount;
    CHECK(stat->current >= 0);
}

static inline void stats_up(acre_stat_array *array, bool is_small, uint64_t amount)
{
    stat_up(&array->all, (int64_t)amount);
    stat_up(is_small ? &array->small_pool : &array->large_pool, (int64_t)amount);
}

static inline void stats_down(acre_stat_array *array, bool is_small, uint64_t amount)
{
    stat_down(&array->all, (int64_t)amount);
    stat_down(is_small ? &array->small_pool : &array->large_pool, (int64_t)amount);
}

/* One increase or decrease by a net change, nothing for 0. */
static inline void stats_move(acre_stat_array *array, bool is_small, int64_t change)
{
    if (change > 0)
        stats_up(array, is_small, (uint64_t)change);
    else if (change < 0)
        stats_down(array, is_small, (uint64_t)-change);
}

/* A block was handed out. */
static inline void stats_live_add(acre_cache_stats *stats, bool is_small, size_t bytes,
                                  size_t requested)
{
    stats_up(&stats->allocation, is_small, 1);
    stats_up(&stats->allocated_bytes, is_small, bytes);
    stats_up(&stats->active, is_small, 1);
    stats_up(&stats->active_bytes, is_small, bytes);
    stats_up(&stats->requested_bytes, is_small, requested);
}

/* Its free was asked for. */
static inline void stats_live_drop(acre_cache_stats *stats, bool is_small, size_t bytes)
{
    stats_down(&stats->allocation, is_small, 1);
    stats_down(&stats->allocated_bytes, is_small, bytes);
}

/* No stream uses it any more. */
static inline void stats_live_retire(acre_cache_stats *stats, bool is_small, size_t bytes,
                                     size_t requested)
{
    stats_down(&stats->active, is_small, 1);
    stats_down(&stats->active_bytes, is_small, bytes);
    stats_down(&stats->requested_bytes, is_small, requested);
}

void stats_init(acre_cache_stats *stats, int64_t max_split_size);
void stats_reset_peak(acre_cache_stats *stats);
void stats_reset_accumulated(acre_cache_stats *stats);
/* Resets the peaks, or the sums, of one statistic alone. */
void stats_array_reset_peak(acre_stat_array *array);
void stats_array_reset_accumulated(acre_stat_array *array);

#endif
