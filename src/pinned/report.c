/* SPDX-License-Identifier: MIT */
/* Statistics, layout, snapshot, and the walk that proves that everything fits. */
#include "backend/backend.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "cache/observe/snapshot_parts.h"
#include "pinned/record.h"

#include <stdlib.h>
#include <string.h>

/* ---- Statistics ----------------------------------------------------------------------- */

static acre_stat sum_of(const struct pinned_level *buckets)
{
    acre_stat sum = {0};

    for (int i = 0; i < ACRE_PINNED_BUCKETS; i++) {
        acre_stat stat = level_stat(&buckets[i]);
        sum.current += stat.current;
        sum.peak += stat.peak;
        sum.allocated += stat.allocated;
        sum.freed += stat.freed;
    }
    return sum;
}

static acre_pinned_time time_of(const acre_pinned_time *time)
{
    acre_pinned_time out = *time;

    out.avg = time->count ? (double)time->total / (double)time->count : 0;
    return out;
}

static void stats_fill_locked(const acre_pinned *pinned, acre_pinned_stats *out)
{
    out->allocations = level_stat(&pinned->allocations);
    out->allocated_bytes = level_stat(&pinned->allocated_bytes);
    out->active_requests = sum_of(pinned->active_requests);
    out->active_bytes = sum_of(pinned->active_bytes);
    out->requested_bytes = level_stat(&pinned->requested_bytes);
    out->num_host_alloc = out->allocations.allocated;
    out->num_host_free = out->allocations.freed;
    out->waiting_bytes = (int64_t)pinned->waiting_bytes;
    out->captured_bytes = (int64_t)pinned->captured_bytes;
    out->idle_bytes = out->allocated_bytes.current - out->active_bytes.current;
    out->num_event_queries = (int64_t)pinned->store.query_count;
    out->host_alloc_time = time_of(&pinned->alloc_time);
    out->host_free_time = time_of(&pinned->free_time);
    memcpy(out->bucket_allocation, pinned->bucket_allocation, sizeof out->bucket_allocation);
}

acre_status acre_pinned_stats_get(acre_pinned *pinned, acre_pinned_stats *stats)
{
    acre_pinned_stats all = {.struct_size = sizeof all};

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_stats_get: pinned is NULL");
    acre_status status = STRUCT_CHECK("acre_pinned_stats_get", acre_pinned_stats, stats);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&pinned->lock);
    stats_fill_locked(pinned, &all);
    quick_lock_drop(&pinned->lock);
    STRUCT_GIVE(acre_pinned_stats, stats, &all);
    return ACRE_OK;
}

/* Calls fn for every level. */
static void for_each(acre_pinned *pinned, void (*fn)(struct pinned_level *))
{
    fn(&pinned->allocations);
    fn(&pinned->allocated_bytes);
    fn(&pinned->requested_bytes);
    for (int i = 0; i < ACRE_PINNED_BUCKETS; i++) {
        fn(&pinned->active_requests[i]);
        fn(&pinned->active_bytes[i]);
    }
}

void acre_pinned_stats_reset_peak(acre_pinned *pinned)
{
    if (!pinned)
        return;
    quick_lock_take(&pinned->lock);
    pinned->highest_bytes = pinned_highest_bytes(pinned);
    for_each(pinned, level_reset_peak);
    pinned->alloc_time.max = pinned->alloc_time.min = 0;
    pinned->free_time.max = pinned->free_time.min = 0;
    quick_lock_drop(&pinned->lock);
}

void acre_pinned_stats_reset_accumulated(acre_pinned *pinned)
{
    if (!pinned)
        return;
    quick_lock_take(&pinned->lock);
    for_each(pinned, level_reset_accumulated);
    pinned->alloc_time.total = pinned->alloc_time.count = 0;
    pinned->free_time.total = pinned->free_time.count = 0;
    pinned->store.query_count = 0;
    memset(pinned->bucket_allocation, 0, sizeof pinned->bucket_allocation);
    quick_lock_drop(&pinned->lock);
}

