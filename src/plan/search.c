/* SPDX-License-Identifier: MIT */
/* Exact search: places buffers one by one from below, with inference.
 *
 * Every buffer that is not placed has a floor, the lowest offset it may still
 * get. A node of the search picks a buffer and tries two things:
 *
 *   place  it lies on its floor, below every overlapping buffer not yet placed,
 *          whose floors rise to its top;
 *   skip   it does not, so one of those lies below it: its floor rises to the
 *          lowest top any of them can have. A skipped buffer waits until
 *          something is placed below it.
 *
 * Both together cover all placements in which nothing can sink, in any order
 * of picking, so buffers far apart in time never have to be interleaved.
 *
 * A section fails when no buffer not yet placed in it has a floor of at most
 * capacity - (sum of sizes not yet placed): the lowest of them would push the
 * rest out. support[s] counts buffers that still can be that lowest one. The
 * next buffer is taken from the section with the fewest, divided by a weight
 * that grows each time the section fails, so that the search learns where the
 * difficulties are. Restarts keep the weights and draw new ranks.
 *
 * Changes go on a trail and are undone in reverse. One thread at a time.
 */
#include "plan/search.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <math.h>
#include <string.h>

#define FLOOR_PLACED (INT64_MAX / 4)    /* floor of a placed buffer: above all  */
#define OVERLAPS_MAX 40000000u          /* neighbours of all buffers together   */
#define RESTART_NODES 300               /* decisions of the shortest descent    */

/* What a trail entry puts back. */
enum change { CHANGE_FLOOR, CHANGE_PLACED, CHANGE_SUPPORT };

/* Where the next buffer is taken from: descents take turns, as instances without
 * slack yield to the first two and instances with some to the last. */
enum picking { PICK_CROWDED, PICK_ROOM, PICK_LOWEST, PICKINGS };

struct trail {
    uint32_t change;
    uint32_t index;     /* of the buffer or section                             */
    int64_t old;        /* floor * 2 + skipped, or support                      */
};

struct search {
    const struct sections *sections;
    uint32_t count, section_count;
    int64_t capacity;
    int64_t *floor;           /* by buffer; FLOOR_PLACED once placed            */
    int64_t *top;             /* by buffer: floor + size                        */
    int64_t *offset;          /* by buffer, once placed                         */
    uint8_t *skipped;         /* by buffer                                      */
    float *rank;              /* by buffer: smaller is tried first              */
    int64_t *room;            /* by section: capacity - sizes not yet placed    */
    int32_t *support;         /* by section                                     */
    uint32_t *unplaced;       /* by section: buffers not yet placed             */
    float *weight;            /* by section: grows with its failures            */
    uint32_t *neighbour_start, *neighbours; /* overlapping buffers, by buffer   */
    uint32_t *member_start, *members;       /* buffers, by section              */
    struct trail *trail;
    size_t trail_count, trail_capacity;
    uint32_t *stack;          /* trail position and buffer of each open node    */
    enum picking picking;
    uint32_t left;            /* buffers not yet placed                         */
    uint64_t nodes;           /* decisions made                                 */
    uint64_t node_limit;      /* of one descent                                 */
    uint64_t random;
    bool is_lost;             /* the trail could not grow                       */
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

/* Lists the buffers of every section. */
static acre_status list_members(struct search *search)
{
    const struct sections *sections = search->sections;
    uint32_t *start = search->member_start;

    for (uint32_t p = 0; p < sections->piece_count; p++)
        for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++)
            if (++start[s + 1] > OVERLAPS_MAX)
                return status_fail(ACRE_ERR_LIMIT, "plan: too many overlaps to search");
    for (uint32_t s = 0; s < search->section_count; s++) {
        if ((uint64_t)start[s] + start[s + 1] > OVERLAPS_MAX)
            return status_fail(ACRE_ERR_LIMIT, "plan: too many overlaps to search");
        start[s + 1] += start[s];
    }
    search->members = heap_array(start[search->section_count] + 1u, sizeof *search->members);
    if (!search->members)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < search->count; i++)
        for (uint32_t p = sections->piece_start[i]; p < sections->piece_start[i + 1]; p++)
            for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++)
                search->members[start[s]++] = i;
    for (uint32_t s = search->section_count; s > 0; s--)
        start[s] = start[s - 1];
    start[0] = 0;
    return ACRE_OK;
}

