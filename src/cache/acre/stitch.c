/* SPDX-License-Identifier: MIT */
/* Stitched memory: the page space, chunks of small blocks, what comes from where.
 * Ranges are chosen in stitch_range.c. */
#include "cache/acre/stitch.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/acquire.h"
#include "cache/reclaim.h"
#include "cache/threads/front.h"
#include "cache/acre/page_space.h"
#include "cache/acre/reuse.h"
#include "cache/size.h"
#include "cache/acre/stitch_range.h"
#include "cache/observe/record.h"

/* ---- Life ------------------------------------------------------------------------ */

acre_status stitch_create(acre_cache *cache, struct pool *small, struct pool *large)
{
    const struct acre_device *device = cache->device;
    struct stitch *stitch;

    if (!cache->conf.is_stitched)
        return ACRE_OK;
    if (!device_has(device, ACRE_CAP_VIRTUAL)) {
        log_line(ACRE_LOG_INFO,
                 "device %s:%d has no virtual memory: memory comes in plain "
                 "segments",
                 device->info.name, device->index);
        return ACRE_OK;
    }
    stitch = heap_zalloc(sizeof *stitch);
    if (!stitch)
        return ACRE_ERR_HOST_MEMORY;
    stitch->small = small;
    stitch->large = large;
    list_init(&stitch->unmapped);
    list_init(&stitch->ranges);
    small->stitch = large->stitch = stitch;
    large->page_bytes = large->care_bytes = device->info.page_bytes;
    return ACRE_OK;
}

void stitch_destroy(struct stitch *stitch)
{
    if (!stitch)
        return;
    LIST_FOR_EACH_SAFE(link, after, &stitch->ranges) {
        struct range *range = CONTAINER_OF(link, struct range, link);
        if (range->block)
            list_remove(&range->segment.link);
        range_abandon(range);
    }
    page_gaps_fini(&stitch->page_gaps);
    stitch->small->stitch = stitch->large->stitch = NULL;
    heap_free(stitch);
}

/* ---- Chunks ------------------------------------------------------------------------------ */

/* Makes a segment of the small pool out of a LIVE block of the page space. */
static acre_status chunk_make(acre_cache *cache, struct stitch *stitch, struct block *host,
                              struct block **out)
{
    struct segment *segment;

    if (!block_store_reserve(&cache->blocks, 2))
        return ACRE_ERR_HOST_MEMORY;
    segment = heap_alloc(sizeof *segment);
    if (!segment)
        return ACRE_ERR_HOST_MEMORY;
    struct block *block = block_create(&cache->blocks);
    segment_init(segment, block, stitch->small, host->stream, host->base, host->bytes);
    segment->order = cache->order_next++;
    segment->host = host;
    host->state = BLOCK_LENT;
    block->state = BLOCK_FREE;
    list_push_back(&cache->segments, &segment->link);
    stitch->small->segment_count++;
    pool_lose(stitch->large, &cache->stats, host->bytes);
    pool_gain(stitch->small, &cache->stats, host->bytes);
    *out = block;
    return ACRE_OK;
}

/* The arena of the large pool for memory of one of the small pool, or NULL. */
static struct arena *arena_beside(struct stitch *stitch, const struct arena *small)
{
    const struct arenas *arenas = stitch->small->index;

    return small == arenas->shared_arena ? arena_shared(stitch->large)
                                         : arena_get(stitch->large, small->stream, NULL);
}

/* Returns chunks that are free as a whole to the page space; whether there were any. */
static bool chunks_return(acre_cache *cache, struct stitch *stitch)
{
    struct pool *small = stitch->small;
    bool has_any = false;

    for (struct block *block = arena_first(small), *next; block; block = next) {
        struct segment *segment = block->segment;
        next = arena_next(small, block);
        if (block_is_split(block) || !segment->host)
            continue;
        struct arena *arena = arena_beside(stitch, block->arena);
        if (!arena)
            continue;
        struct block *host = segment->host;
        arena_remove(small, block);
        block_destroy(&cache->blocks, block);
        host->arena = arena;
        host->stream = arena->stream;
        arena_join(&cache->blocks, arena, host);
        list_remove(&segment->link);
        small->segment_count--;
        pool_lose(small, &cache->stats, segment->bytes);
        pool_gain(stitch->large, &cache->stats, segment->bytes);
        record_segment_end_locked(cache, segment);
        heap_free(segment);
        has_any = true;
    }
    return has_any;
}

