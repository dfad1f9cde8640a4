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
 * search restarts with other ranks. By section it weighs what failed, under limits that
 * grow; by the lowest floor it learns ranks from many short descents (rank.h), as one
 * that succeeds hardly ever takes much more than two decisions a buffer.
 */
#include "plan/search/search.h"

#include "base/check.h"
#include "base/heap.h"
#include "plan/search/board.h"
#include "plan/place/clock.h"
#include "plan/search/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_STEPS   32u   /* decisions and skips between looks at the clock    */
#define SKIPS_FREE    64u   /* skips that belong to a decision; more of them are work */
#define SKIPS_WORK    8u    /* skips that count as one decision                 */
#define FIRST_LOOK    1.7   /* decisions of the first descent, per buffer   */
#define FIXED_LOOK    4.0   /* and of the next, if ranks are not drawn      */
#define ROUND_TURNS   15u   /* descents after which weights and limits begin anew */
#define ROUNDS_GROWTH 8u    /* rounds after which limits double              */
#define SHORTEST      20u   /* decisions that a descent may always make     */
#define PROMISE_START 0.32  /* of its limit a descent may spend unjudged    */
#define PROMISE_LEFT  0.75  /* of the buffers may be left then, less        */
#define PROMISE_PACE  0.625 /* times the part that is spent                 */
#define LEARN_TURNS   60u   /* descents that learn from one another         */
#define WEIGHT_KEPT   0.8f  /* of what was learned, at a restart            */

/* How a search goes. */
static const struct style {
    bool is_by_section; /* else by the lowest floor                        */
    bool is_learning;   /* ranks from failures, under limits that stay     */
    double restart;     /* decisions of the shortest descent, per buffer   */
    unsigned fixed;     /* descents with ranks that no seed changes        */
    unsigned work;      /* of a decision, next to one by the lowest floor  */
} styles[SEARCH_STYLES] = {
    [SEARCH_BY_SECTION] = {true, false, 2.5, 3, 4},
    [SEARCH_BY_FLOOR] = {false, true, 2.5, 3, 1},
    [SEARCH_DOWN] = {false, true, 2.5, 0, 1},
};

/* A decision that is in force. */
struct open_node {
    struct board_mark before;
    uint32_t buffer;
};

struct search {
    struct board *board;
    struct ranks ranks;
    uint32_t *candidates;    /* by section: how many may be its lowest          */
    int64_t *lowest;         /* by section: the lowest floor in it              */
    struct open_node *stack; /* by depth                                        */
    const struct style *style;
    bool is_learned;               /* ranks of this descent are, and it is learned from */
    uint64_t work;                 /* done                                            */
    uint64_t node_limit;           /* of one descent                                  */
    uint32_t skips;                /* of the decision under way                       */
    uint32_t ticks;                /* decisions and skips, to look at the clock       */
    const _Atomic uint64_t *limit; /* of work; another search may lower it   */
    double deadline;
};

/* ---- Making ---------------------------------------------------------------------- */

acre_status search_create(const struct sections *sections, struct search **out)
{
    struct search *search = heap_zalloc(sizeof *search);
    size_t count = sections->buffer_count + (size_t)1;
    size_t section_count = sections->section_count + (size_t)1;
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!search)
        return status;
    search->stack = heap_array(count, sizeof *search->stack);
    search->candidates = heap_array(section_count, sizeof *search->candidates);
    search->lowest = heap_array(section_count, sizeof *search->lowest);
    if (search->stack && search->candidates && search->lowest)
        status = ranks_init(&search->ranks, sections);
    if (status == ACRE_OK)
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
    ranks_fini(&search->ranks);
    heap_free(search->stack);
    heap_free(search->candidates);
    heap_free(search->lowest);
    heap_free(search);
}

void search_set_deadline(struct search *search, double deadline)
{
    search->deadline = deadline;
}

uint64_t search_work_cost(const struct search *search)
{
    const struct board *board = search->board;
    uint64_t overlaps = board->neighbour_start[board->count];
    uint64_t members = board->member_start[board->section_count];

    return 240 + board->count / 2 + board->section_count +
           (5 * overlaps + 10 * members) / (board->count + 1);
}

/* ---- Limits ----------------------------------------------------------------------- */

/* Whether the search has to end. Every decision asks, and every skip of a decision that takes
 * many: inference alone can take longer than all decisions together. */
static bool search_is_over(struct search *search)
{
    return search->work > atomic_load_explicit(search->limit, memory_order_relaxed) ||
           (search->ticks++ % CLOCK_STEPS == 0 && clock_is_past(search->deadline));
}