/* Walks the overlapping buffers of one; puts them at out unless it is NULL. */
static uint32_t walk_neighbours(struct search *search, uint32_t buffer, uint32_t *seen,
                                uint32_t *out)
{
    const struct sections *sections = search->sections;
    uint32_t count = 0;

    seen[buffer] = buffer + 1;
    for (uint32_t p = sections->piece_start[buffer]; p < sections->piece_start[buffer + 1]; p++)
        for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++)
            for (uint32_t k = search->member_start[s]; k < search->member_start[s + 1]; k++) {
                uint32_t other = search->members[k];
                if (seen[other] == buffer + 1)
                    continue;
                seen[other] = buffer + 1;
                if (out)
                    out[count] = other;
                count++;
            }
    return count;
}

static acre_status list_neighbours(struct search *search)
{
    uint32_t *seen = heap_array(search->count + 1u, sizeof *seen);
    acre_status status = ACRE_ERR_HOST_MEMORY;
    uint64_t total = 0;

    if (!seen)
        return status;
    for (uint32_t i = 0; i < search->count && total <= OVERLAPS_MAX; i++) {
        search->neighbour_start[i] = (uint32_t)total;
        total += walk_neighbours(search, i, seen, NULL);
    }
    search->neighbour_start[search->count] = (uint32_t)total;
    if (total > OVERLAPS_MAX) {
        status = status_fail(ACRE_ERR_LIMIT, "plan: too many overlaps to search");
        goto done;
    }
    search->neighbours = heap_array(total + 1, sizeof *search->neighbours);
    if (!search->neighbours)
        goto done;
    memset(seen, 0, search->count * sizeof *seen);
    for (uint32_t i = 0; i < search->count; i++)
        walk_neighbours(search, i, seen, search->neighbours + search->neighbour_start[i]);
    status = ACRE_OK;
done:
    heap_free(seen);
    return status;
}

acre_status search_create(const struct sections *sections, struct search **out)
{
    struct search *search = heap_zalloc(sizeof *search);
    size_t count = sections->buffer_count, section_count = sections->section_count;
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!search)
        return status;
    search->sections = sections;
    search->count = sections->buffer_count;
    search->section_count = sections->section_count;
    search->floor = heap_array(count + 1, sizeof *search->floor);
    search->top = heap_array(count + 1, sizeof *search->top);
    search->offset = heap_array(count + 1, sizeof *search->offset);
    search->skipped = heap_array(count + 1, sizeof *search->skipped);
    search->rank = heap_array(count + 1, sizeof *search->rank);
    search->stack = heap_array(2 * count + 2, sizeof *search->stack);
    search->neighbour_start = heap_array(count + 1, sizeof *search->neighbour_start);
    search->room = heap_array(section_count + 1, sizeof *search->room);
    search->support = heap_array(section_count + 1, sizeof *search->support);
    search->unplaced = heap_array(section_count + 1, sizeof *search->unplaced);
    search->weight = heap_array(section_count + 1, sizeof *search->weight);
    search->member_start = heap_array(section_count + 2, sizeof *search->member_start);
    if (search->floor && search->top && search->offset && search->skipped && search->rank &&
        search->stack && search->neighbour_start && search->room && search->support &&
        search->unplaced && search->weight && search->member_start)
        status = list_members(search);
    if (status == ACRE_OK)
        status = list_neighbours(search);
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
    heap_free(search->floor);
    heap_free(search->top);
    heap_free(search->offset);
    heap_free(search->skipped);
    heap_free(search->rank);
    heap_free(search->stack);
    heap_free(search->neighbour_start);
    heap_free(search->neighbours);
    heap_free(search->room);
    heap_free(search->support);
    heap_free(search->unplaced);
    heap_free(search->weight);
    heap_free(search->member_start);
    heap_free(search->members);
    heap_free(search->trail);
    heap_free(search);
}

