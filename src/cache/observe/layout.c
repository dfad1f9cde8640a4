/* SPDX-License-Identifier: MIT */
/* Looking inside a cache: a copy of its segments and blocks, a picture for
 * people, and the walk that proves that everything fits together. */
#include "cache/observe/layout.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "cache/cache.h"
#include "cache/pools/pools.h"
#include "cache/pools/sleep.h"
#include "cache/size.h"
#include "cache/acre/stitch.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
    const struct segment *first = *(struct segment *const *)a;
    const struct segment *second = *(struct segment *const *)b;

    return first->base < second->base ? -1 : first->base > second->base;
}

/* Whether a block has memory of its own: not UNMAPPED, and not LENT, whose memory
 * is that of another segment. */
static bool has_memory(const struct block *block)
{
    return block->state != BLOCK_UNMAPPED && block->state != BLOCK_LENT;
}

/* Whether a run of blocks with memory, as a user sees it a segment, begins here:
 * a plain segment is one, an expandable one may be several. */
static bool begins_run(const struct block *block)
{
    return has_memory(block) && (!block->prev || !has_memory(block->prev));
}

/* Counts segments, runs of blocks with memory and blocks. */
static void count_locked(const acre_cache *cache, uint64_t *segments, uint64_t *runs,
                         uint64_t *blocks)
{
    *segments = *runs = *blocks = 0;
    LIST_FOR_EACH(link, &cache->segments) {
        const struct block *block = CONTAINER_OF(link, struct segment, link)->first;
        ++*segments;
        for (; block; block = block->next) {
            *runs += begins_run(block);
            *blocks += has_memory(block);
        }
    }
}

acre_block_state layout_state_of(const struct block *block)
{
    if (block->state == BLOCK_LIVE && block_is_tagged(block) && !block_tag_is_live(block) &&
        !block->is_late)
        return ACRE_BLOCK_FREE;
    return (acre_block_state)block->state;
}

static void copy_segment(acre_cache_layout *layout, const struct segment *segment)
{
    acre_segment_info *info = NULL;

    for (const struct block *block = segment->first; block; block = block->next) {
        if (!has_memory(block))
            continue;
        if (begins_run(block)) {
            info = &layout->segments[layout->segment_count++];
            *info = (acre_segment_info){.base = block->base,
                                        .stream = segment->stream,
                                        .order = segment->order,
                                        .pool = {segment->pool->id[0], segment->pool->id[1]},
                                        .first_block = layout->block_count,
                                        .is_small = segment->pool->is_small,
                                        .is_expandable = segment->expand != NULL,
                                        .stack = segment->stack};
        }
        layout->blocks[layout->block_count++] = (acre_block_info){
            .base = block->base,
            .bytes = block->bytes,
            .requested_bytes = block->requested,
            .state = layout_state_of(block),
            .stack = layout_state_of(block) == ACRE_BLOCK_FREE ? 0 : block->stack};
        info->block_count++;
        info->bytes += block->bytes;
    }
}

acre_cache_layout *layout_copy_locked(acre_cache *cache)
{
    uint64_t segment_count, run_count, block_count, i = 0;
    acre_cache_layout *layout;
    struct segment **sorted;

    count_locked(cache, &segment_count, &run_count, &block_count);
    layout = heap_zalloc(sizeof *layout);
    if (!layout)
        return NULL;
    layout->segments = heap_array(run_count, sizeof *layout->segments);
    layout->blocks = heap_array(block_count, sizeof *layout->blocks);
    sorted = heap_array(segment_count, sizeof *sorted);
    if (!layout->segments || !layout->blocks || !sorted) {
        heap_free(sorted);
        acre_cache_layout_destroy(layout);
        return NULL;
    }
    LIST_FOR_EACH(link, &cache->segments)
        sorted[i++] = CONTAINER_OF(link, struct segment, link);
    qsort(sorted, segment_count, sizeof *sorted, by_address);
    for (i = 0; i < segment_count; i++)
        copy_segment(layout, sorted[i]);
    heap_free(sorted);
    return layout;
}

acre_status acre_cache_layout_create(acre_cache *cache, acre_cache_layout **out)
{
    if (!cache || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_layout_create: an argument is NULL");
    quick_lock_take(&cache->lock);
    acre_cache_layout *layout = layout_copy_locked(cache);
    quick_lock_drop(&cache->lock);
    if (!layout)
        return ACRE_ERR_HOST_MEMORY;
    *out = layout;
    return ACRE_OK;
}

void acre_cache_layout_destroy(acre_cache_layout *layout)
{
    if (!layout)
        return;
    heap_free(layout->segments);
    heap_free(layout->blocks);
    heap_free(layout);
}

static acre_stream_segment_size size_of_segment(const struct segment *segment)
{
    const struct expand *expand = segment->expand;

    return (acre_stream_segment_size){.stream = segment->stream,
                                      .pool = {segment->pool->id[0], segment->pool->id[1]},
                                      .bytes = expand->mapped_bytes,
                                      .span_bytes = expand->bytes,
                                      .page_bytes = expand->page_bytes,
                                      .is_small = segment->pool->is_small,
                                      .handle_type = expand->type};
}

acre_status acre_cache_stream_segment_sizes(acre_cache *cache, acre_stream_segment_size *sizes,
                                            uint64_t capacity, uint64_t *out_count)
{
    uint64_t count = 0;

    if (!cache || !out_count || (capacity && !sizes))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_cache_stream_segment_sizes: an argument is NULL");
    quick_lock_take(&cache->lock);
    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (!segment->expand)
            continue;
        if (count < capacity)
            sizes[count] = size_of_segment(segment);
        count++;
    }
    quick_lock_drop(&cache->lock);
    *out_count = count;
    return ACRE_OK;
}

