/* SPDX-License-Identifier: MIT */
#include "cache/observe/stats.h"

#include <string.h>

void stats_init(acre_cache_stats *stats, int64_t max_split_size)
{
    *stats = (acre_cache_stats){.struct_size = sizeof *stats, .max_split_size = max_split_size};
}

static void reset_peak(acre_stat *stat)
{
    stat->peak = stat->current;
}

static void reset_accumulated(acre_stat *stat)
{
    stat->allocated = stat->freed = 0;
}

void stats_array_reset_peak(acre_stat_array *array)
{
    reset_peak(&array->all);
    reset_peak(&array->small_pool);
    reset_peak(&array->large_pool);
}

void stats_array_reset_accumulated(acre_stat_array *array)
{
    reset_accumulated(&array->all);
    reset_accumulated(&array->small_pool);
    reset_accumulated(&array->large_pool);
}

static void for_each(acre_cache_stats *stats, void (*fn)(acre_stat *))
{
#define FOR_ARRAY(name, text)                                                                      \
    fn(&stats->name.all);                                                                          \
    fn(&stats->name.small_pool);                                                                   \
    fn(&stats->name.large_pool);
#define FOR_STAT(name, text) fn(&stats->name);
    ACRE_CACHE_STAT_ARRAYS(FOR_ARRAY)
    ACRE_CACHE_STATS(FOR_STAT)
}

void stats_reset_peak(acre_cache_stats *stats)
{
    for_each(stats, reset_peak);
}

void stats_reset_accumulated(acre_cache_stats *stats)
{
    int64_t max_split_size = stats->max_split_size;

    for_each(stats, reset_accumulated);
#define RESET_COUNTER(name, text) stats->name = 0;
    ACRE_CACHE_COUNTERS(RESET_COUNTER)
    stats->max_split_size = max_split_size;
}
