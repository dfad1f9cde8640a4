/* SPDX-License-Identifier: MIT */
/* Exact search: places buffers one by one from below, with inference (board.h).
 *
 * A node of the search picks a buffer and tries two things:
 *
 *   place  it lies on its floor, below every overlapping buffer not yet placed;
 *   skip   it does not, so one of those lies below it. A skipped buffer waits until
 *          something is placed below it.
 *
 * Both together cover all placements in which nothing can sink, in any order of
 * picking, so buffers far apart in time never have to be interleaved.
 *
 * When nothing works any more, the search goes back to the last decision that had a part
 * in it (conflict.h), over all that were made later elsewhere in time.
 *
 * Which buffer is picked makes the difference, and so there are two styles: the one with
 * the lowest floor of all; or the lowest of the section with the fewest candidates on the
 * lowest floors, divided by a weight that grows each time the section fails, which is
 * better where few sections are full. Of equal ones the longer life is preferred, so
 * that the rest falls apart into spans of time that do not depend on one another. A
 * search restarts with other ranks and growing limits, and searches of both styles run
 * at the same time.
 */
#include "plan/search.h"

#include "base/check.h"
#include "base/heap.h"
#include "plan/board.h"
#include "plan/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_STEPS 1024u     /* decisions between looks at the clock */
#define RANK_NOISE 0.5
#define FIRST_LOOK 1.7        /* decisions of the first descent, per buffer   */
#define ROUND_TURNS 15u       /* descents after which weights and limits begin anew */
#define WEIGHT_KEPT 0.8f      /* of what was learned, at a restart            */

/* How a search goes. */
static const struct style {
    bool is_by_section;       /* else by the lowest floor                        */
    double restart;           /* decisions of the shortest descent, per buffer   */
    unsigned rounds_growth;   /* rounds after which limits double                */
} styles[SEARCH_STYLES] = {{true, 2.5, 8}, {false, 8, 1}};

/* A decision that is in force. */
struct open_node {
    struct board_mark before;
    uint32_t buffer;
};

/* A buffer while ranks are made. */
struct ranked {
    double value;             /* the largest is best                             */
    uint32_t place;           /* in the canonical order                          */
};

struct search {
    struct board *board;
    uint32_t *rank;           /* by buffer: smaller is tried first               */
    uint32_t *by_rank;        /* buffers, the best first                         */
    struct ranked *ranked;    /* room for ranking                                */
    uint32_t *candidates;     /* by section: how many may be its lowest          */
    int64_t *lowest;          /* by section: the lowest floor in it              */
    struct open_node *stack;  /* by depth                                        */
    const struct style *style;
    uint64_t nodes;           /* decisions made                                  */
    uint64_t node_limit;      /* of one descent                                  */
    uint64_t random;
    double deadline;
};

static uint64_t next_random(struct search *search)
{
    uint64_t x = search->random += 0x9E3779B97F4A7C15u;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static double next_unit(struct search *search)
{
    return (double)(next_random(search) >> 11) * 0x1p-53;
}

/* ---- Making ---------------------------------------------------------------------- */

acre_status search_create(const struct sections *sections, struct search **out)
{
    struct search *search = heap_zalloc(sizeof *search);
    size_t count = sections->buffer_count + (size_t)1;
    size_t section_count = sections->section_count + (size_t)1;
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!search)
        return status;
    search->rank = heap_array(count, sizeof *search->rank);
    search->stack = heap_array(count, sizeof *search->stack);
    search->candidates = heap_array(section_count, sizeof *search->candidates);
    search->lowest = heap_array(section_count, sizeof *search->lowest);
    search->by_rank = heap_array(count, sizeof *search->by_rank);
    search->ranked = heap_array(count, sizeof *search->ranked);
    if (search->rank && search->stack && search->candidates && search->lowest &&
        search->by_rank && search->ranked)
        status = board_create(sections, &search->board);
    if (status != ACRE_OK) {
        search_destroy(search);
        return status;
    }
    *out = search;
    return ACRE_OK;
}

void search_destroy(struct search *search)
{
    if (!search)
        return;
    board_destroy(search->board);
    heap_free(search->rank);
    heap_free(search->by_rank);
    heap_free(search->ranked);
    heap_free(search->stack);
    heap_free(search->candidates);
    heap_free(search->lowest);
    heap_free(search);
}