/* ---- Changes --------------------------------------------------------------------- */

static void note(struct search *search, enum change change, uint32_t index, int64_t old)
{
    if (UNLIKELY(search->trail_count == search->trail_capacity)) {
        size_t capacity = search->trail_capacity ? 2 * search->trail_capacity : 4096;
        void *trail = heap_realloc(search->trail, capacity * sizeof *search->trail);
        if (!trail) {
            search->is_lost = true;
            return;
        }
        search->trail = trail;
        search->trail_capacity = capacity;
    }
    search->trail[search->trail_count++] = (struct trail){change, index, old};
}

static void undo(struct search *search, size_t to)
{
    const struct sections *sections = search->sections;

    while (search->trail_count > to) {
        struct trail entry = search->trail[--search->trail_count];
        uint32_t index = entry.index;
        if (entry.change == CHANGE_SUPPORT) {
            search->support[index] = (int32_t)entry.old;
            continue;
        }
        search->floor[index] = entry.old >> 1;
        search->top[index] = search->floor[index] + sections->size[index];
        search->skipped[index] = entry.old & 1;
        if (entry.change == CHANGE_FLOOR)
            continue;
        search->left++;
        for (uint32_t p = sections->piece_start[index]; p < sections->piece_start[index + 1]; p++)
            for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++) {
                search->room[s] -= sections->size[index];
                search->unplaced[s]++;
            }
    }
}

static bool fail_section(struct search *search, uint32_t section)
{
    search->weight[section] += 1;
    return false;
}

/* Raises the floor of a buffer, and takes it out of the sections it no longer
 * supports. False when something became impossible. */
static bool raise_floor(struct search *search, uint32_t buffer, int64_t to, bool is_skipped)
{
    const struct sections *sections = search->sections;
    int64_t from = search->floor[buffer];
    bool is_good = true;

    to = sections_align(sections, buffer, to);
    note(search, CHANGE_FLOOR, buffer, from * 2 + search->skipped[buffer]);
    search->skipped[buffer] = is_skipped;
    if (to <= from)
        return true;
    search->floor[buffer] = to;
    search->top[buffer] = to + sections->size[buffer];
    if (search->top[buffer] > search->capacity ||
        (sections->fixed[buffer] >= 0 && to > sections->fixed[buffer]))
        is_good = false;
    for (uint32_t p = sections->piece_start[buffer]; p < sections->piece_start[buffer + 1]; p++)
        for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++)
            if (from <= search->room[s] && to > search->room[s]) {
                note(search, CHANGE_SUPPORT, s, search->support[s]);
                if (--search->support[s] == 0)
                    is_good = fail_section(search, s);
            }
    return is_good;
}

/* Counts the supports of a section anew. */
static bool recount(struct search *search, uint32_t section)
{
    const uint32_t *member = search->members + search->member_start[section];
    const uint32_t *end = search->members + search->member_start[section + 1];
    int64_t room = search->room[section];
    int32_t support = 0;

    for (; member < end; member++)
        support += search->floor[*member] <= room;
    if (support != search->support[section]) {
        note(search, CHANGE_SUPPORT, section, search->support[section]);
        search->support[section] = support;
    }
    return support > 0 || search->unplaced[section] == 0 || fail_section(search, section);
}

