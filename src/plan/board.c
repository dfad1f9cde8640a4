/* SPDX-License-Identifier: MIT */
#include "plan/board.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <string.h>

#define OVERLAPS_MAX 40000000u /* neighbours of all buffers together */

/* What a trail entry puts back. */
enum change { CHANGE_FLOOR, CHANGE_PLACED, CHANGE_SUPPORT };

/* Walks the sections of a buffer, s in each, k the number of the membership. */
#define FOR_SECTIONS(board, buffer, s, k)                                                      \
    for (uint32_t p_ = (board)->sections->piece_start[buffer];                                 \
         p_ < (board)->sections->piece_start[(buffer) + 1]; p_++)                              \
        for (uint32_t s = (board)->sections->pieces[p_].first, k = (board)->name_start[p_];    \
             s < (board)->sections->pieces[p_].last; s++, k++)

/* ---- Changes --------------------------------------------------------------------- */

static void note(struct board *board, enum change change, uint32_t index, int64_t old)
{
    if (UNLIKELY(board->trail_count == board->trail_capacity)) {
        size_t capacity = board->trail_capacity ? 2 * board->trail_capacity : 4096;
        void *trail = heap_realloc(board->trail, capacity * sizeof *board->trail);
        if (!trail) {
            board->is_lost = true;
            return;
        }
        board->trail = trail;
        board->trail_capacity = capacity;
    }
    board->trail[board->trail_count++] = (struct board_change){change, index, old};
}

/* The buffer becomes the first of its sections' members that are placed. */
static void take_out(struct board *board, uint32_t buffer)
{
    FOR_SECTIONS(board, buffer, s, name) {
        uint32_t at = board->places[name];
        uint32_t last = board->member_start[s] + --board->unplaced[s];
        uint32_t other = board->members[last], other_name = board->names[last];
        board->members[last] = buffer;
        board->names[last] = name;
        board->places[name] = last;
        board->members[at] = other;
        board->names[at] = other_name;
        board->places[other_name] = at;
        board->room[s] += board->sections->size[buffer];
    }
}

/* The reverse, in reverse order. */
static void put_back(struct board *board, uint32_t buffer)
{
    FOR_SECTIONS(board, buffer, s, name) {
        (void)name;
        board->room[s] -= board->sections->size[buffer];
        board->unplaced[s]++;
    }
}

void board_undo(struct board *board, size_t to)
{
    while (board->trail_count > to) {
        struct board_change entry = board->trail[--board->trail_count];
        uint32_t index = entry.index;
        if (entry.kind == CHANGE_SUPPORT) {
            board->support[index] = (int32_t)entry.old;
            continue;
        }
        board->floor[index] = entry.old >> 1;
        board->top[index] = board->floor[index] + board->sections->size[index];
        board->skipped[index] = entry.old & 1;
        if (entry.kind == CHANGE_FLOOR)
            continue;
        board->left++;
        put_back(board, index);
    }
}

static bool fail_section(struct board *board, uint32_t section)
{
    board->weight[section] += 1;
    return false;
}

/* Counts the supports of a section anew. */
static bool recount(struct board *board, uint32_t section)
{
    const uint32_t *member = board->members + board->member_start[section];
    const uint32_t *end = member + board->unplaced[section];
    int64_t room = board->room[section];
    int32_t support = 0;

    for (; member < end; member++)
        support += board->floor[*member] <= room;
    if (support != board->support[section]) {
        note(board, CHANGE_SUPPORT, section, board->support[section]);
        board->support[section] = support;
    }
    return support > 0 || board->unplaced[section] == 0 || fail_section(board, section);
}

/* Raises a floor, and takes the buffer out of the sections it no longer supports, but
 * for those with the stamp, which are counted anew. */