void search_set_deadline(struct search *search, double deadline)
{
    search->deadline = deadline;
}

uint64_t search_node_cost(const struct search *search)
{
    const struct board *board = search->board;
    uint64_t overlaps = board->neighbour_start[board->count];
    uint64_t members = board->member_start[board->section_count];

    return 2 * (100 + board->count + board->section_count +
                (4 * overlaps + 4 * members) / (board->count + 1));
}

/* ---- Picking --------------------------------------------------------------------- */

/* Counts the candidates of a section anew. */
static void count_candidates(struct search *search, uint32_t section)
{
    struct board *board = search->board;
    const uint32_t *member = board->members + board->member_start[section];
    const uint32_t *end = board->members + board->member_start[section + 1];
    int64_t room = board->room[section], lowest = FLOOR_PLACED;
    uint32_t count = 0;

    for (; member < end; member++) {
        int64_t floor = board->floor[*member];
        count += floor <= room;
        lowest = floor < lowest ? floor : lowest;
    }
    search->candidates[section] = count;
    search->lowest[section] = lowest;
    board->changed[section] = 0;
}

/* The section that is hardest to satisfy: few candidates, low, and often failed. */
static uint32_t pick_section(struct search *search)
{
    const struct board *board = search->board;
    double best = INFINITY, base = 0.1 * (double)board->capacity;
    uint32_t found = 0;

    for (uint32_t s = 0; s < board->section_count; s++) {
        if (board->unplaced[s] == 0)
            continue;
        if (board->changed[s])
            count_candidates(search, s);
        double score = search->candidates[s] * ((double)search->lowest[s] + base) /
                       (double)board->weight[s];
        if (score < best) {
            best = score;
            found = s;
        }
    }
    return found;
}

/* The lowest buffer of a section, the best-ranked of several. */
static uint32_t pick_member(const struct search *search, uint32_t section)
{
    const struct board *board = search->board;
    const uint32_t *member = board->members + board->member_start[section];
    const uint32_t *end = board->members + board->member_start[section + 1];
    uint32_t best = *member;

    while (++member < end)
        if (board->floor[*member] < board->floor[best] ||
            (board->floor[*member] == board->floor[best] &&
             search->rank[*member] < search->rank[best]))
            best = *member;
    return best;
}

/* The lowest buffer of all, the best-ranked of several. */
static uint32_t pick_lowest(const struct search *search)
{
    const int64_t *floor = search->board->floor;
    const uint32_t *buffer = search->by_rank, *end = buffer + search->board->count;
    uint32_t best = *buffer;
    int64_t lowest = floor[best];

    while (++buffer < end)
        if (floor[*buffer] < lowest) {
            best = *buffer;
            lowest = floor[best];
        }
    return best;
}

/* Picks the buffer to decide on. False when the node has failed. */
static bool pick(struct search *search, uint32_t *out_buffer)
{
    struct board *board = search->board;

    for (;;) {
        uint32_t below = 0;
        uint32_t buffer = search->style->is_by_section
                              ? pick_member(search, pick_section(search))
                              : pick_lowest(search);
        int64_t lowest;
        while ((lowest = board_lowest_top(board, buffer, &below)) <= board->floor[buffer])
            buffer = below; /* down to one that nothing has to go below */
        if (!board->skipped[buffer]) {
            *out_buffer = buffer;
            return true;
        }
        conflict_clear(&board->conflict);
        if (!board_skip(board, buffer, lowest))
            return false;
    }
}

/* ---- Searching ------------------------------------------------------------------- */

/* One descent with backtracking, until found, excluded or out of nodes. */
static enum search_result descend(struct search *search, const _Atomic uint64_t *limit)
{
    struct board *board = search->board;
    uint64_t nodes = 0;