/* ---- Layout --------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const struct extent *first = *(struct extent *const *)a;
    const struct extent *second = *(struct extent *const *)b;

    return first->base < second->base ? -1 : first->base > second->base;
}

static acre_block_state state_of(const struct host_block *host_block)
{
    switch ((enum host_block_state)host_block->state) {
    case PIECE_LIVE:
    case PIECE_USED:
        return ACRE_BLOCK_LIVE;
    case PIECE_WAITING:
    case PIECE_CAPTURED:
        return ACRE_BLOCK_WAITING;
    default:
        return ACRE_BLOCK_FREE;
    }
}

/* Adds a block; a layout without room for blocks is only counted. */
static void add_block(acre_cache_layout *to, char *base, uint64_t bytes,
                      const struct host_block *host_block)
{
    if (to->blocks)
        to->blocks[to->block_count] =
            (acre_block_info){.base = base,
                              .bytes = bytes,
                              .requested_bytes = host_block ? host_block->requested : 0,
                              .state = host_block ? state_of(host_block) : ACRE_BLOCK_FREE,
                              .stack = host_block && state_of(host_block) != ACRE_BLOCK_FREE
                                           ? host_block->history_stack
                                           : 0};
    to->block_count++;
}

/* Adds a piece, or the slots in it. */
static void add_piece(acre_cache_layout *to, const struct host_block *host_block)
{
    const struct pinned_slab *slab = host_block->slab;

    if (!slab) {
        add_block(to, host_block->base, host_block->bytes, host_block);
        return;
    }
    for (uint32_t i = 0; i < slab->slot_count; i++)
        add_block(to, slab->slots[i].base, slab->slot_bytes, &slab->slots[i]);
    size_t used = (size_t)slab->slot_count * slab->slot_bytes;
    if (used < host_block->bytes)
        add_block(to, host_block->base + used, host_block->bytes - used, NULL);
}

static void add_extent(acre_cache_layout *to, const struct extent *extent)
{
    acre_segment_info info = {.base = extent->base,
                              .bytes = extent->bytes,
                              .order = to->segment_count,
                              .pool = {extent->pool->id.graph, extent->pool->id.user},
                              .first_block = to->block_count,
                              .stack = extent->history_stack};

    for (const struct host_block *host_block = extent->first; host_block;
         host_block = host_block->next)
        add_piece(to, host_block);
    info.block_count = to->block_count - info.first_block;
    if (to->segments)
        to->segments[to->segment_count] = info;
    to->segment_count++;
}

static void add_pool(acre_cache_layout *to, const struct host_pool *pool, struct extent **sorted)
{
    LIST_FOR_EACH(link, &pool->extents) {
        struct extent *extent = CONTAINER_OF(link, struct extent, link);
        if (sorted)
            sorted[to->segment_count] = extent;
        add_extent(to, extent);
    }
}

static void add_pools(acre_cache_layout *to, const acre_pinned *pinned, struct extent **sorted)
{
    add_pool(to, &pinned->shared, sorted);
    LIST_FOR_EACH(link, &pinned->pools)
        add_pool(to, CONTAINER_OF(link, struct host_pool, link), sorted);
}

/* Copies everything; NULL: no host memory. */
static acre_cache_layout *layout_copy_host_locked(const acre_pinned *pinned)
{
    acre_cache_layout count = {0}, *layout = heap_zalloc(sizeof *layout);

    add_pools(&count, pinned, NULL);
    struct extent **sorted = heap_array(count.segment_count, sizeof *sorted);
    if (!layout || !sorted) {
        heap_free(layout);
        heap_free(sorted);
        return NULL;
    }
    layout->segments = heap_array(count.segment_count, sizeof *layout->segments);
    layout->blocks = heap_array(count.block_count, sizeof *layout->blocks);
    if (layout->segments && layout->blocks) {
        acre_cache_layout again = {0};
        add_pools(&again, pinned, sorted);
        qsort(sorted, again.segment_count, sizeof *sorted, by_address);
        for (uint64_t i = 0; i < again.segment_count; i++)
            add_extent(layout, sorted[i]);
    } else {
        acre_cache_layout_destroy(layout);
        layout = NULL;
    }
    heap_free(sorted);
    return layout;
}