static bool raise_floor(struct board *board, uint32_t buffer, int64_t to, bool is_skipped,
                        uint32_t stamp)
{
    const struct sections *sections = board->sections;
    int64_t from = board->floor[buffer];
    bool is_good = true;

    to = sections_align(sections, buffer, to);
    note(board, CHANGE_FLOOR, buffer, from * 2 + board->skipped[buffer]);
    board->skipped[buffer] = is_skipped;
    if (to <= from)
        return true;
    board->floor[buffer] = to;
    board->top[buffer] = to + sections->size[buffer];
    if (board->top[buffer] > board->capacity ||
        (sections->fixed[buffer] >= 0 && to > sections->fixed[buffer]))
        is_good = false;
    FOR_SECTIONS(board, buffer, s, name) {
        int64_t room = board->room[s];
        (void)name;
        if (from > room || to <= room || board->stamp[s] == stamp)
            continue;
        note(board, CHANGE_SUPPORT, s, board->support[s]);
        if (--board->support[s] == 0)
            is_good = fail_section(board, s);
    }
    return is_good;
}

bool board_skip(struct board *board, uint32_t buffer, int64_t to)
{
    return raise_floor(board, buffer, to, true, UINT32_MAX);
}

bool board_place(struct board *board, uint32_t buffer)
{
    const uint32_t *other = board->neighbours + board->neighbour_start[buffer];
    const uint32_t *end = board->neighbours + board->neighbour_start[buffer + 1];
    uint32_t stamp = ++board->stamp_now;
    int64_t top = board->top[buffer];
    bool is_good = true;

    note(board, CHANGE_PLACED, buffer, board->floor[buffer] * 2 + board->skipped[buffer]);
    board->offset[buffer] = board->floor[buffer];
    board->floor[buffer] = board->top[buffer] = FLOOR_PLACED;
    board->left--;
    take_out(board, buffer);
    FOR_SECTIONS(board, buffer, s, name) {
        (void)name;
        board->stamp[s] = stamp;
    }
    for (; other < end; other++)
        if ((board->floor[*other] < top || board->skipped[*other]) &&
            board->floor[*other] != FLOOR_PLACED)
            is_good &= raise_floor(board, *other, top, false, stamp);
    FOR_SECTIONS(board, buffer, s, name) {
        (void)name;
        is_good &= recount(board, s);
    }
    return is_good;
}

bool board_reset(struct board *board, int64_t capacity)
{
    const struct sections *sections = board->sections;
    bool is_good = true;

    board->capacity = capacity;
    board->left = 0;
    for (uint32_t s = 0; s < board->section_count; s++) {
        board->room[s] = capacity - sections->load[s];
        board->unplaced[s] = board->member_start[s + 1] - board->member_start[s];
    }
    for (uint32_t i = 0; i < board->count; i++) {
        board->floor[i] = sections->fixed[i] >= 0 ? sections->fixed[i] : 0;
        board->top[i] = board->floor[i] + sections->size[i];
        board->skipped[i] = 0;
        if (sections->size[i] == 0) { /* never lives: counts as placed */
            board->offset[i] = board->floor[i];
            board->floor[i] = board->top[i] = FLOOR_PLACED;
            continue;
        }
        board->left++;
        is_good &= board->top[i] <= capacity;
    }
    for (uint32_t s = 0; s < board->section_count; s++) {
        board->support[s] = 0;
        is_good &= recount(board, s);
    }
    board->trail_count = 0;
    return is_good;
}

/* ---- Making ---------------------------------------------------------------------- */

static acre_status fail_overlaps(void)
{
    return status_fail(ACRE_ERR_LIMIT, "plan: too many overlaps to search");
}

/* Lists the buffers of every section. */
static acre_status list_members(struct board *board)
{
    const struct sections *sections = board->sections;
    uint32_t *start = board->member_start;
    uint64_t total = 0;

    for (uint32_t p = 0; p < sections->piece_count; p++) {
        board->name_start[p] = (uint32_t)total;
        total += sections->pieces[p].last - sections->pieces[p].first;
        if (total > OVERLAPS_MAX)
            return fail_overlaps();
        for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++)
            start[s + 1]++;
    }
    for (uint32_t s = 0; s < board->section_count; s++)
        start[s + 1] += start[s];
    board->members = heap_array(total + 1, sizeof *board->members);
    board->names = heap_array(total + 1, sizeof *board->names);
    board->places = heap_array(total + 1, sizeof *board->places);
    if (!board->members || !board->names || !board->places)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < board->count; i++)
        FOR_SECTIONS(board, i, s, name) {
            board->places[name] = start[s];
            board->names[start[s]] = name;
            board->members[start[s]++] = i;
        }
    for (uint32_t s = board->section_count; s > 0; s--)
        start[s] = start[s - 1];
    start[0] = 0;
    return ACRE_OK;
}

