/* SPDX-License-Identifier: MIT */
/* The skyline is the height of what is placed, as runs of sections of one height:
 *
 *        ____
 *       |    |__        take the lowest run; put the best-ranked buffer there
 *    ___|       |__     whose life fits in the run; when none does, the run
 *       run a  b  c     rises to its lower neighbour and joins it
 *
 * A heap gives the lowest run, the first of equal ones. Buffers not yet placed
 * are leaves of a tree over (first, last): every node knows the box of its
 * buffers and their best rank, so the best one within a run is found by looking
 * at few nodes. A placement costs about the square root of the number of
 * buffers at worst and far less as a rule.
 *
 * One thread at a time; several skylines may share their sections.
 */
#include "plan/place/skyline.h"

#include "base/check.h"
#include "base/heap.h"
#include "plan/place/clock.h"

#include <string.h>

#define LEAF        8     /* buffers of a leaf, at most                    */
#define CLOCK_STEPS 4096u /* placements between looks at the clock         */
#define NO_RANK     UINT32_MAX
#define NO_RUN      UINT32_MAX

/* Buffers below a node that are not yet placed. */
struct skyline_node {
    uint32_t first_min, first_max, last_min, last_max;
    uint32_t best; /* smallest rank, or NO_RANK when there are none */
};

/* A buffer, next to those of its leaf. */
struct item {
    uint32_t first, last; /* sections of its life                          */
    uint32_t rank;        /* NO_RANK once placed                           */
    uint32_t buffer;
};

/* A run, known by its first section. */
struct skyline_run {
    int64_t height;
    uint32_t end;     /* first section behind it                       */
    uint32_t before;  /* first section of the run before, or NO_RUN    */
    uint32_t heap_at; /* where it stands in the heap                   */
};

struct skyline {
    const struct sections *sections;
    uint32_t count;             /* buffers that live                             */
    uint32_t depth;             /* of the tree; leaves are 1 << depth            */
    struct skyline_node *nodes; /* 1 is the root, 2i and 2i + 1 its children     */
    uint32_t *leaf_start;       /* by leaf and one more, into items              */
    struct item *items;         /* by leaf                                       */
    uint32_t *item_of;          /* by buffer                                     */
    uint32_t *leaf_of;          /* by item                                       */
    uint32_t *by_rank;          /* items in the order given                      */
    struct skyline_run *runs;   /* by section                                    */
    uint32_t *heap;             /* runs, the lowest first                        */
    uint32_t heap_count;
};

/* ---- Tree ------------------------------------------------------------------------ */

struct skyline_key {
    uint32_t key, buffer;
};

static bool is_before(struct skyline_key a, struct skyline_key b)
{
    return a.key != b.key ? a.key < b.key : a.buffer < b.buffer;
}

/* Puts the keys below the middle-th before it, and the others behind. */
static void select_middle(struct skyline_key *keys, int64_t from, int64_t to, int64_t middle)
{
    while (to - from > 1) {
        struct skyline_key pivot = keys[from + (to - from) / 2];
        int64_t low = from, high = to - 1;
        while (low <= high) {
            while (is_before(keys[low], pivot))
                low++;
            while (is_before(pivot, keys[high]))
                high--;
            if (low <= high) {
                struct skyline_key key = keys[low];
                keys[low++] = keys[high];
                keys[high--] = key;
            }
        }
        if (middle <= high)
            to = high + 1;
        else if (middle >= low)
            from = low;
        else
            return;
    }
}

