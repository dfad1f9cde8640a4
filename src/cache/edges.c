/* SPDX-License-Identifier: MIT */
#include "cache/edges.h"

#include "base/heap.h"
#include "cache/arena.h"
#include "cache/expand.h"

enum {
    EDGES_LOOK_COUNT = 256, /* suffixes, and prefixes, that a choice looks at */
};

/* Makes room for so many pages, all in use. */
static bool reset(struct edges *edges, size_t count)
{
    if (count > edges->capacity) {
        void *grown = heap_realloc(edges->pages, 2 * count * sizeof *edges->pages);
        if (!grown)
            return false;
        edges->pages = grown;
        edges->capacity = 2 * count;
    }
    for (size_t i = 0; i < count; i++)
        edges->pages[i].prefix = edges->pages[i].suffix = 0;
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

    edges->free_bytes += end - begin;
    for (size_t i = begin / page; i * page < end; i++) {
        struct edge *edge = &edges->pages[i];
        if (!home->pages[i].has_handle)
            continue;
        size_t from = i * page > begin ? i * page : begin;
        size_t to = (i + 1) * page < end ? (i + 1) * page : end;
        if (from == i * page)
            edge->prefix = to - from;
        if (to == (i + 1) * page)
            edge->suffix = to - from;
        edge->near = block;
        edges->full_count += to - from == page;
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
