/* SPDX-License-Identifier: MIT */
#include "cache/acre/page_space.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/acre/arena.h"
#include "cache/observe/record.h"

uint64_t page_space_bytes(const struct stitch *stitch)
{
    return stitch->page_space ? stitch->page_space->expand->mapped_bytes : 0;
}

acre_status page_space_make(acre_cache *cache, struct stitch *stitch, void *stream)
{
    struct segment *segment;
    struct expand *expand;

    if (stitch->page_space)
        return ACRE_OK;
    if (!block_store_reserve(&cache->blocks, 1))
        return ACRE_ERR_HOST_MEMORY;
    segment = heap_alloc(sizeof *segment);
    if (!segment)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = expand_create(cache->device, cache->device->info.page_bytes,
                                       cache->handle_type, &cache->peers, &expand);
    if (status != ACRE_OK) {
        cache_note_addresses(cache, cache->device->info.page_bytes, status);
        heap_free(segment);
        return status;
    }
    struct block *block = block_create(&cache->blocks);
    segment_init(segment, block, stitch->large, stream, expand->base, expand->bytes);
    segment->order = cache->order_next++;
    segment->expand = expand;
    block->state = BLOCK_UNMAPPED;
    list_push_back(&stitch->unmapped, &block->link);
    list_push_back(&cache->segments, &segment->link);
    stitch->large->segment_count++;
    stitch->page_space = segment;
    return ACRE_OK;
}

acre_status page_space_drop(acre_cache *cache, struct stitch *stitch)
{
    struct segment *segment = stitch->page_space;
    struct block *block = segment->first;

    if (block->state != BLOCK_UNMAPPED || block->next || !list_empty(&stitch->ranges))
        return ACRE_OK;
    acre_status status = expand_destroy(segment->expand);
    if (status != ACRE_OK)
        return status;
    list_remove(&block->link);
    block_destroy(&cache->blocks, block);
    list_remove(&segment->link);
    stitch->large->segment_count--;
    record_segment_end_locked(cache, segment);
    heap_free(segment);
    stitch->page_space = NULL;
    stitch->page_gaps.arena = NULL;
    return ACRE_OK;
}

static void count_pages(acre_cache *cache, struct stitch *stitch, const char *base, size_t bytes,
                        bool is_gain)
{
    struct segment *page_space = stitch->page_space;

    if (is_gain) {
        cache->held_bytes += bytes;
        cache->stats.num_device_alloc++;
        pool_gain(stitch->large, &cache->stats, bytes);
        if (!page_space->stack)
            page_space->stack = record_stack_locked(cache);
    } else {
        cache->held_bytes -= bytes;
        cache->stats.num_device_free++;
        pool_lose(stitch->large, &cache->stats, bytes);
    }
    record_segment_locked(cache, is_gain ? ACRE_ACTION_SEGMENT_MAP : ACRE_ACTION_SEGMENT_UNMAP,
                          base, bytes, page_space);
}

/* Addresses from here on are for large blocks, those before for chunks. */
static char *chunks_end(const struct stitch *stitch)
{
    const struct expand *expand = stitch->page_space->expand;

    return expand->base + expand->page_count / PAGE_SPACE_CHUNK_SHARE * expand->page_bytes;
}

/* What of an UNMAPPED block is for chunks, or for large blocks. */
static struct point point_in(const struct stitch *stitch, struct block *block, bool is_chunk)
{
    char *end = block->base + block->bytes, *border = chunks_end(stitch);
    struct point point = {block, block->base, 0};

    if (is_chunk)
        end = end < border ? end : border;
    else if (point.base < border)
        point.base = border;
    if (point.base < end)
        point.bytes = (size_t)(end - point.base);
    return point;
}

/* Bytes that are free in arena right before a point. */
static size_t free_before(const struct point *point, const struct arena *arena)
{
    const struct block *prev = point->block->prev;

    return point->base == point->block->base && arena_has(prev, arena) ? prev->bytes : 0;
}

struct point page_space_point(const struct stitch *stitch, const struct arena *arena, size_t bytes,
                              bool is_chunk)
{
    struct point best = {0};
    bool best_fits = false;

    LIST_FOR_EACH(link, &stitch->unmapped) {
        struct point point = point_in(stitch, CONTAINER_OF(link, struct block, link), is_chunk);
        bool fits = point.bytes && free_before(&point, arena) + point.bytes >= bytes;
        bool is_better =
            fits ? !best_fits || point.base < best.base : !best_fits && point.bytes > best.bytes;
        if (is_better) {
            best = point;
            best_fits = fits;
        }
    }
    return best;
}

