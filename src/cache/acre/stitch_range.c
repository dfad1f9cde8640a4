/* SPDX-License-Identifier: MIT */
#include "cache/acre/stitch_range.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/acre/reuse.h"
#include "cache/pools/pools.h"

static size_t page_of(const struct stitch *stitch)
{
    return stitch->page_space->expand->page_bytes;
}

/* ---- Lending ------------------------------------------------------------------------- */

/* The FREE block of the page space around an offset; near is one not far from it. */
static struct block *free_around(const struct stitch *stitch, struct block *near, size_t offset)
{
    const char *address = stitch->page_space->base + offset;

    while (address < near->base)
        near = near->prev;
    while (address >= near->base + near->bytes)
        near = near->next;
    CHECK(near->state == BLOCK_FREE);
    return near;
}

/* Lends the pages behind bytes at slot and offset of an idle range to a LIVE block
 * there. They are free in arena, and stitch->page_gaps says so. On failure, for want
 * of host memory, NULL, and nothing has changed. */
static struct block *stitch_range_lend(acre_cache *cache, struct arena *arena, struct range *range,
                                       size_t slot, size_t offset, size_t bytes)
{
    struct stitch *stitch = arena->pool->stitch;
    size_t page = page_of(stitch), left = bytes, at = offset;
    struct block *block;

    if (!block_store_reserve(&cache->blocks, 2 * (bytes / page + 2) + 1) ||
        map_reserve(&cache->map, range->base, range->capacity * page) != ACRE_OK)
        return NULL;
    for (size_t i = slot; left;) {
        size_t begin = range->pages[i] * page + at, length = 0;
        struct edge *edge = &stitch->page_gaps.pages[range->pages[i]];
        do { /* neighbours in the page space are lent together */
            size_t part = page - at < left ? page - at : left;
            length += part;
            left -= part;
            at = 0;
            i++;
        } while (left && range->pages[i] == range->pages[i - 1] + 1);
        struct block *from = free_around(stitch, edge->near, begin);
        struct block *piece =
            arena_carve(arena, &cache->blocks, from,
                        begin - (size_t)(from->base - stitch->page_space->base), length);
        piece->state = BLOCK_LENT;
        edge->near = piece;
        range->pieces[range->piece_count++] = piece;
    }
    block = block_create(&cache->blocks);
    range->slot = slot;
    range->offset = offset;
    range->block = block;
    segment_init(&range->segment, block, stitch->large, arena->stream,
                 range->base + slot * page + offset, bytes);
    range->segment.order = cache->order_next++;
    range->segment.range = range;
    list_push_back(&cache->segments, &range->segment.link);
    block->arena = arena;
    block->is_stitched = true;
    block->state = BLOCK_LIVE;
    map_set(&cache->map, block->base, block);
    return block;
}

/* ---- Finding --------------------------------------------------------------------------- */

/* Free bytes of a slot's page from an offset on, up to where they end. */
static size_t free_from(const struct stitch *stitch, const struct range *range, size_t slot,
                        size_t offset)
{
    const struct page_gaps *page_gaps = &stitch->page_gaps;
    size_t index = range->pages[slot];

    if (index == RANGE_NO_PAGE || index >= page_gaps->count)
        return 0;
    if (offset == 0)
        return page_gaps->pages[index].prefix;
    return page_gaps->pages[index].suffix >= page_gaps->page_bytes - offset
               ? page_gaps->page_bytes - offset
               : 0;
}

/* Whether all bytes of a block at slot and offset are free. */
static bool has_room(const struct stitch *stitch, const struct range *range, size_t slot,
                     size_t offset, size_t bytes)
{
    size_t page = page_of(stitch);

    for (; bytes; slot++, offset = 0) {
        size_t part = page - offset < bytes ? page - offset : bytes;
        if (slot >= range->count || free_from(stitch, range, slot, offset) < part)
            return false;
        bytes -= part;
    }
    return true;
}

/* A free stretch of a range: suffix of a slot, free slots, prefix of one. */
struct window {
    size_t slot, offset; /* where it begins */
    size_t bytes;
    size_t end; /* first slot behind the free ones */
};

