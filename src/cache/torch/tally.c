/* SPDX-License-Identifier: MIT */
#include "cache/torch/tally.h"

#include "cache/observe/stats.h"

void tally_raise(struct tally_level *level)
{
    level->ceiling -= level->room;
    level->room = 0;
}

static acre_stat *class_of(acre_stat_array *array, enum tally_class class)
{
    acre_stat *const stats[] = {&array->small_pool, &array->large_pool, &array->all};

    return stats[class];
}

/* The statistic of a measure that counts waiting blocks, too. */
static acre_stat *active_of(acre_cache_stats *stats, enum tally_class class, int m)
{
    acre_stat_array *const arrays[] = {&stats->active, &stats->active_bytes,
                                       &stats->requested_bytes, &stats->inactive_split,
                                       &stats->inactive_split_bytes};

    return class_of(arrays[m], class);
}

/* The one without them; NULL: there is none. */
static acre_stat *live_of(acre_cache_stats *stats, enum tally_class class, int m)
{
    if (m > TALLY_BYTES)
        return NULL;
    return class_of(m == TALLY_COUNT ? &stats->allocation : &stats->allocated_bytes, class);
}

/* Moves a level by change, of which gained came. The level has been as high as top. */
static void stat_catch_up(acre_stat *stat, int64_t change, int64_t gained, int64_t top)
{
    stat->current += change;
    stat->allocated += gained;
    stat->freed += gained - change;
    if (top > stat->peak)
        stat->peak = top;
    CHECK(stat->current >= 0 && stat->current <= stat->peak && change <= gained);
}

void tally_settle(struct stats_tally *tally, acre_cache_stats *stats)
{
    for (int m = 0; m < TALLY_MEASURES; m++) {
        int64_t gained_all = tally->levels[TALLY_SMALL][m].sum + tally->levels[TALLY_LARGE][m].sum;
        for (int class = 0; class < TALLY_CLASSES; class ++) {
            struct tally_level *level = &tally->levels[class][m];
            acre_stat *active = active_of(stats, class, m), *live = live_of(stats, class, m);
            int64_t change = level->ceiling - level->room - active->current;
            int64_t gained = class == TALLY_ALL ? gained_all : level->sum;
            if (live) {
                int64_t waiting = active->current - live->current;
                stat_catch_up(live, change, gained, level->ceiling - waiting);
            }
            stat_catch_up(active, change, gained, level->ceiling);
            level->sum = 0;
        }
    }
}

void tally_resume(struct stats_tally *tally, const acre_cache_stats *stats)
{
    acre_cache_stats *all = (acre_cache_stats *)stats; /* only read */

    for (int m = 0; m < TALLY_MEASURES; m++) {
        for (int class = 0; class < TALLY_CLASSES; class ++) {
            struct tally_level *level = &tally->levels[class][m];
            const acre_stat *active = active_of(all, class, m), *live = live_of(all, class, m);
            level->ceiling = active->peak;
            if (live && live->peak + active->current - live->current < level->ceiling)
                level->ceiling = live->peak + active->current - live->current;
            level->room = level->ceiling - active->current;
        }
    }
}

void tally_wait(struct stats_tally *tally, acre_cache_stats *stats, bool is_small, size_t bytes)
{
    tally_settle(tally, stats);
    stats_live_drop(stats, is_small, bytes);
    tally_resume(tally, stats);
}

void tally_retire(struct stats_tally *tally, acre_cache_stats *stats, bool is_small, size_t bytes,
                  size_t requested)
{
    tally_settle(tally, stats);
    stats_live_retire(stats, is_small, bytes, requested);
    tally_resume(tally, stats);
}