/* ---- Where blocks come from ---------------------------------------------------------------- */

/* Bytes beyond the peak that a job which keeps stitching may hold: looking for
 * pages costs more than having them. */
static uint64_t tired_slack(const struct stitch *stitch, uint64_t most, uint64_t page)
{
    uint64_t end = most / STITCH_TIRED_END;

    if (stitch->made_count <= STITCH_TIRED_AFTER)
        return 0;
    uint64_t more = (stitch->made_count - STITCH_TIRED_AFTER) * STITCH_TIRED_PAGES * page;
    return more < end ? more : end;
}

static uint64_t peak_bytes(const acre_cache *cache)
{
    const struct amounts *peak = &cache->front->credit.peak_active[CREDIT_ALL];

    return (uint64_t)peak->of[CREDIT_UNITS] * CREDIT_UNIT;
}

struct block *stitch_reuse(acre_cache *cache, struct arena *arena, size_t bytes)
{
    struct stitch *stitch = arena->pool->stitch;
    uint64_t peak = peak_bytes(cache);

    if (arena->pool != stitch->large || !stitch->page_space || bytes < arena->page_bytes)
        return NULL;
    if (page_space_bytes(stitch) + bytes <= peak + tired_slack(stitch, peak, arena->page_bytes))
        return NULL;
    struct block *block = stitch_range_reuse(cache, stitch, arena, bytes);
    if (block && stitch->made_count > STITCH_TIRED_AFTER)
        stitch->made_count++;
    return block;
}

/* Most bytes to hold before free pages are stitched rather than new ones obtained. */
static uint64_t slack_end(const acre_cache *cache, const struct stitch *stitch, size_t bytes)
{
    uint64_t page = cache->device->info.page_bytes;
    uint64_t needed = page_space_bytes(stitch) - stitch->page_gaps.free_bytes + bytes;
    uint64_t most = peak_bytes(cache);

    most = needed > most ? needed : most;
    uint64_t slack = most / STITCH_SLACK_SHARE, end = most / STITCH_SLACK_END;
    uint64_t more = stitch->made_count / STITCH_SLACK_EVERY * page;
    uint64_t tired = tired_slack(stitch, most, page);

    if (slack < end)
        slack = slack + more < end ? slack + more : end;
    return expand_round(most, page) + (slack > tired ? slack : tired);
}

/* New pages, when the limits allow. */
static acre_status grow_within(acre_cache *cache, struct attempt *attempt, struct arena *arena,
                               size_t bytes, size_t wanted, struct page_growth *growth)
{
    attempt->segment_bytes = bytes;
    acre_status status = acquire_allows_locked(cache, attempt);

    if (status != ACRE_OK)
        return status;
    return page_space_grow(cache, arena, bytes, wanted, false, growth);
}

/* Grows until a free block of the page space serves. */
static acre_status grow_and_take(acre_cache *cache, struct attempt *attempt, struct arena *arena,
                                 size_t bytes, struct block **out)
{
    struct page_growth growth;
    acre_status status =
        grow_within(cache, attempt, arena, bytes, attempt->request.rounded, &growth);

    if (status != ACRE_OK)
        return status;
    *out = arena_take(arena, &cache->blocks, &cache->map, attempt->request.rounded);
    if (*out)
        return ACRE_OK;
    page_space_undo(cache, arena->pool->stitch, &growth);
    return ACRE_ERR_DEVICE_MEMORY;
}

/* Stitches free pages, after obtaining those that are missing if that is fewer than
 * growing in one place takes. */
static acre_status stitch_pages(acre_cache *cache, struct attempt *attempt, struct arena *arena,
                                size_t alone, struct block **out)
{
    struct stitch *stitch = arena->pool->stitch;
    size_t page = arena->page_bytes, bytes = attempt->request.rounded;
    struct page_choice choice = page_gaps_choose(&stitch->page_gaps, bytes, STITCH_PLENTY);
    struct page_growth growth = {0};
    acre_status status = ACRE_OK;

    if (choice.whole > stitch->page_gaps.full_count) {
        size_t missing = (choice.whole - stitch->page_gaps.full_count) * page;
        if (missing >= alone)
            return grow_and_take(cache, attempt, arena, alone, out);
        status = grow_within(cache, attempt, arena, missing, missing, &growth);
        if (status != ACRE_OK)
            return status;
        if (!page_gaps_scan(&stitch->page_gaps, stitch->page_space->expand, arena))
            status = ACRE_ERR_HOST_MEMORY;
        choice = page_gaps_choose(&stitch->page_gaps, bytes, STITCH_PLENTY);
    }
    if (status == ACRE_OK)
        status = stitch_range_make(cache, stitch, arena, bytes, &choice, out);
    if (status != ACRE_OK)
        page_space_undo(cache, stitch, &growth);
    return status;
}

