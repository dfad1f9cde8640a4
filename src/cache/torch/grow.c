/* SPDX-License-Identifier: MIT */
/* Expandable segments: pages put into and taken out of reserved addresses.
 *
 * Growing takes, of the free blocks that touch unmapped addresses, the one with
 * the lowest address behind which enough is free or unmapped, and puts pages
 * into its holes until it is large enough. So holes that were left when pages
 * went back are filled before a segment grows at its end.
 *
 * The limit is checked against what a plain segment would take, as PyTorch's
 * allocator does; whole pages may go beyond it. */
#include "cache/torch/grow.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/reclaim.h"
#include "cache/torch/expand.h"
#include "cache/observe/record.h"
#include "cache/torch/shelf.h"
#include "cache/size.h"
#include "cache/acre/stitch.h"

/* ---- Accounts ------------------------------------------------------------------ */

static void count_mapped(acre_cache *cache, struct segment *segment, const char *base, size_t bytes)
{
    cache->held_bytes += bytes;
    cache->stats.num_device_alloc++;
    pool_gain(segment->pool, &cache->stats, bytes);
    if (!segment->stack)
        segment->stack = record_stack_locked(cache);
    record_segment_locked(cache, ACRE_ACTION_SEGMENT_MAP, base, bytes, segment);
}

static void count_unmapped(acre_cache *cache, struct segment *segment, const char *base,
                           size_t bytes)
{
    cache->held_bytes -= bytes;
    cache->stats.num_device_free++;
    pool_lose(segment->pool, &cache->stats, bytes);
    record_segment_locked(cache, ACRE_ACTION_SEGMENT_UNMAP, base, bytes, segment);
}

/* ---- Segments -------------------------------------------------------------------- */

static size_t page_bytes(const acre_cache *cache, const struct pool *pool)
{
    size_t bytes = pool->is_small ? SIZE_SMALL_SEGMENT : cache->conf.large_segment_bytes;

    return expand_round(bytes, cache->device->info.page_bytes);
}

/* Number of a new segment. One that could not get a page had its number for
 * nothing; in PyTorch's allocator it is still there and would grow next, so its
 * number is the next one's. */
static uint64_t take_order(acre_cache *cache, struct shelf *shelf)
{
    uint64_t order = shelf->order_unused;

    shelf->order_unused = SHELF_NO_ORDER;
    return order == SHELF_NO_ORDER ? cache_take_order(cache) : order;
}

static void keep_order(struct shelf *shelf, uint64_t order)
{
    if (order < shelf->order_unused)
        shelf->order_unused = order;
}

/* Makes a segment without pages: one UNMAPPED block. */
static acre_status segment_make(acre_cache *cache, const struct request *request,
                                struct block **out)
{
    struct shelf *shelf = pool_shelf(request->pool, request->stream);
    size_t page = page_bytes(cache, request->pool);
    struct expand *expand;

    if (request->rounded > expand_span(cache->device, page)) {
        keep_order(shelf, take_order(cache, shelf));
        return ACRE_ERR_DEVICE_MEMORY; /* no segment could ever hold it */
    }
    struct segment *segment = heap_alloc(sizeof *segment);
    if (!segment)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status =
        expand_create(cache->device, page, cache->handle_type, &cache->peers, &expand);
    if (status != ACRE_OK) {
        cache_note_addresses(cache, page, status);
        heap_free(segment);
        return status;
    }
    struct block *block = block_create(&cache->blocks);
    segment_init(segment, block, request->pool, request->stream, expand->base, expand->bytes);
    segment->order = take_order(cache, shelf);
    segment->expand = expand;
    block->is_expandable = true;
    block->state = BLOCK_UNMAPPED;
    shelf_unmapped_insert(shelf, block);
    list_push_back(&cache->segments, &segment->link);
    request->pool->segment_count++;
    *out = block;
    return ACRE_OK;
}

static bool is_bare(const struct segment *segment)
{
    return segment->first->state == BLOCK_UNMAPPED && !segment->first->next;
}

