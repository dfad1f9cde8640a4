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
 * Which buffer is picked makes the difference. Where there is no slack, it is best
 * taken from the section with the fewest supports, divided by a weight that grows each
 * time the section fails; where there is some, it is best the one with the lowest
 * floor. So there are several ways, each with weights of its own; a search runs those
 * of its style in turn, restarting with new ranks and growing limits, and several
 * searches of other styles run at the same time.
 */
#include "plan/search.h"

#include "base/check.h"
#include "base/heap.h"
#include "plan/board.h"
#include "plan/clock.h"

#include <math.h>
#include <string.h>

#define CLOCK_STEPS 1024u     /* decisions between looks at the clock */

/* Where the next buffer is taken from. */
enum picking { PICK_CROWDED, PICK_ROOM, PICK_LOWEST, PICKINGS };

/* A way to search. */
struct way {
    enum picking picking;
    uint64_t restart_nodes;   /* decisions of the shortest descent               */
    double noise;             /* of drawn ranks                                  */
};

static const struct way styles[SEARCH_STYLES][2] = {
    {{PICK_CROWDED, 300, 0.5}, {PICK_ROOM, 300, 0.5}},
    {{PICK_LOWEST, 1000, 0.1}, {PICK_LOWEST, 1000, 0.1}},
};

struct search {
    struct board *board;
    float *rank;              /* by buffer: smaller is tried first               */
    float *weights[PICKINGS]; /* by section: what the board counts while so picked */
    uint32_t *stack;          /* trail position and buffer of each open node     */
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
    acre_status status = ACRE_ERR_HOST_MEMORY;
    bool has_weights = true;

    if (!search)
        return status;
    search->rank = heap_array(count, sizeof *search->rank);
    search->stack = heap_array(2 * count, sizeof *search->stack);
    for (int k = 0; k < PICKINGS; k++) {
        search->weights[k] = heap_array(sections->section_count + (size_t)1, sizeof(float));
        has_weights &= search->weights[k] != NULL;
    }
    if (search->rank && search->stack && has_weights)
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
    for (int k = 0; k < PICKINGS; k++)
        heap_free(search->weights[k]);
    heap_free(search->rank);
    heap_free(search->stack);
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

/* The section that is hardest to satisfy: few supports, often failed, and many
 * buffers to place or little room. */
static uint32_t pick_section(const struct search *search)
{
    const struct board *board = search->board;
    bool by_room = search->way->picking == PICK_ROOM;
    float best = INFINITY;
    uint32_t found = 0;

    for (uint32_t s = 0; s < board->section_count; s++) {
        if (board->unplaced[s] == 0)
            continue;
        float score = (float)board->support[s] / board->weight[s];
        score = by_room ? score * (float)board->room[s] : score / (float)board->unplaced[s];
        if (score < best) {
            best = score;
            found = s;
        }
    }
    return found;
}

/* The best-ranked buffer that may be the lowest of a section; by room, the lowest of
 * them first. */
static uint32_t pick_support(const struct search *search, uint32_t section)
{
    const struct board *board = search->board;
    const uint32_t *member = board->members + board->member_start[section];
    const uint32_t *end = member + board->unplaced[section];
    bool by_floor = search->way->picking == PICK_ROOM;
    uint32_t best = UINT32_MAX;

    for (; member < end; member++) {
        if (board->floor[*member] > board->room[section])
            continue;
        if (best == UINT32_MAX || (by_floor && board->floor[*member] < board->floor[best]) ||
            ((!by_floor || board->floor[*member] == board->floor[best]) &&
             search->rank[*member] < search->rank[best]))
            best = *member;
    }
    return best;
}

/* The buffer with the lowest floor, the better-ranked of several. */
static uint32_t pick_lowest(const struct search *search)
{
    const int64_t *floor = search->board->floor;
    uint32_t best = 0;

    for (uint32_t i = 1; i < search->board->count; i++)
        if (floor[i] < floor[best] ||
            (floor[i] == floor[best] && search->rank[i] < search->rank[best]))
            best = i;
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
                              : pick_support(search, pick_section(search));
        int64_t lowest;
        while ((lowest = board_lowest_top(board, buffer, &below)) <= board->floor[buffer])
            buffer = below; /* down to one that nothing has to go below */
        if (!board->skipped[buffer]) {
            *out_buffer = buffer;
            return true;
        }
        if (lowest == FLOOR_PLACED || !board_skip(board, buffer, lowest))
            return false;
    }
}

/* ---- Searching ------------------------------------------------------------------- */

/* One descent with backtracking, until found, excluded or out of nodes. */
static enum search_result descend(struct search *search, const _Atomic uint64_t *limit)
{
    struct board *board = search->board;
    uint32_t depth = 0;
    uint64_t nodes = 0;

    while (board->left > 0) {
        uint32_t buffer = 0;
        search->nodes++;
        if (++nodes > search->node_limit || board->is_lost ||
            search->nodes > atomic_load_explicit(limit, memory_order_relaxed) ||
            (search->nodes % CLOCK_STEPS == 0 && clock_is_past(search->deadline)))
            return SEARCH_LIMIT;
        bool is_good = pick(search, &buffer);
        if (is_good) {
            search->stack[2 * depth] = (uint32_t)board->trail_count;
            search->stack[2 * depth + 1] = buffer;
            depth++;
            is_good = board_place(board, buffer);
        }
        while (!is_good) { /* the last placement does not work: skip it instead */
            if (depth == 0)
                return SEARCH_NONE;
            depth--;
            board_undo(board, search->stack[2 * depth]);
            buffer = search->stack[2 * depth + 1];
            int64_t floor = board_lowest_top(board, buffer, &(uint32_t){0});
            is_good = floor != FLOOR_PLACED && board_skip(board, buffer, floor);
        }
    }
    return SEARCH_FOUND;
}

/* Draws ranks: products of powers of load, lifetime and size. */
static void draw_ranks(struct search *search, unsigned turn)
{
    const struct sections *sections = search->board->sections;
    static const double fixed[4][3] = {{1, 1, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}};
    double power[3], noise = turn < 4 ? 0 : search->way->noise;

    for (int k = 0; k < 3; k++)
        power[k] = turn < 4 ? fixed[turn][k] : 2 * next_unit(search);
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
        search->rank[i] = (float)-(value + noise * (next_unit(search) - 0.5));
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
        for (int k = 0; k < PICKINGS; k++)
            search->weights[k][s] = 1;
    for (unsigned turn = 0; result == SEARCH_LIMIT && !board->is_lost; turn++) {
        if (search->nodes > atomic_load_explicit(limit, memory_order_relaxed) ||
            (turn && clock_is_past(search->deadline)))
            break;
        search->way = &styles[style % SEARCH_STYLES][turn % 2];
        board->weight = search->weights[search->way->picking];
        draw_ranks(search, turn / 2);
        search->node_limit = search->way->restart_nodes * luby(turn / 2 + 1);
        result = board_reset(board, capacity) ? descend(search, limit) : SEARCH_NONE;
    }
    board->weight = own;
    if (result == SEARCH_FOUND)
        memcpy(offsets, board->offset, board->count * sizeof *offsets);
    *out_nodes = search->nodes;
    return result;
}