/* The stretch that begins in a slot whose page has a suffix. */
static struct window window_at(const struct stitch *stitch, const struct range *range, size_t slot)
{
    const struct page_gaps *page_gaps = &stitch->page_gaps;
    size_t page = page_gaps->page_bytes, suffix = page_gaps->pages[range->pages[slot]].suffix;
    struct window window = {slot, page - suffix, suffix, slot + 1};

    while (window.end < range->count && free_from(stitch, range, window.end, 0) == page) {
        window.bytes += page;
        window.end++;
    }
    if (window.end < range->count)
        window.bytes += free_from(stitch, range, window.end, 0);
    return window;
}

/* Free pages of the page space that a block at that place of a window breaks. */
static size_t stitch_range_broken(const struct stitch *stitch, const struct range *range,
                                  size_t slot, size_t offset, size_t bytes)
{
    size_t page = page_of(stitch), count = 0;

    for (size_t end = offset + bytes, at = 0; at < end; at += page, slot++)
        count += page_gaps_is_full(&stitch->page_gaps, range->pages[slot]);
    return count;
}

/* Puts a block at that end of a window which breaks fewer free pages. */
static struct block *lend_window(acre_cache *cache, struct stitch *stitch, struct arena *arena,
                                 struct range *range, const struct window *window, size_t bytes)
{
    size_t page = page_of(stitch), last = window->offset + window->bytes - bytes;
    size_t slot = window->slot + last / page, offset = last % page;

    if (stitch_range_broken(stitch, range, window->slot, window->offset, bytes) <=
        stitch_range_broken(stitch, range, slot, offset, bytes)) {
        slot = window->slot;
        offset = window->offset;
    }
    return stitch_range_lend(cache, arena, range, slot, offset, bytes);
}

/* Lends the range that served this size before, at the place where it did. */
static struct block *reuse_same(acre_cache *cache, struct stitch *stitch, struct arena *arena,
                                size_t bytes)
{
    LIST_FOR_EACH(link, &stitch->ranges) {
        struct range *range = CONTAINER_OF(link, struct range, link);
        if (!range->block && range->made_bytes == bytes &&
            has_room(stitch, range, range->made_slot, range->made_offset, bytes))
            return stitch_range_lend(cache, arena, range, range->made_slot, range->made_offset,
                                     bytes);
    }
    return NULL;
}

struct block *stitch_range_reuse(acre_cache *cache, struct stitch *stitch, struct arena *arena,
                                 size_t bytes)
{
    if (list_empty(&stitch->ranges) ||
        !page_gaps_scan(&stitch->page_gaps, stitch->page_space->expand, arena))
        return NULL;
    /* A window is whole pages and two edges. */
    if ((stitch->page_gaps.full_count + 2) * page_of(stitch) <= bytes)
        return NULL;
    struct block *block = reuse_same(cache, stitch, arena, bytes);
    if (block)
        return block;
    size_t looks = 0;
    LIST_FOR_EACH(link, &stitch->ranges) {
        struct range *range = CONTAINER_OF(link, struct range, link);
        if (++looks > STITCH_LOOK_COUNT)
            break;
        if (range->block || range->count * page_of(stitch) < bytes)
            continue;
        for (size_t slot = 0; slot < range->count;) {
            size_t index = range->pages[slot];
            if (index >= stitch->page_gaps.count || !stitch->page_gaps.pages[index].suffix) {
                slot++;
                continue;
            }
            struct window window = window_at(stitch, range, slot);
            if (window.bytes >= bytes)
                return lend_window(cache, stitch, arena, range, &window, bytes);
            slot = window.end;
        }
    }
    return NULL;
}

/* ---- Making ---------------------------------------------------------------------------- */

/* Whether all streams that have memory of a pool are idle. */
static bool are_all_idle(acre_cache *cache, const struct pool *pool)
{
    const struct arenas *arenas = pool->index;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        if (arena != arenas->shared_arena && !reuse_is_idle(cache, arena))
            return false;
    }
    return true;
}

/* Whether work queued on an idle range is done. Blocks of several streams may have lain in
 * different slots, so that none of these streams waited for another. */
