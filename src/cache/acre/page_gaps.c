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

/* Makes room for so many pages, all in use. */
static bool grow(struct edges *edges, size_t count)
{
    size_t capacity = 2 * count;
    void *pages = heap_realloc(edges->pages, capacity * sizeof *edges->pages);

    if (!pages)
        return false;
    edges->pages = pages;
    /* Neighbours may both be free in part in one page. */
    void *entered = heap_realloc(edges->entered, 2 * capacity * sizeof *edges->entered);
    if (!entered)
        return false;
    edges->entered = entered;
    memset(edges->pages, 0, capacity * sizeof *edges->pages);
    edges->entered_count = 0;
    edges->capacity = capacity;
    return true;
}

/* Makes all pages ones in use. */
static bool reset(struct edges *edges, size_t count)
{
    if (count > edges->capacity && !grow(edges, count))
        return false;
    for (size_t i = 0; i < edges->entered_count; i++) {
        struct edge *edge = &edges->pages[edges->entered[i]];
        edge->prefix = edge->suffix = 0;
    }
    edges->entered_count = 0;
    edges->count = count;
    edges->full_count = 0;
    edges->free_bytes = 0;
    return true;
}

/* Enters a free block of the home, given by its offsets. Pages that lost their
 * handle in a failed call are of use at home only. */
static void enter(struct edges *edges, const struct expand *home, struct block *block,
                  size_t begin, size_t end)
{
    size_t page = edges->page_bytes;
    unsigned shift = bit_high(page);
    size_t at = begin & ~(page - 1);

    edges->free_bytes += end - begin;
    for (size_t i = begin >> shift; at < end; i++, at += page) {
        struct edge *edge = &edges->pages[i];
        if (!home->pages[i].has_handle)
            continue;
        if (at >= begin && end - at >= page) {
            *edge = (struct edge){page, page, block};
            edges->full_count++;
            edges->entered[edges->entered_count++] = i;
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
        edges->entered[edges->entered_count++] = i;
    }
}

bool edges_scan(struct edges *edges, const struct expand *home, const struct arena *arena)
{
    edges->page_bytes = home->page_bytes;
    if (!reset(edges, home->page_end))
        return false;
    for (struct block *block = bins_first(&arena->bins); block;
         block = bins_next(&arena->bins, block)) {
        size_t begin = (size_t)(block->base - home->base);
        if (block->segment->expand == home)
            enter(edges, home, block, begin, begin + block->bytes);
    }
    return true;
}

void edges_fini(struct edges *edges)
{
    heap_free(edges->pages);
    heap_free(edges->entered);
    *edges = (struct edges){0};
}

/* Pages that are not free but have a suffix, or a prefix; gives how many. */
static size_t list(const struct edges *edges, bool is_suffix, size_t out[EDGES_LOOK_COUNT])
{
    size_t found = 0;

    for (size_t i = 0; i < edges->count && found < EDGES_LOOK_COUNT; i++) {
        const struct edge *edge = &edges->pages[i];
        if (!edges_is_full(edges, i) && (is_suffix ? edge->suffix : edge->prefix))
            out[found++] = i;
    }
    return found;
}

struct choice edges_choose(const struct edges *edges, size_t bytes, size_t plenty)
{
    size_t page = edges->page_bytes, suffixes[EDGES_LOOK_COUNT], prefixes[EDGES_LOOK_COUNT];
    size_t whole = (bytes + page - 1) / page, least = whole * page - bytes;
    struct choice best = {EDGES_NONE, EDGES_NONE, whole};

    if (edges->full_count >= whole + plenty)
        return best;
    size_t suffix_count = list(edges, true, suffixes), prefix_count = list(edges, false, prefixes);
    for (size_t i = 0; i <= suffix_count; i++)
        for (size_t k = 0; k <= prefix_count; k++) {
            size_t first = i ? suffixes[i - 1] : EDGES_NONE;
            size_t last = k ? prefixes[k - 1] : EDGES_NONE;
            size_t sum = (i ? edges->pages[first].suffix : 0) + (k ? edges->pages[last].prefix : 0);
            size_t need = bytes > sum ? (bytes - sum + page - 1) / page : 0;
            size_t left = sum + need * page - bytes;
            if ((i && first == last) || need > best.whole ||
                (need == best.whole && left >= least))
                continue;
            best = (struct choice){first, last, need};
            least = left;
        }
    return best;
}
