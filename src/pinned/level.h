/* SPDX-License-Identifier: MIT */
/* A statistic that moves with every allocation, made for going up and down: what is kept
 * is the room below the peak, so that going up is a subtraction and a test of its sign,
 * and going down an addition. The rest follows:
 *
 *   current = peak - room        freed = base + allocated - current
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_PINNED_LEVEL_H
#define SRC_PINNED_LEVEL_H

#include "base/check.h"

#include <acre/allocator.h>

struct pinned_level {
    int64_t room;      /* never negative after a call                */
    int64_t allocated; /* sum of increases since the last reset      */
    int64_t peak;
    int64_t base;      /* current at that reset                      */
    int64_t before;    /* sum of increases before it                 */
};

static inline int64_t level_current(const struct pinned_level *level)
{
    return level->peak - level->room;
}

/* Sum of decreases, resets or not. */
static inline int64_t level_freed(const struct pinned_level *level)
{
    return level->before + level->allocated - level_current(level);
}

/* Takes a level_down back. */
static inline void level_undo_down(struct pinned_level *level, uint64_t amount)
{
    level->room -= (int64_t)amount;
    if (UNLIKELY(level->room < 0)) {
        level->peak -= level->room;
        level->room = 0;
    }
}

static inline void level_up(struct pinned_level *level, uint64_t amount)
{
    level->allocated += (int64_t)amount;
    level_undo_down(level, amount);
}

static inline void level_down(struct pinned_level *level, uint64_t amount)
{
    level->room += (int64_t)amount;
    CHECK(level->room <= level->peak);
}

static inline acre_stat level_stat(const struct pinned_level *level)
{
    int64_t current = level_current(level);

    return (acre_stat){.current = current, .peak = level->peak, .allocated = level->allocated,
                       .freed = level->base + level->allocated - current};
}

static inline void level_reset_peak(struct pinned_level *level)
{
    level->peak = level_current(level);
    level->room = 0;
}

static inline void level_reset_accumulated(struct pinned_level *level)
{
    level->base = level_current(level);
    level->before += level->allocated;
    level->allocated = 0;
}

#endif
