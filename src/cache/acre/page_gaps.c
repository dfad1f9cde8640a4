/* SPDX-License-Identifier: MIT */
#include "cache/acre/page_gaps.h"

#include "base/bits.h"
#include "base/heap.h"
#include "cache/acre/arena.h"
#include "cache/torch/expand.h"

#include <stdlib.h>
#include <string.h>

enum {
    EDGES_LOOK_COUNT = 256, /* suffixes, and prefixes, that a choice looks at */
};

/* The first page from there on of which something is free; count or more: none. */
static size_t page_next(const struct page_gaps *page_gaps, size_t from)
{
    size_t count = page_gaps->count;

    for (size_t at = from; at < count; at = (at / 64 + 1) * 64) {
        uint64_t word = page_gaps->entered[at / 64] >> at % 64;
        if (word)
            return at + bit_low(word);
    }
    return count;
}

/* Makes room for a number of pages, all in use. */
static bool page_gaps_grow(struct page_gaps *page_gaps, size_t count)
{
    size_t capacity = (2 * count + 63) & ~(size_t)63;
    void *pages = heap_realloc(page_gaps->pages, capacity * sizeof *page_gaps->pages);

    if (!pages)
        return false;
    page_gaps->pages = pages;
    void *entered = heap_realloc(page_gaps->entered, capacity / 8);
    if (!entered)
        return false;
    page_gaps->entered = entered;
    memset(page_gaps->pages, 0, capacity * sizeof *page_gaps->pages);
    memset(page_gaps->entered, 0, capacity / 8);
    page_gaps->capacity = capacity;
    return true;
}

/* Makes all pages ones in use. */
static bool page_gaps_reset(struct page_gaps *page_gaps, size_t count)
{
    if (count > page_gaps->capacity && !page_gaps_grow(page_gaps, count))
        return false;
    for (size_t i = page_next(page_gaps, 0); i < page_gaps->count; i = page_next(page_gaps, i + 1))
        page_gaps->pages[i].prefix = page_gaps->pages[i].suffix = 0;
    if (page_gaps->count)
        memset(page_gaps->entered, 0, (page_gaps->count + 63) / 64 * sizeof *page_gaps->entered);
    page_gaps->count = count;
    page_gaps->full_count = 0;
    page_gaps->free_bytes = 0;
    return true;
}

/* Enters a free block of the page space, given by its offsets. Pages that lost their
 * handle in a failed call are of use in the page space only. */
static void page_gaps_enter(struct page_gaps *page_gaps, const struct expand *page_space,
                            struct block *block, size_t begin, size_t end)
{
    size_t page = page_gaps->page_bytes;
    unsigned shift = bit_high(page);
    size_t at = begin & ~(page - 1);

    page_gaps->free_bytes += end - begin;
    for (size_t i = begin >> shift; at < end; i++, at += page) {
        struct edge *edge = &page_gaps->pages[i];
        if (!page_space->pages[i].has_handle)
            continue;
        if (at >= begin && end - at >= page) {
            *edge = (struct edge){page, page, block};
            page_gaps->full_count++;
            page_gaps->entered[i / 64] |= (uint64_t)1 << i % 64;
            continue;
        }
        size_t from = at > begin ? at : begin;
        size_t to = at + page < end ? at + page : end;
        bool is_first = from == at, is_last = to == at + page;
        if (!is_first && !is_last)
            continue;
        if (is_first)
            edge->prefix = to - from;
        if (is_last)
            edge->suffix = to - from;
        edge->near = block;
        page_gaps->entered[i / 64] |= (uint64_t)1 << i % 64;
    }
}

bool page_gaps_scan(struct page_gaps *page_gaps, const struct expand *page_space,
                    const struct arena *arena)
{
    if (page_gaps->arena == arena && page_gaps->arena_changes == arena->bins.change_count &&
        page_gaps->page_changes == page_space->change_count)
        return true;
    page_gaps->arena = NULL;
    page_gaps->page_bytes = page_space->page_bytes;
    if (!page_gaps_reset(page_gaps, page_space->page_end))
        return false;
    for (struct block *block = bins_first(&arena->bins); block;
         block = bins_next(&arena->bins, block)) {
        size_t begin = (size_t)(block->base - page_space->base);
        if (block->segment->expand == page_space)
            page_gaps_enter(page_gaps, page_space, block, begin, begin + block->bytes);
    }
    page_gaps->arena = arena;
    page_gaps->arena_changes = arena->bins.change_count;
    page_gaps->page_changes = page_space->change_count;
    return true;
}