/* Sorts a range of items into leaves, halving by first and last in turn. */
static void skyline_split(struct skyline *skyline, struct skyline_key *keys, uint32_t from,
                          uint32_t to, uint32_t node, uint32_t level)
{
    if (level == skyline->depth) {
        uint32_t leaf = node - (1u << skyline->depth);
        skyline->leaf_start[leaf] = from;
        for (uint32_t k = from; k < to; k++) {
            uint32_t buffer = keys[k].buffer;
            skyline->items[k] =
                (struct item){sections_first(skyline->sections, buffer),
                              sections_last(skyline->sections, buffer), NO_RANK, buffer};
            skyline->item_of[buffer] = k;
            skyline->leaf_of[k] = leaf;
        }
        return;
    }
    for (uint32_t k = from; k < to; k++)
        keys[k].key = level & 1 ? sections_last(skyline->sections, keys[k].buffer)
                                : sections_first(skyline->sections, keys[k].buffer);
    uint32_t middle = from + (to - from) / 2;
    select_middle(keys, from, to, middle);
    skyline_split(skyline, keys, from, middle, 2 * node, level + 1);
    skyline_split(skyline, keys, middle, to, 2 * node + 1, level + 1);
}

static void sum_leaf(struct skyline *skyline, uint32_t leaf)
{
    struct skyline_node node = {UINT32_MAX, 0, UINT32_MAX, 0, NO_RANK};

    for (uint32_t k = skyline->leaf_start[leaf]; k < skyline->leaf_start[leaf + 1]; k++) {
        const struct item *item = &skyline->items[k];
        if (item->rank == NO_RANK)
            continue;
        node.first_min = item->first < node.first_min ? item->first : node.first_min;
        node.first_max = item->first > node.first_max ? item->first : node.first_max;
        node.last_min = item->last < node.last_min ? item->last : node.last_min;
        node.last_max = item->last > node.last_max ? item->last : node.last_max;
        node.best = item->rank < node.best ? item->rank : node.best;
    }
    skyline->nodes[(1u << skyline->depth) + leaf] = node;
}

/* Sums up the children of a node; tells whether that changed it. */
static bool sum_node(struct skyline *skyline, uint32_t at)
{
    const struct skyline_node *a = &skyline->nodes[2 * at], *b = a + 1;
    struct skyline_node before = skyline->nodes[at];

    skyline->nodes[at] =
        (struct skyline_node){a->first_min < b->first_min ? a->first_min : b->first_min,
                              a->first_max > b->first_max ? a->first_max : b->first_max,
                              a->last_min < b->last_min ? a->last_min : b->last_min,
                              a->last_max > b->last_max ? a->last_max : b->last_max,
                              a->best < b->best ? a->best : b->best};
    return memcmp(&before, &skyline->nodes[at], sizeof before) != 0;
}

/* Looks below a node for a rank better than best, within [first, last). */
static uint32_t find_best(const struct skyline *skyline, uint32_t at, uint32_t first, uint32_t last,
                          uint32_t best)
{
    const struct skyline_node *node = &skyline->nodes[at];

    if (node->best >= best || node->first_max < first || node->last_min > last)
        return best;
    if (node->first_min >= first && node->last_max <= last)
        return node->best;
    if (at >= 1u << skyline->depth) {
        uint32_t leaf = at - (1u << skyline->depth);
        for (uint32_t k = skyline->leaf_start[leaf]; k < skyline->leaf_start[leaf + 1]; k++) {
            const struct item *item = &skyline->items[k];
            if (item->rank < best && item->first >= first && item->last <= last)
                best = item->rank;
        }
        return best;
    }
    uint32_t near = 2 * at + (skyline->nodes[2 * at + 1].best < skyline->nodes[2 * at].best);
    best = find_best(skyline, near, first, last, best);
    return find_best(skyline, near ^ 1u, first, last, best);
}

static void remove_item(struct skyline *skyline, uint32_t item)
{
    uint32_t leaf = skyline->leaf_of[item], at = ((1u << skyline->depth) + leaf) / 2;

    skyline->items[item].rank = NO_RANK;
    sum_leaf(skyline, leaf);
    while (at > 0 && sum_node(skyline, at))
        at /= 2;
}

/* ---- Heap of runs ----------------------------------------------------------------- */

static bool is_lower(const struct skyline *skyline, uint32_t a, uint32_t b)
{
    int64_t left = skyline->runs[a].height, right = skyline->runs[b].height;

    return left != right ? left < right : a < b;
}

static void heap_set(struct skyline *skyline, uint32_t at, uint32_t run)
{
    skyline->heap[at] = run;
    skyline->runs[run].heap_at = at;
}