/* Puts a buffer on its floor. False when something became impossible. */
static bool place(struct search *search, uint32_t buffer)
{
    const struct sections *sections = search->sections;
    int64_t top = search->top[buffer];
    bool is_good = true;

    note(search, CHANGE_PLACED, buffer, search->floor[buffer] * 2 + search->skipped[buffer]);
    search->offset[buffer] = search->floor[buffer];
    search->floor[buffer] = search->top[buffer] = FLOOR_PLACED;
    search->left--;
    for (uint32_t k = search->neighbour_start[buffer]; k < search->neighbour_start[buffer + 1];
         k++) {
        uint32_t other = search->neighbours[k];
        if (search->floor[other] < top || search->skipped[other])
            if (search->floor[other] != FLOOR_PLACED)
                is_good &= raise_floor(search, other, top, false);
    }
    for (uint32_t p = sections->piece_start[buffer]; p < sections->piece_start[buffer + 1]; p++)
        for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++) {
            search->room[s] += sections->size[buffer];
            search->unplaced[s]--;
            is_good &= recount(search, s);
        }
    return is_good;
}

/* ---- Picking --------------------------------------------------------------------- */

/* The lowest top of the overlapping buffers not yet placed, and whose it is. */
static int64_t lowest_top(const struct search *search, uint32_t buffer, uint32_t *out_whose)
{
    int64_t lowest = FLOOR_PLACED;

    for (uint32_t k = search->neighbour_start[buffer]; k < search->neighbour_start[buffer + 1];
         k++) {
        uint32_t other = search->neighbours[k];
        if (search->top[other] < lowest) {
            lowest = search->top[other];
            *out_whose = other;
        }
    }
    return lowest;
}

/* The section that is hardest to satisfy: few supports, often failed, and many
 * buffers to place or little room, in turn. */
static uint32_t pick_section(const struct search *search)
{
    bool by_room = search->picking == PICK_ROOM;
    float best = INFINITY;
    uint32_t found = 0;

    for (uint32_t s = 0; s < search->section_count; s++) {
        if (search->unplaced[s] == 0)
            continue;
        float score = (float)search->support[s] / search->weight[s];
        score = by_room ? score * (float)search->room[s] : score / (float)search->unplaced[s];
        if (score < best) {
            best = score;
            found = s;
        }
    }
    return found;
}

/* The best-ranked buffer that may be the lowest of a section. */
static uint32_t pick_support(const struct search *search, uint32_t section)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t k = search->member_start[section]; k < search->member_start[section + 1]; k++) {
        uint32_t buffer = search->members[k];
        if (search->floor[buffer] <= search->room[section] &&
            (best == UINT32_MAX || search->rank[buffer] < search->rank[best]))
            best = buffer;
    }
    return best;
}

/* The buffer with the lowest floor, the better-ranked of several. */
static uint32_t pick_lowest(const struct search *search)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < search->count; i++)
        if (search->floor[i] < search->floor[best] ||
            (search->floor[i] == search->floor[best] && search->rank[i] < search->rank[best]))
            best = i;
    return best;
}

/* Picks the buffer to decide on, and the floor it gets when skipped. False
 * when the node has failed. */
static bool pick(struct search *search, uint32_t *out_buffer, int64_t *out_floor)
{
    for (;;) {
        uint32_t below = 0;
        uint32_t buffer = search->picking == PICK_LOWEST
                              ? pick_lowest(search)
                              : pick_support(search, pick_section(search));
        for (;;) { /* down to one that nothing has to go below */
            int64_t lowest = lowest_top(search, buffer, &below);
            if (lowest > search->floor[buffer] && !search->skipped[buffer]) {
                *out_buffer = buffer;
                *out_floor = lowest;
                return true;
            }
            if (lowest > search->floor[buffer])
                break;
            buffer = below;
        }
        int64_t lowest = lowest_top(search, buffer, &below);
        if (lowest == FLOOR_PLACED || !raise_floor(search, buffer, lowest, true))
            return false;
    }
}

/* ---- Searching ------------------------------------------------------------------- */

/* One descent with backtracking, until found, excluded or out of nodes. */
static enum search_result descend(struct search *search, const _Atomic uint64_t *limit)
{
    uint32_t depth = 0;
    uint64_t nodes = 0;

