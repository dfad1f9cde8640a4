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
 * Which buffer is picked makes the difference: as a rule the one with the lowest floor;
 * where few sections are full, one from the section with the fewest candidates on the
 * lowest floors, divided by a weight that grows each time the section fails. Ranks tell
 * which of several is better: mostly the longer life, so that the rest falls apart into
 * spans of time that do not depend on one another; at times anything. A search runs the
 * two ways of its style in turn, restarting with new ranks and growing limits, and
 * several searches of other styles run at the same time.
 */
#include "plan/search.h"

#include "base/check.h"
#include "base/heap.h"
#include "plan/board.h"
#include "plan/clock.h"

#include <math.h>
#include <string.h>

#define CLOCK_STEPS 1024u     /* decisions between looks at the clock */
#define WAYS 2
#define RANK_NOISE 0.5

/* Where the next buffer is taken from. */
enum picking { PICK_SECTION, PICK_LOWEST };

/* A way to search. */
struct way {
    enum picking picking;
    bool has_drawn_powers;    /* ranks by drawn powers of load, life and size    */
    uint64_t restart_nodes;   /* decisions of the shortest descent               */
};

static const struct way styles[SEARCH_STYLES][WAYS] = {
    {{PICK_SECTION, false, 300}, {PICK_SECTION, true, 300}},
    {{PICK_LOWEST, false, 1000}, {PICK_LOWEST, true, 300}},
};

/* A decision that is in force. */
struct open_node {
    struct board_mark before;
    uint32_t buffer;
};

struct search {
    struct board *board;
    float *rank;              /* by buffer: smaller is tried first               */
    float *weights[WAYS];     /* by section: what the board counts on that way   */
    uint32_t *candidates;     /* by section: how many may be its lowest          */
    int64_t *lowest;          /* by section: the lowest floor in it              */
    struct open_node *stack;  /* by depth                                        */
    const struct way *way;    /* under way                                       */
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
    bool has_weights = true;

    if (!search)
        return status;
    search->rank = heap_array(count, sizeof *search->rank);
    search->stack = heap_array(count, sizeof *search->stack);
    search->candidates = heap_array(section_count, sizeof *search->candidates);
    search->lowest = heap_array(section_count, sizeof *search->lowest);
    for (int k = 0; k < WAYS; k++) {
        search->weights[k] = heap_array(section_count, sizeof(float));
        has_weights &= search->weights[k] != NULL;
    }
    if (search->rank && search->stack && search->candidates && search->lowest && has_weights)
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
    for (int k = 0; k < WAYS; k++)
        heap_free(search->weights[k]);
    heap_free(search->rank);
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

    return 100 + board->count + board->section_count +
           (4 * overlaps + 4 * members) / (board->count + 1);
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

/* Of two buffers the one with the lower floor, the better-ranked of equal ones. */
static uint32_t lower_of(const struct search *search, uint32_t a, uint32_t b)
{
    const int64_t *floor = search->board->floor;

    if (floor[a] != floor[b])
        return floor[a] < floor[b] ? a : b;
    return search->rank[b] < search->rank[a] ? b : a;
}

/* The lowest buffer of a section. */
static uint32_t pick_member(const struct search *search, uint32_t section)
{
    const struct board *board = search->board;
    const uint32_t *member = board->members + board->member_start[section];
    const uint32_t *end = board->members + board->member_start[section + 1];
    uint32_t best = *member;

    while (++member < end)
        best = lower_of(search, best, *member);
    return best;
}

/* The lowest buffer of all. */
static uint32_t pick_lowest(const struct search *search)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < search->board->count; i++)
        best = lower_of(search, best, i);
    return best;
}

/* Picks the buffer to decide on. False when the node has failed. */
static bool pick(struct search *search, uint32_t *out_buffer)
{
    struct board *board = search->board;

    for (;;) {
        uint32_t below = 0;
        uint32_t buffer = search->way->picking == PICK_LOWEST
                              ? pick_lowest(search)
                              : pick_member(search, pick_section(search));
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

/* Draws ranks: products of powers of load, life and size. */
static void draw_ranks(struct search *search, unsigned turn)
{
    const struct sections *sections = search->board->sections;
    static const double first[][3] = {{1, 1, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}};
    double power[3] = {0, 1 + next_unit(search), 0.3};
    bool has_noise = turn > 0;

    if (search->way->has_drawn_powers) {
        has_noise = turn >= sizeof first / sizeof *first;
        for (int k = 0; k < 3; k++)
            power[k] = has_noise ? 2 * next_unit(search) : first[turn][k];
    }
    for (uint32_t n = 0; n < search->board->count; n++) {
        uint32_t i = sections->order[n];
        int64_t load = 1, width = 0;
        for (uint32_t p = sections->piece_start[i]; p < sections->piece_start[i + 1]; p++)
            for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++) {
                width++;
                if (sections->load[s] > load)
                    load = sections->load[s];
            }
        double value = power[0] * log((double)load) + power[1] * log((double)width + 1) +
                       power[2] * log((double)sections->size[i] + 1);
        if (has_noise)
            value += RANK_NOISE * (next_unit(search) - 0.5);
        search->rank[i] = (float)-value;
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

enum search_result search_run(struct search *search, uint32_t style, int64_t capacity,
                              uint64_t seed, const _Atomic uint64_t *limit, int64_t *offsets,
                              uint64_t *out_nodes)
{
    struct board *board = search->board;
    float *own = board->weight;
    enum search_result result = SEARCH_LIMIT;

    search->random = seed;
    search->nodes = 0;
    for (uint32_t s = 0; s < board->section_count; s++)
        for (int k = 0; k < WAYS; k++)
            search->weights[k][s] = 1;
    for (unsigned turn = 0; result == SEARCH_LIMIT && !board->is_lost; turn++) {
        if (search->nodes > atomic_load_explicit(limit, memory_order_relaxed) ||
            (turn && clock_is_past(search->deadline)))
            break;
        search->way = &styles[style % SEARCH_STYLES][turn % WAYS];
        board->weight = search->weights[turn % WAYS];
        draw_ranks(search, turn / WAYS);
        search->node_limit = search->way->restart_nodes * luby(turn / WAYS + 1);
        result = board_reset(board, capacity) ? descend(search, limit) : SEARCH_NONE;
    }
    board->weight = own;
    if (result == SEARCH_FOUND)
        memcpy(offsets, board->offset, board->count * sizeof *offsets);
    *out_nodes = search->nodes;
    return result;
}