    while (board->left > 0) {
        uint32_t buffer = 0, depth;
        search->nodes++;
        if (++nodes > search->node_limit || board->is_lost ||
            search->nodes > atomic_load_explicit(limit, memory_order_relaxed) ||
            (search->nodes % CLOCK_STEPS == 0 && clock_is_past(search->deadline)))
            return SEARCH_LIMIT;
        bool is_good = pick(search, &buffer);
        if (is_good) {
            search->stack[board->depth] = (struct open_node){board_now(board), buffer};
            is_good = board_place(board, buffer);
        }
        while (!is_good) { /* the last placement to blame does not work: skip it instead */
            if (!conflict_take_last(&board->conflict, &depth))
                return SEARCH_NONE;
            board_undo(board, search->stack[depth].before);
            buffer = search->stack[depth].buffer;
            is_good = board_skip(board, buffer,
                                 board_lowest_top(board, buffer, &(uint32_t){0}));
        }
    }
    return SEARCH_FOUND;
}

static int compare_values(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    if (a->value != b->value)
        return a->value > b->value ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* Ranks buffers by powers of life and size. The first turns do not depend on the seed; the
 * others are drawn, with noise. */
static void draw_ranks(struct search *search, unsigned turn)
{
    static const double first[][2] = {{0.4, 0.3}, {1.5, 0.3}, {0.78, 0.3}};
    const struct sections *sections = search->board->sections;
    bool has_noise = turn >= sizeof first / sizeof *first;
    double life = has_noise ? 1 + next_unit(search) : first[turn][0];
    double size = has_noise ? 0.9 * next_unit(search) - 0.3 : first[turn][1];

    for (uint32_t n = 0; n < search->board->count; n++) {
        uint32_t i = sections->order[n];
        int64_t width = 1;
        for (uint32_t p = sections->piece_start[i]; p < sections->piece_start[i + 1]; p++)
            width += sections->pieces[p].last - sections->pieces[p].first;
        double value = life * log((double)width) + size * log((double)sections->size[i] + 1);
        if (has_noise)
            value += RANK_NOISE * (next_unit(search) - 0.5);
        search->ranked[n] = (struct ranked){value, n};
    }
    qsort(search->ranked, search->board->count, sizeof *search->ranked, compare_values);
    for (uint32_t n = 0; n < search->board->count; n++) {
        search->by_rank[n] = sections->order[search->ranked[n].place];
        search->rank[search->by_rank[n]] = n;
    }
}

/* The i-th number of Luby's sequence 1 1 2 1 1 2 4 ..., from 1. */
static uint64_t luby(uint64_t i)
{
    for (;;) {
        unsigned bits = 64 - (unsigned)__builtin_clzll(i);
        if (i == (UINT64_C(1) << bits) - 1)
            return UINT64_C(1) << (bits - 1);
        i -= (UINT64_C(1) << (bits - 1)) - 1;
    }
}

/* Prepares a descent: ranks, its limit, and weights, of which a part is forgotten. The
 * first is but a look whether it is easy; then come rounds. */
static void begin_turn(struct search *search, unsigned turn)
{
    struct board *board = search->board;
    unsigned step = turn ? (turn - 1) % ROUND_TURNS : 0;
    double limit = search->style->restart * board->count * (double)luby(step + 1);
    float kept = step ? WEIGHT_KEPT : 0;

    for (uint32_t s = 0; s < board->section_count; s++)
        board->weight[s] = 1 + (board->weight[s] - 1) * kept;
    if (turn)
        limit = ldexp(limit, (int)((turn - 1) / ROUND_TURNS / search->style->rounds_growth));
    else
        limit = FIRST_LOOK * board->count;
    search->node_limit = (uint64_t)limit;
    draw_ranks(search, turn);
}

enum search_result search_run(struct search *search, uint32_t style, int64_t capacity,
                              uint64_t seed, const _Atomic uint64_t *limit, int64_t *offsets,
                              uint64_t *out_nodes)
{
    struct board *board = search->board;
    enum search_result result = SEARCH_LIMIT;

    search->random = seed;
    search->nodes = 0;
    search->style = &styles[style % SEARCH_STYLES];
    for (unsigned turn = 0; result == SEARCH_LIMIT && !board->is_lost; turn++) {
        if (search->nodes > atomic_load_explicit(limit, memory_order_relaxed) ||
            (turn && clock_is_past(search->deadline)))
            break;
        begin_turn(search, turn);
        result = board_reset(board, capacity) ? descend(search, limit) : SEARCH_NONE;
    }
    if (result == SEARCH_FOUND)
        memcpy(offsets, board->offset, board->count * sizeof *offsets);
    *out_nodes = search->nodes;
    return result;
}
