/* SPDX-License-Identifier: MIT */
/* The statistics that move with every allocation and free of policy torch.
 *
 * Seven statistics move (stats.h): allocation, allocated_bytes, active, active_bytes,
 * requested_bytes, inactive_split and inactive_split_bytes; each for a size class and for all
 * blocks, with its level, its peak, and the sums of what came and went. Most of that follows
 * from the rest, so that per class only this is kept up at once:
 *
 *   room      how far the level lies below the ceiling, which no level passes unnoticed
 *   sum       what came since the last tally_settle; what went follows from the level
 *
 *   level = ceiling - room
 *   allocation and active differ by the blocks that wait for streams, whose number is
 *   constant from tally_resume to tally_settle
 *
 * A level that would pass its ceiling raises it, and only then is a peak looked at: the ceiling
 * is as high as both peaks allow, and after a raise it is a level that was reached.
 *
 *   Always: room >= 0.
 *
 * The statistics themselves are brought up to date by tally_settle before anybody reads or
 * changes them; tally_resume goes on from what is in there then.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_TORCH_TALLY_H
#define SRC_CACHE_TORCH_TALLY_H

#include "base/check.h"

#include <acre/cache.h>

enum tally_measure {
    TALLY_COUNT,       /* blocks live or waiting            */
    TALLY_BYTES,       /* their sizes                       */
    TALLY_REQUESTED,   /* what was asked for of them        */
    TALLY_SPLITS,      /* free blocks that are part of a segment */
    TALLY_SPLIT_BYTES, /* their sizes                       */
    TALLY_MEASURES
};

enum tally_class { TALLY_SMALL, TALLY_LARGE, TALLY_ALL, TALLY_CLASSES };

/* One measure of one class. */
struct tally_level {
    int64_t room;
    int64_t ceiling;
    int64_t sum; /* of TALLY_ALL: unused */
};

struct stats_tally {
    struct tally_level levels[TALLY_CLASSES][TALLY_MEASURES];
};

/* Raises the ceiling by what the level is above it. */
void tally_raise(struct tally_level *level);

/* Moves a level up in a class and in all; amount is not negative. */
static inline void tally_up(struct tally_level *level, struct tally_level *all, int64_t amount)
{
    level->sum += amount;
    if (UNLIKELY((level->room -= amount) < 0))
        tally_raise(level);
    if (UNLIKELY((all->room -= amount) < 0))
        tally_raise(all);
}

static inline void tally_down(struct tally_level *level, struct tally_level *all, int64_t amount)
{
    level->room += amount;
    all->room += amount;
}

/* A block was handed out. */
static inline void tally_add(struct stats_tally *tally, bool is_small, size_t bytes,
                             size_t requested)
{
    struct tally_level *own = tally->levels[is_small ? TALLY_SMALL : TALLY_LARGE];
    struct tally_level *all = tally->levels[TALLY_ALL];

    tally_up(&own[TALLY_COUNT], &all[TALLY_COUNT], 1);
    tally_up(&own[TALLY_BYTES], &all[TALLY_BYTES], (int64_t)bytes);
    tally_up(&own[TALLY_REQUESTED], &all[TALLY_REQUESTED], (int64_t)requested);
}

/* It was freed, and nobody uses it. */
static inline void tally_remove(struct stats_tally *tally, bool is_small, size_t bytes,
                                size_t requested)
{
    struct tally_level *own = tally->levels[is_small ? TALLY_SMALL : TALLY_LARGE];
    struct tally_level *all = tally->levels[TALLY_ALL];

    tally_down(&own[TALLY_COUNT], &all[TALLY_COUNT], 1);
    tally_down(&own[TALLY_BYTES], &all[TALLY_BYTES], (int64_t)bytes);
    tally_down(&own[TALLY_REQUESTED], &all[TALLY_REQUESTED], (int64_t)requested);
}

/* Moves one measure by a net change. */
static inline void tally_move(struct stats_tally *tally, bool is_small, enum tally_measure m,
                              int64_t change)
{
    struct tally_level *own = &tally->levels[is_small ? TALLY_SMALL : TALLY_LARGE][m];
    struct tally_level *all = &tally->levels[TALLY_ALL][m];

    if (change > 0)
        tally_up(own, all, change);
    else
        tally_down(own, all, -change);
}

/* Free blocks that are part of a segment came or went, as one net change. */
static inline void tally_split(struct stats_tally *tally, bool is_small, int64_t count,
                               int64_t bytes)
{
    tally_move(tally, is_small, TALLY_SPLITS, count);
    tally_move(tally, is_small, TALLY_SPLIT_BYTES, bytes);
}

/* A block was freed that streams still use; later, they do so no more. */
void tally_wait(struct stats_tally *tally, acre_cache_stats *stats, bool is_small, size_t bytes);
void tally_retire(struct stats_tally *tally, acre_cache_stats *stats, bool is_small, size_t bytes,
                  size_t requested);

/* Brings the statistics up to date. */
void tally_settle(struct stats_tally *tally, acre_cache_stats *stats);
/* Goes on from them, whose peaks may have been reset. A zeroed tally goes with zeroed ones. */
void tally_resume(struct stats_tally *tally, const acre_cache_stats *stats);

#endif