    while (search->left > 0) {
        uint32_t buffer = 0;
        int64_t floor = 0;
        search->nodes++;
        if (++nodes > search->node_limit || search->is_lost ||
            search->nodes > atomic_load_explicit(limit, memory_order_relaxed))
            return SEARCH_LIMIT;
        bool is_good = pick(search, &buffer, &floor);
        if (is_good) {
            search->stack[2 * depth] = (uint32_t)search->trail_count;
            search->stack[2 * depth + 1] = buffer;
            depth++;
            is_good = place(search, buffer);
        }
        while (!is_good) { /* the last placement does not work: skip it instead */
            if (depth == 0)
                return SEARCH_NONE;
            depth--;
            undo(search, search->stack[2 * depth]);
            buffer = search->stack[2 * depth + 1];
            floor = lowest_top(search, buffer, &(uint32_t){0});
            is_good = floor != FLOOR_PLACED && raise_floor(search, buffer, floor, true);
        }
    }
    return SEARCH_FOUND;
}

/* Draws ranks: products of powers of load, lifetime and size. */
static void draw_ranks(struct search *search, unsigned turn)
{
    const struct sections *sections = search->sections;
    static const double fixed[4][3] = {{1, 1, 1}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}};
    double power[3], noise = turn < 4 ? 0 : 0.5;

    for (int k = 0; k < 3; k++)
        power[k] = turn < 4 ? fixed[turn][k] : 2 * next_unit(search);
    for (uint32_t n = 0; n < search->count; n++) {
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

/* Starts with nothing placed. False when that cannot work. */
static bool reset(struct search *search)
{
    const struct sections *sections = search->sections;
    bool is_good = true;

    search->trail_count = 0;
    search->left = 0;
    for (uint32_t s = 0; s < search->section_count; s++) {
        search->room[s] = search->capacity - sections->load[s];
        search->unplaced[s] = search->member_start[s + 1] - search->member_start[s];
    }
    for (uint32_t i = 0; i < search->count; i++) {
        search->floor[i] = sections->fixed[i] >= 0 ? sections->fixed[i] : 0;
        search->top[i] = search->floor[i] + sections->size[i];
        search->skipped[i] = 0;
        if (sections->size[i] == 0) { /* never lives: counts as placed */
            search->offset[i] = search->floor[i];
            search->floor[i] = search->top[i] = FLOOR_PLACED;
            continue;
        }
        search->left++;
        if (search->top[i] > search->capacity)
            is_good = false;
    }
    for (uint32_t s = 0; s < search->section_count; s++) {
        search->support[s] = 0;
        is_good &= recount(search, s);
    }
    search->trail_count = 0;
    return is_good;
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

uint64_t search_node_cost(const struct search *search)
{
    uint64_t overlaps = search->neighbour_start[search->count];
    uint64_t members = search->member_start[search->section_count];

    return 100 + search->count + search->section_count +
           (4 * overlaps + 4 * members) / (search->count + 1);
}

enum search_result search_run(struct search *search, int64_t capacity, uint64_t seed,
                              const _Atomic uint64_t *limit, int64_t *offsets,
                              uint64_t *out_nodes)
{
    enum search_result result = SEARCH_LIMIT;

    search->capacity = capacity;
    search->random = seed;
    search->nodes = 0;
    for (uint32_t s = 0; s < search->section_count; s++)
        search->weight[s] = 1;
    for (unsigned turn = 0; result == SEARCH_LIMIT && !search->is_lost; turn++) {
        if (search->nodes > atomic_load_explicit(limit, memory_order_relaxed))
            break;
        search->picking = (enum picking)(turn % PICKINGS);
        draw_ranks(search, turn / PICKINGS);
        search->node_limit = RESTART_NODES * luby(turn / PICKINGS + 1);
        result = reset(search) ? descend(search, limit) : SEARCH_NONE;
    }
    if (result == SEARCH_FOUND)
        memcpy(offsets, search->offset, search->count * sizeof *offsets);
    *out_nodes = search->nodes;
    return result;
}