static void heap_up(struct skyline *skyline, uint32_t at, uint32_t run)
{
    while (at > 0 && is_lower(skyline, run, skyline->heap[(at - 1) / 2])) {
        heap_set(skyline, at, skyline->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(skyline, at, run);
}

static void heap_down(struct skyline *skyline, uint32_t at, uint32_t run)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= skyline->heap_count)
            break;
        if (child + 1 < skyline->heap_count &&
            is_lower(skyline, skyline->heap[child + 1], skyline->heap[child]))
            child++;
        if (!is_lower(skyline, skyline->heap[child], run))
            break;
        heap_set(skyline, at, skyline->heap[child]);
        at = child;
    }
    heap_set(skyline, at, run);
}

static void heap_add(struct skyline *skyline, uint32_t run)
{
    heap_up(skyline, skyline->heap_count++, run);
}

static void heap_remove(struct skyline *skyline, uint32_t run)
{
    uint32_t at = skyline->runs[run].heap_at, moved = skyline->heap[--skyline->heap_count];

    if (moved == run)
        return;
    heap_down(skyline, at, moved);
    heap_up(skyline, skyline->runs[moved].heap_at, moved);
}

/* ---- Runs ------------------------------------------------------------------------- */

static void link_behind(struct skyline *skyline, uint32_t run)
{
    uint32_t next = skyline->runs[run].end;

    if (next < skyline->sections->section_count)
        skyline->runs[next].before = run;
}

/* Joins a run with the next, which has the same height. */
static void join_next(struct skyline *skyline, uint32_t run)
{
    uint32_t next = skyline->runs[run].end;

    heap_remove(skyline, next);
    skyline->runs[run].end = skyline->runs[next].end;
    link_behind(skyline, run);
}

/* Gives a run another height, and joins neighbours that have it already. */
static void set_height(struct skyline *skyline, uint32_t run, int64_t height)
{
    uint32_t before = skyline->runs[run].before, next = skyline->runs[run].end;

    skyline->runs[run].height = height;
    heap_down(skyline, skyline->runs[run].heap_at, run);
    if (next < skyline->sections->section_count && skyline->runs[next].height == height)
        join_next(skyline, run);
    if (before != NO_RUN && skyline->runs[before].height == height)
        join_next(skyline, before);
}

/* Cuts a run in two at a section within it. */
static void cut_run(struct skyline *skyline, uint32_t run, uint32_t at)
{
    if (at == run || at == skyline->runs[run].end)
        return;
    skyline->runs[at] =
        (struct skyline_run){skyline->runs[run].height, skyline->runs[run].end, run, 0};
    skyline->runs[run].end = at;
    link_behind(skyline, at);
    heap_add(skyline, at);
}

/* No buffer fits in the run: it rises to its lower neighbour. */
static void skyline_rise(struct skyline *skyline, uint32_t run)
{
    uint32_t before = skyline->runs[run].before, next = skyline->runs[run].end;
    int64_t height = INT64_MAX;

    if (before != NO_RUN)
        height = skyline->runs[before].height;
    if (next < skyline->sections->section_count && skyline->runs[next].height < height)
        height = skyline->runs[next].height;
    CHECK(height != INT64_MAX);
    set_height(skyline, run, height);
}

/* ---- Placing ---------------------------------------------------------------------- */

static void skyline_reset(struct skyline *skyline, const uint32_t *order)
{
    uint32_t rank = 0;

    for (uint32_t i = 0; i < skyline->sections->buffer_count; i++)
        if (skyline->sections->size[order[i]] > 0) {
            skyline->by_rank[rank] = skyline->item_of[order[i]];
            skyline->items[skyline->item_of[order[i]]].rank = rank;
            rank++;
        }
    for (uint32_t leaf = 0; leaf < 1u << skyline->depth; leaf++)
        sum_leaf(skyline, leaf);
    for (uint32_t at = (1u << skyline->depth) - 1; at > 0; at--)
        sum_node(skyline, at);
    skyline->heap_count = 0;
    skyline->runs[0] = (struct skyline_run){0, skyline->sections->section_count, NO_RUN, 0};
    heap_add(skyline, 0);
}