/* A block of the large pool, LIVE, in the order at the top of stitch.h. */
static acre_status obtain_in_page_space(acre_cache *cache, struct attempt *attempt,
                                        struct arena *arena, struct block **out)
{
    struct stitch *stitch = attempt->request.pool->stitch;
    size_t bytes = attempt->request.rounded;
    acre_status status;

    if (chunks_return(cache, stitch)) {
        *out = arena_take(arena, &cache->blocks, &cache->map, bytes);
        if (*out)
            return ACRE_OK;
    }
    if (!page_gaps_scan(&stitch->page_gaps, stitch->page_space->expand, arena))
        return ACRE_ERR_HOST_MEMORY;
    struct point point = page_space_point(stitch, arena, bytes, false);
    size_t growth = page_space_growth(&point, arena, bytes);
    if (bytes < arena->page_bytes)
        return growth == SIZE_MAX ? ACRE_ERR_DEVICE_MEMORY
                                  : grow_and_take(cache, attempt, arena, growth, out);
    if (size_fits(page_space_bytes(stitch), growth, slack_end(cache, stitch, bytes))) {
        status = grow_and_take(cache, attempt, arena, growth, out);
        if (status == ACRE_OK || status == ACRE_ERR_HOST_MEMORY)
            return status;
    }
    return stitch_pages(cache, attempt, arena, growth, out);
}

static acre_status obtain_large(acre_cache *cache, struct attempt *attempt, struct block **out)
{
    struct stitch *stitch = attempt->request.pool->stitch;
    struct arena *arena = arena_get(stitch->large, attempt->request.stream, NULL);

    if (!arena || !block_store_reserve(&cache->blocks, 2))
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = page_space_make(cache, stitch, attempt->request.stream);
    if (status != ACRE_OK)
        return status;
    status = obtain_in_page_space(cache, attempt, arena, out);
    if (status != ACRE_OK) {
        struct status_saved before;
        status_save(&before);
        page_space_drop(cache, stitch); /* if nothing is there */
        status_restore(&before);
    }
    return status;
}

/* A page at the addresses for chunks, when the limits allow; LIVE, or NULL. */
static struct block *chunk_page(acre_cache *cache, struct attempt *attempt, struct arena *arena)
{
    struct stitch *stitch = arena->pool->stitch;
    struct page_growth growth;

    attempt->segment_bytes = arena->page_bytes;
    if (page_space_make(cache, stitch, attempt->request.stream) != ACRE_OK ||
        acquire_allows_locked(cache, attempt) != ACRE_OK)
        return NULL;
    bool has_room = page_space_point(stitch, arena, arena->page_bytes, true).bytes != 0;
    if (page_space_grow(cache, arena, arena->page_bytes, arena->page_bytes, has_room, &growth) !=
        ACRE_OK)
        return NULL;
    return arena_take(arena, &cache->blocks, &cache->map, arena->page_bytes);
}

/* A chunk: a free page, a new one, or less where there is none. */
static acre_status obtain_small(acre_cache *cache, const struct attempt *attempt,
                                struct block **out)
{
    struct stitch *stitch = attempt->request.pool->stitch;
    struct arena *arena = arena_get(stitch->large, attempt->request.stream, NULL);
    struct attempt chunk = {.request = attempt->request};
    struct block *host;
    acre_status status = ACRE_OK;

    if (!arena || !block_store_reserve(&cache->blocks, 4))
        return ACRE_ERR_HOST_MEMORY;
    host = chunk_page(cache, &chunk, arena);
    for (size_t bytes = arena->page_bytes; !host && bytes >= STITCH_CHUNK_MIN; bytes /= 4)
        host = reuse_take_locked(cache, arena, bytes);
    if (!host)
        return ACRE_ERR_DEVICE_MEMORY;
    status = chunk_make(cache, stitch, host, out);
    if (status != ACRE_OK)
        arena_put(&cache->blocks, host);
    return status;
}