/* Counts a skip. False when the search has to end. */
static bool skip_count(struct search *search)
{
    if (++search->skips <= SKIPS_FREE)
        return true;
    if (search->skips % SKIPS_WORK == 0)
        search->work += search->style->work;
    return !search_is_over(search);
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
        double score =
            search->candidates[s] * ((double)search->lowest[s] + base) / (double)board->weight[s];
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
    const uint32_t *rank = search->ranks.rank;
    const uint32_t *member = board->members + board->member_start[section];
    const uint32_t *end = board->members + board->member_start[section + 1];
    uint32_t best = *member;

    while (++member < end)
        if (board->floor[*member] < board->floor[best] ||
            (board->floor[*member] == board->floor[best] && rank[*member] < rank[best]))
            best = *member;
    return best;
}

static inline int64_t search_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The lowest floor of all: four at a time, as none waits for another. */
static int64_t find_level(const struct board *board)
{
    const int64_t *floor = board->floor, *end = floor + board->count;
    int64_t a = FLOOR_PLACED, b = a, c = a, d = a;

    for (; end - floor >= 4; floor += 4) {
        a = search_smaller(floor[0], a);
        b = search_smaller(floor[1], b);
        c = search_smaller(floor[2], c);
        d = search_smaller(floor[3], d);
    }
    for (; floor < end; floor++)
        a = search_smaller(*floor, a);
    return search_smaller(search_smaller(a, b), search_smaller(c, d));
}

/* The lowest buffer of all, the best-ranked of several. */
static uint32_t pick_lowest(const struct search *search)
{
    const int64_t *floor = search->board->floor;
    const uint32_t *buffer = search->ranks.by_rank;
    int64_t lowest = find_level(search->board);

    while (floor[*buffer] != lowest)
        buffer++;
    return *buffer;
}

/* What picking comes to. */
enum pick { PICK_FOUND, PICK_FAILED, PICK_OVER };

/* Picks the buffer to decide on, unless the node has failed or the search has to end. */
static enum pick search_pick(struct search *search, uint32_t *out_buffer)
{
    struct board *board = search->board;

    for (;;) {
        uint32_t buffer = search->style->is_by_section ? pick_member(search, pick_section(search))
                                                       : pick_lowest(search);
        int64_t lowest;
        while ((lowest = board_lowest_top(board, buffer)) <= board->floor[buffer])
            buffer = board_lowest(board, buffer, lowest); /* down to what nothing goes below */
        if (!board->skipped[buffer]) {
            *out_buffer = buffer;
            return PICK_FOUND;
        }
        if (!skip_count(search))
            return PICK_OVER;
        conflict_clear(&board->conflict);
        if (!board_skip(board, buffer, lowest))
            return PICK_FAILED;
        if (board->is_lost)
            return PICK_OVER;
    }
}

/* ---- Searching ------------------------------------------------------------------- */

/* Blames what was still to be placed in the section that failed last. */
static void search_blame(struct search *search)
{
    const struct board *board = search->board;
    const uint32_t *member = board->members + board->member_start[board->failed];
    const uint32_t *end = board->members + board->member_start[board->failed + 1];

    for (; member < end; member++)
        search->ranks.blame[*member] += board->floor[*member] != FLOOR_PLACED;
}

/* Whether a descent that learns is to go on: what has come to little by now hardly ever
 * succeeds, and its failures are known by then. least: buffers left when it was deepest. */
static bool is_promising(const struct search *search, uint64_t nodes, uint32_t least)
{
    double spent = (double)nodes / (double)search->node_limit;

    return !search->is_learned || spent < PROMISE_START ||
           least <= (PROMISE_LEFT - PROMISE_PACE * spent) * search->board->count + SHORTEST;
}

/* One descent with backtracking, until found, excluded or out of nodes. */
static enum search_result search_descend(struct search *search)
{
    struct board *board = search->board;
    uint32_t least = board->left;
    uint64_t nodes = 0;

