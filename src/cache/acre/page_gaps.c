/* SPDX-License-Identifier: MIT */
#include "cache/acre/page_gaps.h"

#include "base/bits.h"
#include "base/heap.h"
#include "cache/acre/arena.h"
#include "cache/torch/expand.h"

#include <string.h>

enum {
    EDGES_LOOK_COUNT = 256, /* suffixes, and prefixes, that a choice looks at */
};

/* Makes room for a number of pages, all in use. */
static bool page_gaps_grow(struct page_gaps *page_gaps, size_t count)
{
    size_t capacity = 2 * count;
    void *pages = heap_realloc(page_gaps->pages, capacity * sizeof *page_gaps->pages);

    if (!pages)
        return false;
    page_gaps->pages = pages;
    /* Neighbours may both be free in part in one page. */
    void *entered = heap_realloc(page_gaps->entered, 2 * capacity * sizeof *page_gaps->entered);
    if (!entered)
        return false;
    page_gaps->entered = entered;
    memset(page_gaps->pages, 0, capacity * sizeof *page_gaps->pages);
    page_gaps->entered_count = 0;
    page_gaps->capacity = capacity;
    return true;
}

/* Makes all pages ones in use. */
static bool page_gaps_reset(struct page_gaps *page_gaps, size_t count)
{
    if (count > page_gaps->capacity && !page_gaps_grow(page_gaps, count))
        return false;
    for (size_t i = 0; i < page_gaps->entered_count; i++) {
        struct edge *edge = &page_gaps->pages[page_gaps->entered[i]];
        edge->prefix = edge->suffix = 0;
    }
    page_gaps->entered_count = 0;
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
            page_gaps->entered[page_gaps->entered_count++] = i;
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
        page_gaps->entered[page_gaps->entered_count++] = i;
    }
}

bool page_gaps_scan(struct page_gaps *page_gaps, const struct expand *page_space,
                    const struct arena *arena)
{
    page_gaps->page_bytes = page_space->page_bytes;
    if (!page_gaps_reset(page_gaps, page_space->page_end))
        return false;
    for (struct block *block = bins_first(&arena->bins); block;
         block = bins_next(&arena->bins, block)) {
        size_t begin = (size_t)(block->base - page_space->base);
        if (block->segment->expand == page_space)
            page_gaps_enter(page_gaps, page_space, block, begin, begin + block->bytes);
    }
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

    for (size_t i = 0; i < page_gaps->count && found < EDGES_LOOK_COUNT; i++) {
        const struct edge *edge = &page_gaps->pages[i];
        if (!page_gaps_is_full(page_gaps, i) && (is_suffix ? edge->suffix : edge->prefix))
            out[found++] = i;
    }
    return found;
}

struct page_choice page_gaps_choose(const struct page_gaps *page_gaps, size_t bytes, size_t plenty)
{
    size_t page = page_gaps->page_bytes, suffixes[EDGES_LOOK_COUNT], prefixes[EDGES_LOOK_COUNT];
    size_t whole = (bytes + page - 1) / page, least = whole * page - bytes;
    struct page_choice best = {PAGE_GAPS_NONE, PAGE_GAPS_NONE, whole};

    if (page_gaps->full_count >= whole + plenty)
        return best;
    size_t suffix_count = page_gaps_list(page_gaps, true, suffixes),
           prefix_count = page_gaps_list(page_gaps, false, prefixes);
    for (size_t i = 0; i <= suffix_count; i++)
        for (size_t k = 0; k <= prefix_count; k++) {
            size_t first = i ? suffixes[i - 1] : PAGE_GAPS_NONE;
            size_t last = k ? prefixes[k - 1] : PAGE_GAPS_NONE;
            size_t sum =
                (i ? page_gaps->pages[first].suffix : 0) + (k ? page_gaps->pages[last].prefix : 0);
            size_t need = bytes > sum ? (bytes - sum + page - 1) / page : 0;
            size_t left = sum + need * page - bytes;
            if ((i && first == last) || need > best.whole || (need == best.whole && left >= least))
                continue;
            best = (struct page_choice){first, last, need};
            least = left;
        }
    return best;
}