acre_status stitch_obtain(acre_cache *cache, struct attempt *attempt, struct block **out)
{
    acre_status status = attempt->request.pool->is_small ? obtain_small(cache, attempt, out)
                                                         : obtain_large(cache, attempt, out);

    if (status != ACRE_OK)
        return status;
    if (!block_store_reserve(&cache->blocks, 1)) { /* the caller will cut */
        if ((*out)->pool->is_small)
            arena_insert((*out)->pool, *out);
        else
            arena_put(&cache->blocks, *out);
        return ACRE_ERR_HOST_MEMORY;
    }
    (*out)->state = BLOCK_FREE;
    return ACRE_OK;
}

/* ---- Giving back ---------------------------------------------------------------------- */

/* Unmaps the first run of whole pages in a FREE block that no range maps. */
static acre_status shrink_block(acre_cache *cache, struct stitch *stitch, struct block *block)
{
    struct segment *page_space = stitch->page_space;
    size_t page = page_space->expand->page_bytes;
    size_t begin = expand_round((size_t)(block->base - page_space->base), page);
    size_t end = ((size_t)(block->base - page_space->base) + block->bytes) / page * page;

    /* The first run only: the rest is another block then, and its turn comes. */
    while (begin < end && stitch_range_uses(stitch, begin / page))
        begin += page;
    size_t to = begin;
    while (to < end && !stitch_range_uses(stitch, to / page))
        to += page;
    return begin < to ? page_space_shrink(cache, stitch, block, begin, to - begin) : ACRE_OK;
}

/* Makes all that is free in a pool that of one arena. No work is queued. */
static void stitch_unite(acre_cache *cache, const struct pool *pool)
{
    const struct arenas *arenas = pool->index;
    struct arena *to =
        list_empty(&arenas->list) ? NULL : CONTAINER_OF(arenas->list.next, struct arena, link);
    struct block *block;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        while (arena != to && (block = bins_first(&arena->bins)))
            arena_move(&cache->blocks, block, to);
    }
}

acre_status stitch_shrink_locked(acre_cache *cache, struct stitch *stitch, bool *is_quiet)
{
    if (!stitch->page_space || cache->capture_count) /* waiting would break captures */
        return ACRE_OK;
    acre_status status = *is_quiet ? ACRE_OK : reclaim_quiesce(cache);
    if (status != ACRE_OK)
        return status;
    *is_quiet = true;
    stitch_unite(cache, stitch->small);
    chunks_return(cache, stitch);
    stitch_unite(cache, stitch->large);
    acre_status first = stitch_range_drop_idle(stitch);
    for (struct block *block = stitch->page_space->first, *next; block; block = next) {
        uint64_t before = page_space_bytes(stitch);
        next = block->next;
        if (block->state != BLOCK_FREE)
            continue;
        status = shrink_block(cache, stitch, block);
        if (page_space_bytes(stitch) != before)
            next = stitch->page_space->first; /* blocks were cut and joined */
        if (first == ACRE_OK)
            first = status;
        if (status != ACRE_OK)
            break;
    }
    if (first == ACRE_OK)
        first = page_space_drop(cache, stitch);
    return first;
}

/* ---- Facts ----------------------------------------------------------------------------- */

#define FACT(holds)                                                                                \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            *fact = "stitch: " #holds;                                                             \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

bool stitch_check(const struct stitch *stitch, const acre_cache *cache, const char **fact)
{
    size_t lent = 0, owned = 0, slots = 0, span = 0;

    LIST_FOR_EACH(link, &stitch->ranges) {
        const struct range *range = CONTAINER_OF(link, struct range, link);
        FACT(range->page_space == stitch->page_space->expand);
        if (!range_check(range, fact))
            return false;
        owned += range->piece_count;
        slots += range->count;
        span += range->capacity;
    }
    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        FACT(!segment_is_plain(segment) || segment->pool->stitch != stitch);
        if (!segment->host || segment->pool != stitch->small)
            continue;
        FACT(segment->host->state == BLOCK_LENT && segment->host->base == segment->base &&
             segment->host->bytes == segment->bytes);
        owned++;
    }
    for (const struct block *block = stitch->page_space ? stitch->page_space->first : NULL; block;
         block = block->next)
        lent += block->state == BLOCK_LENT;
    FACT(lent == owned);
    FACT(slots == stitch->slot_count && span == stitch->span_slots);
    return !stitch->page_space || expand_check(stitch->page_space->expand, fact);
}