/* Walks the overlapping buffers of one; puts them at out unless it is NULL. */
static uint32_t walk_neighbours(struct board *board, uint32_t buffer, uint32_t *seen,
                                uint32_t *out)
{
    uint32_t count = 0;

    seen[buffer] = buffer + 1;
    FOR_SECTIONS(board, buffer, s, name) {
        (void)name;
        for (uint32_t k = board->member_start[s]; k < board->member_start[s + 1]; k++) {
            uint32_t other = board->members[k];
            if (seen[other] == buffer + 1)
                continue;
            seen[other] = buffer + 1;
            if (out)
                out[count] = other;
            count++;
        }
    }
    return count;
}

static acre_status list_neighbours(struct board *board)
{
    uint32_t *seen = heap_array(board->count + 1u, sizeof *seen);
    acre_status status = ACRE_ERR_HOST_MEMORY;
    uint64_t total = 0;

    if (!seen)
        return status;
    for (uint32_t i = 0; i < board->count && total <= OVERLAPS_MAX; i++) {
        board->neighbour_start[i] = (uint32_t)total;
        total += walk_neighbours(board, i, seen, NULL);
    }
    board->neighbour_start[board->count] = (uint32_t)total;
    if (total > OVERLAPS_MAX) {
        status = fail_overlaps();
        goto done;
    }
    board->neighbours = heap_array(total + 1, sizeof *board->neighbours);
    if (!board->neighbours)
        goto done;
    memset(seen, 0, board->count * sizeof *seen);
    for (uint32_t i = 0; i < board->count; i++)
        walk_neighbours(board, i, seen, board->neighbours + board->neighbour_start[i]);
    status = ACRE_OK;
done:
    heap_free(seen);
    return status;
}

acre_status board_create(const struct sections *sections, struct board **out)
{
    size_t count = sections->buffer_count + (size_t)1;
    size_t section_count = sections->section_count + (size_t)1;
    struct board *board = heap_zalloc(sizeof *board);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!board)
        return status;
    board->sections = sections;
    board->count = sections->buffer_count;
    board->section_count = sections->section_count;
    board->floor = heap_array(count, sizeof *board->floor);
    board->top = heap_array(count, sizeof *board->top);
    board->offset = heap_array(count, sizeof *board->offset);
    board->skipped = heap_array(count, sizeof *board->skipped);
    board->neighbour_start = heap_array(count, sizeof *board->neighbour_start);
    board->name_start = heap_array(sections->piece_count + (size_t)1, sizeof *board->name_start);
    board->room = heap_array(section_count, sizeof *board->room);
    board->support = heap_array(section_count, sizeof *board->support);
    board->unplaced = heap_array(section_count, sizeof *board->unplaced);
    board->weight = heap_array(section_count, sizeof *board->weight);
    board->stamp = heap_array(section_count, sizeof *board->stamp);
    board->member_start = heap_array(section_count + 1, sizeof *board->member_start);
    if (board->floor && board->top && board->offset && board->skipped &&
        board->neighbour_start && board->name_start && board->room && board->support &&
        board->unplaced && board->weight && board->stamp && board->member_start)
        status = list_members(board);
    if (status == ACRE_OK)
        status = list_neighbours(board);
    if (status != ACRE_OK) {
        board_destroy(board);
        return status;
    }
    *out = board;
    return ACRE_OK;
}

void board_destroy(struct board *board)
{
    if (!board)
        return;
    heap_free(board->floor);
    heap_free(board->top);
    heap_free(board->offset);
    heap_free(board->skipped);
    heap_free(board->neighbour_start);
    heap_free(board->neighbours);
    heap_free(board->name_start);
    heap_free(board->room);
    heap_free(board->support);
    heap_free(board->unplaced);
    heap_free(board->weight);
    heap_free(board->stamp);
    heap_free(board->member_start);
    heap_free(board->members);
    heap_free(board->names);
    heap_free(board->places);
    heap_free(board->trail);
    heap_free(board);
}