    while (board->left > 0) {
        uint32_t buffer = 0, depth;
        search->work += search->style->work;
        least = board->left < least ? board->left : least;
        search->skips = 0;
        if (++nodes > search->node_limit || board->is_lost || !is_promising(search, nodes, least) ||
            search_is_over(search))
            return SEARCH_LIMIT;
        enum pick pick = search_pick(search, &buffer);
        bool is_good = pick == PICK_FOUND;
        if (pick == PICK_OVER)
            return SEARCH_LIMIT;
        if (is_good) {
            search->stack[board->depth] = (struct open_node){board_now(board), buffer};
            is_good = board_place(board, buffer);
        }
        if (!is_good && search->is_learned)
            search_blame(search);
        while (!is_good) { /* the last placement to blame does not work: skip it instead */
            if (!conflict_take_last(&board->conflict, &depth))
                return SEARCH_NONE;
            if (!skip_count(search))
                return SEARCH_LIMIT;
            board_undo(board, search->stack[depth].before);
            buffer = search->stack[depth].buffer;
            is_good = board_skip(board, buffer, board_lowest_top(board, buffer));
        }
    }
    return SEARCH_FOUND;
}

/* The i-th number of Luby's sequence 1 1 2 1 1 2 4 ..., from 1. */
static uint64_t search_luby(uint64_t i)
{
    for (;;) {
        unsigned bits = 64 - (unsigned)__builtin_clzll(i);
        if (i == (UINT64_C(1) << bits) - 1)
            return UINT64_C(1) << (bits - 1);
        i -= (UINT64_C(1) << (bits - 1)) - 1;
    }
}

/* Between low and high. */
static double search_draw(struct search *search, double low, double high)
{
    return low + (high - low) * ranks_unit(&search->ranks);
}

/* Ranks by powers of life and size. The first turns of some styles do not depend on the
 * seed; the others are drawn, with noise, anew each time or learned from one another. */
static void rank_turn(struct search *search, unsigned turn)
{
    static const double first[][2] = {{0.4, 0.3}, {1.5, 0.3}, {0.78, 0.3}};
    struct ranks *ranks = &search->ranks;
    const struct style *style = search->style;

    search->is_learned = style->is_learning && turn >= style->fixed;
    if (turn < style->fixed)
        ranks_draw(ranks, first[turn][0], first[turn][1], 0);
    else if (!search->is_learned)
        ranks_draw(ranks, search_draw(search, 1, 2), search_draw(search, -0.3, 0.6), 0.5);
    else if ((turn - style->fixed) % LEARN_TURNS == 0)
        ranks_draw(ranks, search_draw(search, 1.3, 2), search_draw(search, -0.1, 0.5), 0.3);
    else
        ranks_learn(ranks);
    ranks_sort(ranks, search->is_learned ? 0.1 : 0);
}

/* Decisions of a descent. The very first is but a look whether it is easy. */
static uint64_t limit_turn(const struct search *search, unsigned turn)
{
    const struct style *style = search->style;
    double shortest = style->restart * search->board->count;

    if (turn == 0 && style->fixed > 0)
        return (uint64_t)(FIRST_LOOK * search->board->count);
    if (style->is_learning && turn < style->fixed)
        return (uint64_t)(FIXED_LOOK * search->board->count);
    if (style->is_learning)
        return (uint64_t)(shortest * (double)search_luby(turn / LEARN_TURNS + 1)) + SHORTEST;
    turn -= style->fixed > 0;
    shortest *= (double)search_luby(turn % ROUND_TURNS + 1);
    return (uint64_t)ldexp(shortest, (int)(turn / ROUND_TURNS / ROUNDS_GROWTH));
}

/* Prepares a descent: weights, of which a part is forgotten, its limit and ranks. */
static void begin_turn(struct search *search, unsigned turn)
{
    struct board *board = search->board;
    float kept = turn > 0 && (turn - 1) % ROUND_TURNS ? WEIGHT_KEPT : 0;

    for (uint32_t s = 0; s < board->section_count; s++)
        board->weight[s] = 1 + (board->weight[s] - 1) * kept;
    search->node_limit = limit_turn(search, turn);
    rank_turn(search, turn);
}

enum search_result search_run(struct search *search, const struct search_task *task,
                              int64_t *offsets, uint64_t *out_work)
{
    struct board *board = search->board;
    enum search_result result = SEARCH_LIMIT;

    ranks_seed(&search->ranks, task->seed);
    search->work = 0;
    search->limit = task->limit;
    search->style = &styles[task->style];
    board->is_tracking = search->style->is_by_section;
    for (unsigned turn = 0; result == SEARCH_LIMIT && !board->is_lost; turn++) {
        if (search->work > atomic_load_explicit(task->limit, memory_order_relaxed) ||
            (turn && clock_is_past(search->deadline)))
            break;
        begin_turn(search, turn);
        result = board_reset(board, task->capacity) ? search_descend(search) : SEARCH_NONE;
    }
    if (result == SEARCH_FOUND)
        memcpy(offsets, board->offset, board->count * sizeof *offsets);
    *out_work = search->work;
    return result;
}