/* Ends a segment without pages. On failure it stays. */
static acre_status segment_drop(acre_cache *cache, struct segment *segment)
{
    struct block *block = segment->first;
    acre_status status = expand_destroy(segment->expand);

    if (status != ACRE_OK)
        return status;
    shelf_unmapped_remove(pool_shelf(block->pool, block->stream), block);
    block_destroy(&cache->blocks, block);
    list_remove(&segment->link);
    segment->pool->segment_count--;
    record_segment_end_locked(cache, segment);
    heap_free(segment);
    return ACRE_OK;
}

/* ---- Pages ------------------------------------------------------------------------- */

/* Joins a FREE block that is in no index with free neighbours, and indexes it. */
static void settle_free(acre_cache *cache, struct block *block)
{
    struct pool *pool = block->pool;

    for (int i = 0; i < 2; i++) {
        struct block *neighbour = i == 0 ? block->prev : block->next;
        if (!neighbour || neighbour->state != BLOCK_FREE)
            continue;
        pool_remove(pool, neighbour);
        block_merge(&cache->blocks, block, neighbour);
    }
    pool_insert(pool, block);
}

/* Puts pages into the first bytes, rounded up to whole pages, of an UNMAPPED
 * block; *out is the FREE block they are part of then, which is indexed. */
static acre_status map_front(acre_cache *cache, struct block *block, size_t bytes,
                             struct block **out)
{
    struct segment *segment = block->segment;
    size_t whole = expand_round(bytes, segment->expand->page_bytes);
    const char *base = block->base;

    if (!block_store_reserve(&cache->blocks, 2))
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = map_reserve(&cache->map, block->base, whole);
    if (status == ACRE_OK)
        status = expand_map(segment->expand, (size_t)(block->base - segment->base), whole);
    if (status != ACRE_OK)
        return status;
    if (whole < block->bytes) /* the rest keeps its place among the unmapped */
        block = block_split(&cache->blocks, block, whole);
    else
        shelf_unmapped_remove(pool_shelf(block->pool, block->stream), block);
    block->state = BLOCK_FREE;
    settle_free(cache, block);
    count_mapped(cache, segment, base, whole);
    *out = block;
    return ACRE_OK;
}

/* Turns a middle part of a FREE block that is in no index, whose pages are gone,
 * into an UNMAPPED block, which is the result; what lies before and behind it
 * stays free. Two spare objects must be there. */
static struct block *mark_unmapped(acre_cache *cache, struct block *block, size_t before,
                                   size_t bytes)
{
    struct shelf *shelf = pool_shelf(block->pool, block->stream);
    struct block *middle = block;

    if (before) {
        struct block *front = block_split(&cache->blocks, block, before);
        front->state = BLOCK_FREE;
        pool_insert(front->pool, front);
    }
    if (bytes < block->bytes) {
        middle = block_split(&cache->blocks, block, bytes);
        block->requested = 0;
        pool_insert(block->pool, block);
    }
    middle->state = BLOCK_UNMAPPED;
    for (int i = 0; i < 2; i++) {
        struct block *neighbour = i == 0 ? middle->prev : middle->next;
        if (!neighbour || neighbour->state != BLOCK_UNMAPPED)
            continue;
        shelf_unmapped_remove(shelf, neighbour);
        block_merge(&cache->blocks, middle, neighbour);
    }
    shelf_unmapped_insert(shelf, middle);
    return middle;
}

/* Takes all whole pages out of *block, which is FREE; it becomes the block where
 * they were. */
static acre_status unmap_block(acre_cache *cache, struct block **block)
{
    struct segment *segment = (*block)->segment;
    size_t page = segment->expand->page_bytes;
    size_t offset = (size_t)((*block)->base - segment->base), end = offset + (*block)->bytes;
    size_t first = expand_round(offset, page), gone;

    end -= end % page;
    if (end <= first)
        return ACRE_OK;
    if (!block_store_reserve(&cache->blocks, 2))
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = expand_unmap(segment->expand, first, end - first, &gone);
    if (!gone)
        return status;
    pool_remove(segment->pool, *block);
    *block = mark_unmapped(cache, *block, first - offset, gone);
    count_unmapped(cache, segment, segment->base + first, gone);
    return status;
}