/* ---- Snapshot ------------------------------------------------------------------------- */

acre_status acre_pinned_snapshot_parts(acre_pinned *pinned, const acre_snapshot_choice *choice,
                                       acre_snapshot_parts **out)
{
    acre_snapshot_choice all = {.struct_size = sizeof all};
    acre_status status = ACRE_OK;

    if (!pinned || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_snapshot_parts: %s is NULL",
                           pinned ? "out" : "pinned");
    if (choice)
        status = STRUCT_TAKE("acre_pinned_snapshot_parts", acre_snapshot_choice, choice, &all);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&pinned->lock);
    acre_snapshot_parts *parts =
        snapshot_parts_create(layout_copy_host_locked(pinned), history_copy(&pinned->history),
                              &pinned->conf, pinned->conf_text);
    if (parts)
        host_record_snapshot(pinned, (uint64_t)pinned_active_bytes(pinned), all.pool);
    quick_lock_drop(&pinned->lock);
    if (!parts)
        return ACRE_ERR_HOST_MEMORY;
    *out = parts;
    return ACRE_OK;
}

/* ---- Checking ------------------------------------------------------------------------- */

/* Adds what blocks of a pool are doing. */
struct tally {
    uint64_t active, waiting, captured, held;
};

static void tally_piece(struct tally *tally, const struct host_block *host_block)
{
    bool is_waiting = host_block->state == PIECE_WAITING,
         is_kept = host_block->state == PIECE_CAPTURED;

    if (host_block->slab && !host_block->is_slot) {
        for (uint32_t i = 0; i < host_block->slab->slot_count; i++)
            tally_piece(tally, &host_block->slab->slots[i]);
        return;
    }
    tally->active +=
        is_waiting || is_kept || host_block_is_live(host_block) ? host_block->bytes : 0;
    tally->waiting += is_waiting ? host_block->bytes : 0;
    tally->captured += is_kept ? host_block->bytes : 0;
}

static bool tally_pool(struct tally *tally, const struct host_pool *pool, const char **fact)
{
    if (!host_arena_check(pool, fact))
        return false;
    tally->held += pool->held_bytes;
    LIST_FOR_EACH(link, &pool->extents)
        for (const struct host_block *host_block = CONTAINER_OF(link, struct extent, link)->first;
             host_block; host_block = host_block->next)
            tally_piece(tally, host_block);
    return true;
}

static bool check_locked(const acre_pinned *pinned, const char **fact)
{
    struct tally tally = {0};

    if (!tally_pool(&tally, &pinned->shared, fact))
        return false;
    LIST_FOR_EACH(link, &pinned->pools)
        if (!tally_pool(&tally, CONTAINER_OF(link, struct host_pool, link), fact))
            return false;
    *fact = "pinned: active_bytes are those of the blocks";
    if (tally.active != (uint64_t)pinned_active_bytes(pinned))
        return false;
    *fact = "pinned: waiting_bytes and captured_bytes are those of the blocks";
    if (tally.waiting != pinned->waiting_bytes || tally.captured != pinned->captured_bytes)
        return false;
    *fact = "pinned: allocated_bytes are those of the extents";
    LIST_FOR_EACH(link, &pinned->doomed)
        tally.held += CONTAINER_OF(link, struct extent, link)->bytes;
    return tally.held == (uint64_t)level_current(&pinned->allocated_bytes);
}

acre_status pinned_verify(acre_pinned *pinned)
{
    const char *fact = "";

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "pinned_verify: a cache is needed");
    quick_lock_take(&pinned->lock);
    bool is_sound = check_locked(pinned, &fact);
    quick_lock_drop(&pinned->lock);
    return is_sound ? ACRE_OK
                    : status_fail(ACRE_ERR_INTERNAL, "pinned_verify: does not hold: %s", fact);
}