/* ---- For people --------------------------------------------------------------- */

static void dump_stats(const acre_cache_stats *stats, FILE *file)
{
    fprintf(file, "%-24s %16s %16s %16s %16s\n", "statistic", "current", "peak", "allocated",
            "freed");
#define DUMP_STAT(name, stat)                                                                      \
    fprintf(file, "%-24s %16lld %16lld %16lld %16lld\n", name, (long long)(stat).current,          \
            (long long)(stat).peak, (long long)(stat).allocated, (long long)(stat).freed);
#define DUMP_ARRAY(name, text)                                                                     \
    DUMP_STAT(#name, stats->name.all)                                                              \
    DUMP_STAT("  small", stats->name.small_pool)                                                   \
    DUMP_STAT("  large", stats->name.large_pool)
#define DUMP_SINGLE(name, text)  DUMP_STAT(#name, stats->name)
#define DUMP_COUNTER(name, text) fprintf(file, "%-24s %16lld\n", #name, (long long)stats->name);
    ACRE_CACHE_STAT_ARRAYS(DUMP_ARRAY)
    ACRE_CACHE_STATS(DUMP_SINGLE)
    ACRE_CACHE_COUNTERS(DUMP_COUNTER)
}

static void dump_layout(const acre_cache_layout *layout, FILE *file)
{
    static const char *const states[] = {"free", "live", "waiting", "unmapped"};

    for (uint64_t i = 0; i < layout->segment_count; i++) {
        const acre_segment_info *segment = &layout->segments[i];
        fprintf(file, "segment %p %llu bytes, %s, stream %p, number %llu\n", segment->base,
                (unsigned long long)segment->bytes, segment->is_small ? "small" : "large",
                segment->stream, (unsigned long long)segment->order);
        for (uint64_t k = 0; k < segment->block_count; k++) {
            const acre_block_info *block = &layout->blocks[segment->first_block + k];
            fprintf(file, "    %p %12llu %s, asked %llu\n", block->base,
                    (unsigned long long)block->bytes, states[block->state],
                    (unsigned long long)block->requested_bytes);
        }
    }
}

acre_status acre_cache_dump(acre_cache *cache, FILE *file)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_cache_layout *layout;
    char buffer[1024];
    struct text text;

    if (!cache || !file)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_dump: an argument is NULL");
    acre_status status = acre_cache_layout_create(cache, &layout);
    if (status != ACRE_OK)
        return status;
    acre_cache_stats_get(cache, &stats);
    text_init(&text, buffer, sizeof buffer);
    quick_lock_take(&cache->lock);
    cache_conf_print(&cache->conf, &text);
    quick_lock_drop(&cache->lock);
    fprintf(file, "options %s\n", buffer);
    dump_stats(&stats, file);
    dump_layout(layout, file);
    acre_cache_layout_destroy(layout);
    if (fflush(file) != 0 || ferror(file))
        return status_fail(ACRE_ERR_IO, "acre_cache_dump: the file could not be written");
    return ACRE_OK;
}

/* ---- Facts ----------------------------------------------------------------------- */

/* Sums over the blocks of a cache, by class: 0 all, 1 small, 2 large. */
struct sums {
    int64_t segments[3], reserved[3];
    int64_t live[3], live_bytes[3], active[3], active_bytes[3], requested[3];
    int64_t split[3], split_bytes[3];
    uint64_t free_count[3], events, oversize;
};

static void sum_block(struct sums *sums, int class, const struct block *block)
{
    const int classes[] = {0, class};
    int64_t bytes = (int64_t)block->bytes;

    for (int k = 0; k < 2; k++) {
        int i = classes[k];
        acre_block_state state = layout_state_of(block);
        bool is_live = state == ACRE_BLOCK_LIVE;
        bool is_active = is_live || state == ACRE_BLOCK_WAITING;
        bool is_split = state == ACRE_BLOCK_FREE && block_is_split(block) && !block->is_expandable;
        sums->live[i] += is_live;
        sums->live_bytes[i] += is_live ? bytes : 0;
        sums->active[i] += is_active;
        sums->active_bytes[i] += is_active ? bytes : 0;
        sums->requested[i] += is_active ? (int64_t)block->requested : 0;
        sums->split[i] += is_split;
        sums->split_bytes[i] += is_split ? bytes : 0;
        sums->free_count[i] += block->state == BLOCK_FREE;
    }
    sums->events += block->event_count;
    sums->oversize += block->is_oversize;
}