int64_t skyline_place(struct skyline *skyline, const uint32_t *order, double deadline,
                      int64_t *offsets)
{
    const struct sections *sections = skyline->sections;
    int64_t height = 0;

    memset(offsets, 0, sections->buffer_count * sizeof *offsets);
    if (skyline->count == 0)
        return 0;
    skyline_reset(skyline, order);
    for (uint32_t left = skyline->count; left > 0;) {
        uint32_t run = skyline->heap[0];
        uint32_t rank = find_best(skyline, 1, run, skyline->runs[run].end, NO_RANK);
        if (rank == NO_RANK) {
            skyline_rise(skyline, run);
            continue;
        }
        const struct item *item = &skyline->items[skyline->by_rank[rank]];
        uint32_t buffer = item->buffer, first = item->first;
        offsets[buffer] = sections_align(sections, buffer, skyline->runs[run].height);
        cut_run(skyline, run, first);
        cut_run(skyline, first, item->last);
        int64_t top = offsets[buffer] + sections->size[buffer];
        set_height(skyline, first, top);
        height = top > height ? top : height;
        remove_item(skyline, skyline->by_rank[rank]);
        left--;
        if (left % CLOCK_STEPS == 0 && left > 0 && clock_is_past(deadline))
            return INT64_MAX;
    }
    return height;
}

/* ---- Making ----------------------------------------------------------------------- */

static acre_status skyline_fill(struct skyline *skyline)
{
    struct skyline_key *keys = heap_array(skyline->count + 1u, sizeof *keys);
    uint32_t at = 0;

    if (!keys)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t n = 0; n < skyline->sections->buffer_count; n++) {
        uint32_t buffer = skyline->sections->order[n];
        if (skyline->sections->size[buffer] > 0)
            keys[at++].buffer = buffer;
    }
    skyline_split(skyline, keys, 0, skyline->count, 1, 0);
    skyline->leaf_start[1u << skyline->depth] = skyline->count;
    heap_free(keys);
    return ACRE_OK;
}

acre_status skyline_create(const struct sections *sections, struct skyline **out)
{
    struct skyline *skyline = heap_zalloc(sizeof *skyline);
    size_t count = sections->buffer_count;
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!skyline)
        return status;
    skyline->sections = sections;
    for (uint32_t i = 0; i < count; i++)
        skyline->count += sections->size[i] > 0;
    while (((uint64_t)LEAF << skyline->depth) < skyline->count)
        skyline->depth++;
    skyline->nodes = heap_array((size_t)2 << skyline->depth, sizeof *skyline->nodes);
    skyline->leaf_start =
        heap_array(((size_t)1 << skyline->depth) + 1, sizeof *skyline->leaf_start);
    skyline->items = heap_array(count + 1, sizeof *skyline->items);
    skyline->leaf_of = heap_array(count + 1, sizeof *skyline->leaf_of);
    skyline->item_of = heap_array(count + 1, sizeof *skyline->item_of);
    skyline->by_rank = heap_array(count + 1, sizeof *skyline->by_rank);
    skyline->runs = heap_array(sections->section_count + 1u, sizeof *skyline->runs);
    skyline->heap = heap_array(sections->section_count + 1u, sizeof *skyline->heap);
    if (skyline->nodes && skyline->leaf_start && skyline->items && skyline->leaf_of &&
        skyline->item_of && skyline->by_rank && skyline->runs && skyline->heap)
        status = skyline_fill(skyline);
    if (status != ACRE_OK) {
        skyline_destroy(skyline);
        return status;
    }
    *out = skyline;
    return ACRE_OK;
}

void skyline_destroy(struct skyline *skyline)
{
    if (!skyline)
        return;
    heap_free(skyline->nodes);
    heap_free(skyline->leaf_start);
    heap_free(skyline->items);
    heap_free(skyline->leaf_of);
    heap_free(skyline->item_of);
    heap_free(skyline->by_rank);
    heap_free(skyline->runs);
    heap_free(skyline->heap);
    heap_free(skyline);
}