/* Takes pages out of all free blocks of a segment, which goes when it has none
 * left; goes on after an error and gives the first one. */
static acre_status unmap_segment(acre_cache *cache, struct segment *segment)
{
    acre_status first = ACRE_OK;

    for (struct block *block = segment->first; block; block = block->next) {
        if (block->state != BLOCK_FREE)
            continue;
        acre_status status = unmap_block(cache, &block);
        if (first == ACRE_OK)
            first = status;
    }
    if (first == ACRE_OK && is_bare(segment))
        first = segment_drop(cache, segment);
    return first;
}

acre_status grow_shrink_locked(acre_cache *cache, const struct pool *pool, bool *is_quiet)
{
    acre_status first = ACRE_OK;

    LIST_FOR_EACH_SAFE(link, after, &cache->segments) {
        struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (!segment->expand || segment->pool != pool ||
            !reclaim_may_release_locked(cache, segment))
            continue;
        acre_status status = reclaim_settle_locked(cache, segment, is_quiet);
        if (status == ACRE_OK)
            status = unmap_segment(cache, segment);
        if (first == ACRE_OK)
            first = status;
    }
    return first;
}

/* ---- Growing ------------------------------------------------------------------------ */

/* Whether the given number of bytes from block on is free or unmapped. */
static bool has_room(const struct block *block, size_t bytes)
{
    size_t sum = 0;

    for (; block && (block->state == BLOCK_FREE || block->state == BLOCK_UNMAPPED);
         block = block->next) {
        sum += block->bytes;
        if (sum >= bytes)
            return true;
    }
    return false;
}

/* The block to grow: UNMAPPED, or FREE before an UNMAPPED one; NULL: none. */
static struct block *find_candidate(const struct request *request)
{
    const struct shelf *shelf = pool_shelf(request->pool, request->stream);

    for (struct block *unmapped = shelf_unmapped_first(shelf); unmapped;
         unmapped = shelf_unmapped_next(unmapped)) {
        struct block *prev = unmapped->prev;
        struct block *block = prev && prev->state == BLOCK_FREE ? prev : unmapped;
        if (has_room(block, request->rounded))
            return block;
    }
    return NULL;
}

static size_t grow_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

acre_status grow_locked(acre_cache *cache, const struct request *request, struct block **out)
{
    struct block *block;
    acre_status status = ACRE_OK;

    if (!block_store_reserve(&cache->blocks, 2))
        return ACRE_ERR_HOST_MEMORY;
    block = find_candidate(request);
    if (!block)
        status = segment_make(cache, request, &block);
    if (status != ACRE_OK)
        return status;
    struct segment *segment = block->segment;
    if (block->state == BLOCK_UNMAPPED)
        status = map_front(cache, block, grow_smaller(block->bytes, request->rounded), &block);
    while (status == ACRE_OK && block->bytes < request->rounded) {
        struct block *next = block->next;
        size_t missing = request->rounded - block->bytes;
        status = map_front(cache, next, grow_smaller(missing, next->bytes), &block);
    }
    if (status == ACRE_OK) {
        pool_remove(block->pool, block);
        *out = block;
        return ACRE_OK;
    }
    if (is_bare(segment)) {
        uint64_t order = segment->order;
        struct status_saved before;
        status_save(&before);
        if (segment_drop(cache, segment) == ACRE_OK)
            keep_order(pool_shelf(request->pool, request->stream), order);
        status_restore(&before);
    }
    return status;
}

/* ---- Options ------------------------------------------------------------------------- */

/* Index: values of option expandable_segments_handle_type. */
static const acre_handle_type wanted_types[] = {ACRE_HANDLE_FABRIC, ACRE_HANDLE_POSIX,
                                                ACRE_HANDLE_FABRIC, ACRE_HANDLE_NONE};

void grow_configure_locked(acre_cache *cache)
{
    cache->expands = cache->conf.is_expandable && cache->facts.can_expand &&
                     device_has(cache->device, ACRE_CAP_VIRTUAL) && cache->device->info.page_bytes;
    cache->handle_type = wanted_types[cache->conf.handle_choice];
}