size_t page_space_growth(const struct point *point, const struct arena *arena, size_t bytes)
{
    size_t before = point->bytes ? free_before(point, arena) : 0;

    if (bytes > before + point->bytes)
        return SIZE_MAX;
    return before >= bytes ? 0 : expand_round(bytes - before, arena->page_bytes);
}

/* Puts bytes of new pages at the front of a point; they are free in arena then. */
static acre_status grow_at(acre_cache *cache, struct stitch *stitch, struct arena *arena,
                           const struct point *point, size_t bytes)
{
    struct segment *page_space = stitch->page_space;
    struct block *block = point->block;

    if (!block_store_reserve(&cache->blocks, 3))
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = map_reserve(&cache->map, point->base, bytes);
    if (status == ACRE_OK)
        status = expand_map(page_space->expand, (size_t)(point->base - page_space->base), bytes);
    if (status != ACRE_OK)
        return status;
    if (point->base > block->base) {
        struct block *front =
            block_split(&cache->blocks, block, (size_t)(point->base - block->base));
        front->state = BLOCK_UNMAPPED;
        list_push_back(&stitch->unmapped, &front->link);
    }
    if (bytes < block->bytes)
        block = block_split(&cache->blocks, block, bytes);
    else
        list_remove(&block->link);
    block->arena = arena;
    block->stream = arena->stream;
    const char *base = block->base;
    arena_join(&cache->blocks, arena, block);
    count_pages(cache, stitch, base, bytes, true);
    return ACRE_OK;
}

acre_status page_space_shrink(acre_cache *cache, struct stitch *stitch, struct block *block,
                              size_t offset, size_t bytes)
{
    struct segment *page_space = stitch->page_space;
    size_t gone;

    if (!block_store_reserve(&cache->blocks, 2))
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = expand_unmap(page_space->expand, offset, bytes, &gone);
    if (!gone)
        return status;
    block = arena_carve(block->arena, &cache->blocks, block,
                        offset - (size_t)(block->base - page_space->base), gone);
    block->state = BLOCK_UNMAPPED;
    block->arena = NULL;
    for (int i = 0; i < 2; i++) {
        struct block *neighbour = i == 0 ? block->prev : block->next;
        if (!neighbour || neighbour->state != BLOCK_UNMAPPED)
            continue;
        list_remove(&neighbour->link);
        block_merge(&cache->blocks, block, neighbour);
    }
    list_push_back(&stitch->unmapped, &block->link);
    count_pages(cache, stitch, page_space->base + offset, gone, false);
    return status;
}

void page_space_undo(acre_cache *cache, struct stitch *stitch, const struct page_growth *growth)
{
    struct status_saved before;

    status_save(&before);
    for (size_t i = growth->count; i-- > 0;) {
        char *base = stitch->page_space->base + growth->offsets[i];
        struct block *block = stitch->page_space->first;
        while (block->base + block->bytes <= base)
            block = block->next;
        if (block->state == BLOCK_FREE)
            page_space_shrink(cache, stitch, block, growth->offsets[i], growth->bytes[i]);
    }
    status_restore(&before);
}

acre_status page_space_grow(acre_cache *cache, struct arena *arena, size_t bytes, size_t wanted,
                            bool is_chunk, struct page_growth *growth)
{
    struct stitch *stitch = arena->pool->stitch;
    acre_status status = ACRE_OK;

    growth->count = 0;
    for (size_t left = bytes; left && status == ACRE_OK;) {
        struct point point =
            page_space_point(stitch, arena, left == bytes ? wanted : left, is_chunk);
        size_t part = point.bytes < left ? point.bytes : left, i = growth->count;
        if (!part || i == GROWTH_PARTS) {
            status = ACRE_ERR_DEVICE_MEMORY; /* no addresses: more than the device has */
            break;
        }
        growth->offsets[i] = (size_t)(point.base - stitch->page_space->base);
        growth->bytes[i] = part;
        status = grow_at(cache, stitch, arena, &point, part);
        growth->count += status == ACRE_OK;
        left -= part;
    }
    if (status != ACRE_OK)
        page_space_undo(cache, stitch, growth);
    return status;
}