static bool is_quiet(acre_cache *cache, struct range *range)
{
    if (range->last && !(range->is_mixed ? are_all_idle(cache, range->last->pool)
                                         : reuse_is_idle(cache, range->last)))
        return false;
    range->last = NULL;
    range->is_mixed = false;
    return true;
}

/* What pages are to be part of a range. */
struct draft {
    size_t *pages; /* count of them                                  */
    size_t count;
    uint32_t *marks; /* one per page of the page space: turn, if it is taken */
    uint32_t turn;
};

static bool is_marked(const struct draft *draft, size_t page)
{
    return draft->marks[page] == draft->turn;
}

/* Fills the draft with the choice: what the range has already where it can, then free
 * pages that it has not. False: not enough of them. */
static bool stitch_range_plan(const struct stitch *stitch, const struct range *range,
                              const struct page_choice *choice, struct draft *draft)
{
    const struct page_gaps *page_gaps = &stitch->page_gaps;
    bool has_first = choice->first != PAGE_GAPS_NONE, has_last = choice->last != PAGE_GAPS_NONE;
    size_t next = 0, count = draft->count, *pages = draft->pages;

    draft->turn++;
    /* A page is at most once in a range. */
    for (size_t i = count; range && i < range->count; i++)
        if (range->pages[i] != RANGE_NO_PAGE)
            draft->marks[range->pages[i]] = draft->turn;
    if ((has_first && is_marked(draft, choice->first)) ||
        (has_last && is_marked(draft, choice->last)))
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t has = range && i < range->count ? range->pages[i] : RANGE_NO_PAGE;
        pages[i] = RANGE_NO_PAGE;
        if (i == 0 && has_first)
            pages[i] = choice->first;
        else if (i == count - 1 && has_last)
            pages[i] = choice->last;
        else if (has != RANGE_NO_PAGE && page_gaps_is_full(page_gaps, has) &&
                 !is_marked(draft, has))
            pages[i] = has;
        if (pages[i] != RANGE_NO_PAGE)
            draft->marks[pages[i]] = draft->turn;
    }
    for (size_t i = 0; i < count; i++) {
        if (pages[i] != RANGE_NO_PAGE)
            continue;
        while (next < page_gaps->count &&
               (is_marked(draft, next) || !page_gaps_is_full(page_gaps, next)))
            next++;
        if (next == page_gaps->count)
            return false;
        pages[i] = next++;
    }
    return true;
}

/* A lower bound of the slots of a range that have to get another page; counts up to enough. */
static size_t cost_least(const struct stitch *stitch, const struct range *range,
                         const struct page_choice *choice, size_t count, size_t enough)
{
    size_t cost = 0;

    for (size_t i = 0; i < count && cost < enough; i++) {
        size_t has = i < range->count ? range->pages[i] : RANGE_NO_PAGE;
        if (i == 0 && choice->first != PAGE_GAPS_NONE)
            cost += has != choice->first;
        else if (i == count - 1 && choice->last != PAGE_GAPS_NONE)
            cost += has != choice->last;
        else
            cost += !page_gaps_is_full(&stitch->page_gaps, has);
    }
    return cost;
}

/* The idle range that takes the fewest calls to have the pages, fewer than a new
 * one by a margin, since changing one undoes what it was made for; NULL: none. */
static struct range *find_cheapest(acre_cache *cache, struct stitch *stitch,
                                   const struct page_choice *choice, struct draft *draft)
{
    struct range *best = NULL;
    size_t count = draft->count, least = count, looks = 0;

    LIST_FOR_EACH(link, &stitch->ranges) {
        struct range *range = CONTAINER_OF(link, struct range, link);
        if (++looks > STITCH_LOOK_COUNT)
            break;
        size_t margin = (size_t)STITCH_PATCH_COST << 3 * range->set_count;
        if (range->block || range->capacity < count || margin >= least ||
            cost_least(stitch, range, choice, count, least - margin) + margin >= least ||
            !stitch_range_plan(stitch, range, choice, draft))
            continue;
        size_t cost = range_cost(range, draft->pages, count) + margin;
        if (cost >= least || !is_quiet(cache, range))
            continue;
        least = cost;
        best = range;
    }
    return best;
}