void page_gaps_fini(struct page_gaps *page_gaps)
{
    heap_free(page_gaps->pages);
    heap_free(page_gaps->entered);
    *page_gaps = (struct page_gaps){0};
}

/* Pages that are not free but have a suffix, or a prefix; gives how many. */
static size_t page_gaps_list(const struct page_gaps *page_gaps, bool is_suffix,
                             size_t out[EDGES_LOOK_COUNT])
{
    size_t found = 0;

    for (size_t i = page_next(page_gaps, 0); i < page_gaps->count && found < EDGES_LOOK_COUNT;
         i = page_next(page_gaps, i + 1)) {
        const struct edge *edge = &page_gaps->pages[i];
        if (!page_gaps_is_full(page_gaps, i) && (is_suffix ? edge->suffix : edge->prefix))
            out[found++] = i;
    }
    return found;
}

/* A prefix among those that a choice looks at. */
struct page_prefix {
    size_t bytes, page;
};

static int page_prefix_compare(const void *a, const void *b)
{
    const struct page_prefix *one = a, *other = b;

    if (one->bytes != other->bytes)
        return one->bytes < other->bytes ? -1 : 1;
    return one->page < other->page ? -1 : one->page > other->page;
}

/* What a choice looks at: suffixes by page, prefixes by size and then by page. The first of
 * both is that of no page, with no bytes. */
struct edges {
    size_t suffixes[EDGES_LOOK_COUNT + 1];
    struct page_prefix prefixes[EDGES_LOOK_COUNT + 1];
    size_t suffix_count, prefix_count;
};

static void edges_list(const struct page_gaps *page_gaps, struct edges *edges)
{
    size_t pages[EDGES_LOOK_COUNT], count = page_gaps_list(page_gaps, false, pages);

    edges->prefixes[0] = (struct page_prefix){0, PAGE_GAPS_NONE};
    for (size_t i = 0; i < count; i++)
        edges->prefixes[i + 1] = (struct page_prefix){page_gaps->pages[pages[i]].prefix, pages[i]};
    qsort(edges->prefixes + 1, count, sizeof *edges->prefixes, page_prefix_compare);
    edges->prefix_count = count + 1;
    edges->suffixes[0] = PAGE_GAPS_NONE;
    edges->suffix_count = page_gaps_list(page_gaps, true, edges->suffixes + 1) + 1;
}

/* The smallest prefix of at least so many bytes in a page that is not first, or NULL. */
static const struct page_prefix *page_prefix_find(const struct edges *edges, size_t bytes,
                                                  size_t first)
{
    size_t low = 0, high = edges->prefix_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (edges->prefixes[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < edges->prefix_count && first != PAGE_GAPS_NONE && edges->prefixes[low].page == first)
        low++;
    return low < edges->prefix_count ? &edges->prefixes[low] : NULL;
}

/* The suffix and the prefix that together have the fewest bytes, but at least so many; false:
 * no two have as many. Of equal ones the first pages win. */
static bool edges_choose(const struct page_gaps *page_gaps, const struct edges *edges, size_t bytes,
                         struct page_choice *best)
{
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < edges->suffix_count; i++) {
        size_t first = edges->suffixes[i], suffix = i ? page_gaps->pages[first].suffix : 0;
        const struct page_prefix *prefix =
            page_prefix_find(edges, bytes > suffix ? bytes - suffix : 0, first);
        if (!prefix || suffix + prefix->bytes >= least)
            continue;
        least = suffix + prefix->bytes;
        best->first = first;
        best->last = prefix->page;
    }
    return least != SIZE_MAX;
}

struct page_choice page_gaps_choose(const struct page_gaps *page_gaps, size_t bytes, size_t plenty)
{
    size_t page = page_gaps->page_bytes, whole = (bytes + page - 1) / page;
    struct page_choice best = {PAGE_GAPS_NONE, PAGE_GAPS_NONE, whole};
    struct edges edges;

    if (page_gaps->full_count >= whole + plenty)
        return best;
    edges_list(page_gaps, &edges);
    /* Two edges are less than two pages, so that they save two, one or none. */
    for (size_t saved = whole < 2 ? whole : 2; saved > 0; saved--)
        if (edges_choose(page_gaps, &edges, bytes - (whole - saved) * page, &best)) {
            best.whole = whole - saved;
            return best;
        }
    return best;
}