/* Nobody would notice a page that stayed, so a refusal is met with a second try. */
static bool release_probe(const struct acre_device *device, void *handle)
{
    return device->ops->release(device->self, device->index, handle) == ACRE_OK ||
           device->ops->release(device->self, device->index, handle) == ACRE_OK;
}

/* What the device has of a type or a weaker one, found out with one page of its
 * own; the type itself when that cannot be told now. */
static acre_handle_type grow_probe(const struct acre_device *device, acre_handle_type type)
{
    void *handle;

    for (;; type = type == ACRE_HANDLE_FABRIC ? ACRE_HANDLE_POSIX : ACRE_HANDLE_NONE) {
        if (type == ACRE_HANDLE_POSIX && !device_has(device, ACRE_CAP_SHARE_FD))
            continue;
        acre_status status = device->ops->create(device->self, device->index,
                                                 device->info.page_bytes, type, &handle);
        if (status == ACRE_OK && !release_probe(device, handle))
            log_line(ACRE_LOG_ERROR, "a page could not be returned: %s", acre_last_error());
        if (status != ACRE_ERR_UNSUPPORTED || type == ACRE_HANDLE_NONE)
            return type;
    }
}

void grow_announce(acre_cache *cache)
{
    static const char *const names[] = {"not shareable", "shareable as descriptors",
                                        "shareable by fabric"};
    struct status_saved before;

    quick_lock_take(&cache->lock);
    bool is_on = cache->conf.is_expandable && cache->facts.can_expand;
    bool expands = cache->expands, is_said = cache->is_expanding_said;
    bool is_explicit = cache->conf.handle_choice != 0;
    acre_handle_type wanted = cache->handle_type;
    cache->is_expanding_said |= is_on;
    quick_lock_drop(&cache->lock);
    if (!is_on)
        return;
    if (!expands) {
        if (!is_said)
            log_line(ACRE_LOG_WARN,
                     "expandable_segments: device %s:%d has no virtual memory, "
                     "so segments are plain",
                     cache->device->info.name, cache->device->index);
        return;
    }
    status_save(&before);
    acre_handle_type type = grow_probe(cache->device, wanted);
    status_restore(&before);
    quick_lock_take(&cache->lock);
    if (cache->handle_type == wanted)
        cache->handle_type = type;
    quick_lock_drop(&cache->lock);
    if (!is_said || (is_explicit && type != wanted))
        log_line(is_explicit && type != wanted ? ACRE_LOG_WARN : ACRE_LOG_INFO,
                 "expandable_segments: pages of device %s:%d are %s", cache->device->info.name,
                 cache->device->index, names[type]);
}

/* ---- Peers --------------------------------------------------------------------------- */

static acre_status admit_locked(acre_cache *cache, int peer)
{
    acre_status status = ACRE_OK;

    LIST_FOR_EACH(link, &cache->segments) {
        struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (segment->expand && status == ACRE_OK)
            status = expand_admit(segment->expand, peer);
    }
    if (status == ACRE_OK)
        status = stitch_admit_locked(cache, peer);
    if (status == ACRE_OK) {
        expand_peers_add(&cache->peers, peer);
        return ACRE_OK;
    }
    LIST_FOR_EACH(link, &cache->segments) {
        struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (segment->expand && expand_peers_has(&segment->expand->peers, peer))
            expand_expel(segment->expand, peer);
    }
    return status;
}

acre_status acre_cache_peer_enable(acre_cache *cache, acre_device *peer)
{
    bool is_linked = false;

    if (!cache || !peer)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_peer_enable: an argument is NULL");
    acre_status status = acre_device_can_access_peer(peer, cache->device, &is_linked);
    if (status != ACRE_OK)
        return status;
    if (!is_linked)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "acre_cache_peer_enable: device %d does not reach memory of device "
                           "%d; copy instead",
                           peer->index, cache->device->index);
    if (peer == cache->device)
        return ACRE_OK;
    quick_lock_take(&cache->lock);
    if (!expand_peers_has(&cache->peers, peer->index))
        status = admit_locked(cache, peer->index);
    quick_lock_drop(&cache->lock);
    return status;
}