static void count_slots(struct stitch *stitch, const struct range *range, bool is_more)
{
    stitch->slot_count += is_more ? range->count : -range->count;
    stitch->span_slots += is_more ? range->capacity : -range->capacity;
}

static acre_status stitch_range_drop(struct stitch *stitch, struct range *range)
{
    count_slots(stitch, range, false);
    acre_status status = range_destroy(range);
    if (status != ACRE_OK)
        count_slots(stitch, range, true);
    return status;
}

/* Ends the oldest idle ranges until there is room for count more slots. */
static void make_room(acre_cache *cache, struct stitch *stitch, size_t count, size_t capacity)
{
    const struct expand *page_space = stitch->page_space->expand;
    size_t slots = STITCH_SLOT_SHARE * (page_space->mapped_bytes / page_space->page_bytes);
    size_t span = STITCH_SPAN_SHARE * page_space->page_count;

    LIST_FOR_EACH_SAFE(link, after, &stitch->ranges) {
        struct range *range = CONTAINER_OF(link, struct range, link);
        if (stitch->slot_count + count <= slots && stitch->span_slots + capacity <= span)
            return;
        if (!range->block && is_quiet(cache, range))
            stitch_range_drop(stitch, range);
    }
}

/* A new range without pages, with addresses to grow into. */
static acre_status stitch_range_add(acre_cache *cache, struct stitch *stitch, size_t count,
                                    struct range **out)
{
    size_t capacity = 2 * count + 2;

    make_room(cache, stitch, count, capacity);
    acre_status status = range_create(stitch->page_space->expand, capacity, out);
    if (status == ACRE_OK) {
        list_push_back(&stitch->ranges, &(*out)->link);
        count_slots(stitch, *out, true);
    }
    return status;
}

/* Where a block of the choice begins in its first page. */
static size_t offset_of(const struct stitch *stitch, const struct page_choice *choice, size_t bytes)
{
    size_t page = page_of(stitch), rest = bytes - choice->whole * page;

    if (choice->first == PAGE_GAPS_NONE)
        return 0;
    size_t suffix = stitch->page_gaps.pages[choice->first].suffix;
    if (choice->last == PAGE_GAPS_NONE)
        return page - rest; /* what is left over lies before the block */
    return page - (suffix < rest ? suffix : rest);
}

static acre_status stitch_range_do_make(acre_cache *cache, struct arena *arena, size_t bytes,
                                        const struct page_choice *choice, struct draft *draft,
                                        struct block **out)
{
    struct stitch *stitch = arena->pool->stitch;
    struct range *range = find_cheapest(cache, stitch, choice, draft);
    bool is_new = !range;
    acre_status status = is_new ? stitch_range_add(cache, stitch, draft->count, &range) : ACRE_OK;

    if (status != ACRE_OK)
        return status;
    bool is_planned = stitch_range_plan(stitch, range, choice, draft);
    CHECK(is_planned);
    count_slots(stitch, range, false);
    status = range_set(range, draft->pages, draft->count);
    count_slots(stitch, range, true);
    if (status == ACRE_OK) {
        *out = stitch_range_lend(cache, arena, range, 0, offset_of(stitch, choice, bytes), bytes);
        if (*out) {
            range->set_count += !is_new && range->set_count < STITCH_PATCH_MAX;
            if (stitch->made_count++ == STITCH_TIRED_AFTER)
                arenas_relax(stitch->large);
            range->made_slot = range->slot;
            range->made_offset = range->offset;
            range->made_bytes = bytes;
            return ACRE_OK;
        }
        status = ACRE_ERR_HOST_MEMORY;
    }
    if (is_new) {
        struct status_saved before;
        status_save(&before);
        stitch_range_drop(stitch, range);
        status_restore(&before);
    }
    return status;
}