static bool array_is(const acre_stat_array *array, const int64_t sums[3])
{
    return array->all.current == sums[0] && array->small_pool.current == sums[1] &&
           array->large_pool.current == sums[2] && array->all.peak >= sums[0];
}

#define FACT(holds)                                                                                \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            *fact = "cache: " #holds;                                                              \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

static bool check_sums(const acre_cache *cache, const struct sums *sums, const char **fact)
{
    const acre_cache_stats *stats = &cache->stats;

    FACT(array_is(&stats->segment, sums->segments));
    FACT(array_is(&stats->reserved_bytes, sums->reserved));
    FACT(array_is(&stats->inactive_split, sums->split));
    FACT(array_is(&stats->inactive_split_bytes, sums->split_bytes));
    FACT(stats->oversize_allocations.current == (int64_t)sums->oversize);
    FACT(cache->held_bytes >= (uint64_t)sums->reserved[0]);
    FACT(sums->events == cache->deferred.pending_count);
    FACT(sums->free_count[1] == pools_free_count_locked(cache, true));
    FACT(sums->free_count[2] == pools_free_count_locked(cache, false));
    FACT(array_is(&stats->allocation, sums->live));
    FACT(array_is(&stats->allocated_bytes, sums->live_bytes));
    FACT(array_is(&stats->active, sums->active));
    FACT(array_is(&stats->active_bytes, sums->active_bytes));
    FACT(array_is(&stats->requested_bytes, sums->requested));
    return true;
}

/* What a pool says that it holds is what its segments have. */
static bool check_held(const acre_cache *cache, const struct pool *pool, const char **fact)
{
    uint64_t segments = 0, bytes = 0;

    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (segment->pool != pool)
            continue;
        segments += !segment->range;
        for (const struct block *block = segment->first; block; block = block->next)
            bytes += has_memory(block) ? block->bytes : 0;
    }
    bytes -= sleep_away_bytes(cache, pool);
    FACT(pool->segment_count == segments);
    FACT(pool->held_bytes == bytes);
    if (pool->owner) {
        const acre_stat_array *reserved = &pool->owner->account->reserved;
        FACT((pool->is_small ? reserved->small_pool : reserved->large_pool).current ==
             (int64_t)bytes);
        FACT(pool->owner->has_scope == (scope_find(&cache->scopes, pool->owner) != NULL));
        FACT(pool->owner->use_count >= pool->owner->kept_count);
        FACT(pool->owner->kept_count >= pool->owner->has_scope);
    }
    return true;
}

static bool check_all(acre_cache *cache, const char **fact)
{
    struct sums sums = {0};

    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        int class = segment->pool->is_small ? 1 : 2;
        if (!segment_check(segment, fact))
            return false;
        sums.segments[0] += segment_is_plain(segment);
        sums.segments[class] += segment_is_plain(segment);
        for (struct block *block = segment->first; block; block = block->next) {
            if (!has_memory(block))
                continue;
            bool is_free = block->state == BLOCK_FREE;
            FACT(is_free || map_find(&cache->map, block->base) == block);
            sums.reserved[0] += (int64_t)block->bytes;
            sums.reserved[class] += (int64_t)block->bytes;
            sum_block(&sums, class, block);
        }
    }
    for (struct pool *pool = NULL; (pool = pools_next_locked(cache, pool));) {
        int64_t away = (int64_t)sleep_away_bytes(cache, pool);
        sums.reserved[0] -= away;
        sums.reserved[pool->is_small ? 1 : 2] -= away;
        if (!cache->policy->pool_check(pool, fact) || !check_held(cache, pool, fact) ||
            (pool->stitch && !stitch_check(pool->stitch, cache, fact)))
            return false;
    }
    return deferred_check(&cache->deferred, fact) && check_sums(cache, &sums, fact);
}

bool engine_check_locked(acre_cache *cache, const char **fact)
{
    cache->policy->settle(cache);
    bool holds = check_all(cache, fact);
    cache->policy->resume(cache);
    return holds;
}

acre_status acre_cache_check(acre_cache *cache)
{
    const char *fact;

    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_check: a cache is needed");
    quick_lock_take(&cache->lock);
    bool holds = engine_check_locked(cache, &fact);
    quick_lock_drop(&cache->lock);
    return holds ? ACRE_OK : status_fail(ACRE_ERR_INTERNAL, "this does not hold: %s", fact);
}

void cache_check_now(acre_cache *cache)
{
    const char *fact = NULL;

    if (!engine_check_locked(cache, &fact))
        check_failed(__FILE__, __LINE__, fact);
}