acre_status stitch_range_make(acre_cache *cache, struct stitch *stitch, struct arena *arena,
                              size_t bytes, const struct page_choice *choice, struct block **out)
{
    size_t count =
        choice->whole + (choice->first != PAGE_GAPS_NONE) + (choice->last != PAGE_GAPS_NONE);
    struct draft draft = {.pages = heap_array(count, sizeof *draft.pages),
                          .count = count,
                          .marks = heap_array(stitch->page_gaps.count, sizeof *draft.marks)};
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (draft.pages && draft.marks)
        status = stitch_range_do_make(cache, arena, bytes, choice, &draft, out);
    heap_free(draft.pages);
    heap_free(draft.marks);
    return status;
}

/* ---- The rest ----------------------------------------------------------------------------- */

bool stitch_range_uses(const struct stitch *stitch, size_t page)
{
    LIST_FOR_EACH(link, &stitch->ranges) {
        const struct range *range = CONTAINER_OF(link, struct range, link);
        for (size_t i = 0; i < range->count; i++)
            if (range->pages[i] == page)
                return true;
    }
    return false;
}

acre_status stitch_range_drop_idle(struct stitch *stitch)
{
    acre_status first = ACRE_OK;

    LIST_FOR_EACH_SAFE(link, after, &stitch->ranges) {
        struct range *range = CONTAINER_OF(link, struct range, link);
        acre_status status = range->block ? ACRE_OK : stitch_range_drop(stitch, range);
        if (first == ACRE_OK)
            first = status;
    }
    return first;
}

/* The stitch of every pair of pools, in turn; NULL at the end. */
static struct stitch *next_stitch(acre_cache *cache, struct pool **pool)
{
    while ((*pool = pools_next_locked(cache, *pool)))
        if (!(*pool)->is_small && (*pool)->stitch)
            return (*pool)->stitch;
    return NULL;
}

acre_status stitch_admit_locked(acre_cache *cache, int peer)
{
    struct pool *pool = NULL;
    acre_status status = ACRE_OK;

    for (struct stitch *stitch; status == ACRE_OK && (stitch = next_stitch(cache, &pool));)
        LIST_FOR_EACH(link, &stitch->ranges)
            if (status == ACRE_OK)
                status = range_admit(CONTAINER_OF(link, struct range, link), peer);
    if (status != ACRE_OK)
        stitch_expel_locked(cache, peer);
    return status;
}

void stitch_expel_locked(acre_cache *cache, int peer)
{
    struct pool *pool = NULL;

    for (struct stitch *stitch; (stitch = next_stitch(cache, &pool));)
        LIST_FOR_EACH(link, &stitch->ranges)
            range_expel(CONTAINER_OF(link, struct range, link), peer);
}

struct stitch_span stitch_span_of(const struct block *block)
{
    const struct segment *segment = block->segment;
    const struct range *range = segment->range;

    if (segment->host)
        segment = segment->host->segment;
    struct stitch_span span = {.page_space = range ? range->page_space : segment->expand};
    size_t page = span.page_space->page_bytes;
    char *from = range ? range->base : span.page_space->base;
    size_t offset = (size_t)(block->base - from);
    span.first = offset / page;
    span.count = expand_round(offset + block->bytes, page) / page - span.first;
    span.base = from + span.first * page;
    span.pages = range ? range->pages + span.first : NULL;
    return span;
}

acre_status stitch_pages_locked(const struct stitch *stitch, stitch_page_fn fn, void *arg)
{
    const struct expand *page_space = stitch->page_space ? stitch->page_space->expand : NULL;
    acre_status status = ACRE_OK;

    for (size_t i = 0; page_space && i < page_space->page_end && status == ACRE_OK; i++)
        if (page_space->pages[i].is_mapped)
            status =
                fn(arg, page_space->pages[i].handle, page_space->base + i * page_space->page_bytes);
    LIST_FOR_EACH(link, &stitch->ranges) {
        const struct range *range = CONTAINER_OF(link, struct range, link);
        for (size_t i = 0; i < range->count && status == ACRE_OK; i++)
            if (range->pages[i] != RANGE_NO_PAGE)
                status = fn(arg, page_space->pages[range->pages[i]].handle,
                            range->base + i * page_space->page_bytes);
    }
    return status;
}
