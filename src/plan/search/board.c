/* SPDX-License-Identifier: MIT */
#include "plan/search/board.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <string.h>

#define OVERLAPS_MAX 40000000u /* neighbours of all buffers together */

/* Walks the sections of a buffer, s in each. */
#define FOR_SECTIONS(board, buffer, s)                                                             \
    for (uint32_t p_ = (board)->sections->piece_start[buffer];                                     \
         p_ < (board)->sections->piece_start[(buffer) + 1]; p_++)                                  \
        for (uint32_t s = (board)->sections->pieces[p_].first;                                     \
             s < (board)->sections->pieces[p_].last; s++)

/* ---- Changes --------------------------------------------------------------------- */

static bool is_placed(const struct board *board, uint32_t buffer)
{
    return board->floor[buffer] == FLOOR_PLACED;
}

/* Notes what is about to change of a buffer. */
static void board_note(struct board *board, uint32_t buffer)
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
    board->trail[board->trail_count++] = (struct board_change){
        buffer, board->conflict.cause[buffer], board->floor[buffer] * 2 + board->skipped[buffer]};
}

static void mark_changed(struct board *board, uint32_t buffer)
{
    const struct sections *sections = board->sections;

    if (!board->is_tracking)
        return;
    for (uint32_t p = sections->piece_start[buffer]; p < sections->piece_start[buffer + 1]; p++)
        memset(board->changed + sections->pieces[p].first, 1,
               sections->pieces[p].last - sections->pieces[p].first);
}

struct board_mark board_now(const struct board *board)
{
    return (struct board_mark){board->trail_count, board->conflict.record_count};
}

void board_undo(struct board *board, struct board_mark mark)
{
    while (board->trail_count > mark.trail_count) {
        const struct board_change *change = &board->trail[--board->trail_count];
        uint32_t buffer = change->buffer;
        if (is_placed(board, buffer)) {
            board->left++;
            board->depth--;
            FOR_SECTIONS(board, buffer, s)
            {
                board->room[s] -= board->sections->size[buffer];
                board->unplaced[s]++;
            }
        }
        board->floor[buffer] = change->old >> 1;
        board->top[buffer] = board->floor[buffer] + board->sections->size[buffer];
        board->skipped[buffer] = change->old & 1;
        board->conflict.cause[buffer] = change->cause;
        mark_changed(board, buffer);
    }
    board->conflict.record_count = mark.record_count;
}

/* ---- Failing --------------------------------------------------------------------- */

/* Its floor alone makes a buffer end too high. */
static bool fail_buffer(struct board *board, uint32_t buffer)
{
    conflict_clear(&board->conflict);
    conflict_add_floor(&board->conflict, buffer, board->conflict.found);
    return false;
}

/* The floors of those not placed explain it: wherever the others are, these do not fit. */
static bool fail_section(struct board *board, uint32_t section)
{
    board->failed = section;
    board->weight[section] += 1;
    conflict_clear(&board->conflict);
    for (uint32_t k = board->member_start[section]; k < board->member_start[section + 1]; k++)
        if (!is_placed(board, board->members[k]))
            conflict_add_floor(&board->conflict, board->members[k], board->conflict.found);
    return false;
}

/* Whether some buffer can be the lowest of a section; watches it. */
static bool is_holding(struct board *board, uint32_t section)
{
    int64_t room = board->room[section];

    if (board->floor[board->watch[section]] <= room || board->unplaced[section] == 0)
        return true;
    for (uint32_t k = board->member_start[section]; k < board->member_start[section + 1]; k++)
        if (board->floor[board->members[k]] <= room) {
            board->watch[section] = board->members[k];
            return true;
        }
    return false;
}

/* Looks at sections [from, to), first at the one that failed last. */
static bool check_sections(struct board *board, uint32_t from, uint32_t to)
{
    if (board->failed >= from && board->failed < to && !is_holding(board, board->failed))
        return fail_section(board, board->failed);
    for (uint32_t s = from; s < to; s++)
        if (!is_holding(board, s))
            return fail_section(board, s);
    return true;
}

/* ---- Deciding -------------------------------------------------------------------- */

/* Raises a floor. False when the buffer then ends too high. */
static bool raise_floor(struct board *board, uint32_t buffer, int64_t to, int32_t cause)
{
    const struct sections *sections = board->sections;

    to = sections_align(sections, buffer, to);
    board->floor[buffer] = to;
    board->top[buffer] = to + sections->size[buffer];
    board->conflict.cause[buffer] = cause;
    mark_changed(board, buffer);
    return board->top[buffer] <= board->capacity &&
           (sections->fixed[buffer] < 0 || to <= sections->fixed[buffer]);
}

/* Adds to the set found why a buffer that is not on its floor is at least at an offset:
 * why it is above its floor, and why what overlaps it ends at its floor or from there on. */
static void add_skip(struct board *board, uint32_t buffer, int64_t to)
{
    const uint32_t *other = board->neighbours + board->neighbour_start[buffer];
    const uint32_t *end = board->neighbours + board->neighbour_start[buffer + 1];
    struct conflict *conflict = &board->conflict;

    conflict_add_floor(conflict, buffer, conflict->found);
    for (; other < end; other++) {
        if (board->sections->size[*other] >= to)
            continue; /* wherever it is */
        if (is_placed(board, *other))
            conflict_add_placed(conflict, *other, conflict->found);
        else
            conflict_add_floor(conflict, *other, conflict->found);
    }
}

bool board_skip(struct board *board, uint32_t buffer, int64_t to)
{
    int32_t cause;

    add_skip(board, buffer, to);
    if (to == FLOOR_PLACED)
        return false; /* nothing is left that could be below it */
    if (!conflict_record(&board->conflict, &cause)) {
        board->is_lost = true;
        return true;
    }
    board_note(board, buffer);
    board->skipped[buffer] = 1;
    if (!raise_floor(board, buffer, to, cause))
        return fail_buffer(board, buffer);
    return check_sections(board, sections_first(board->sections, buffer),
                          sections_last(board->sections, buffer));
}

bool board_place(struct board *board, uint32_t buffer)
{
    const struct sections *sections = board->sections;
    const uint32_t *other = board->neighbours + board->neighbour_start[buffer];
    const uint32_t *end = board->neighbours + board->neighbour_start[buffer + 1];
    uint32_t from = sections_first(sections, buffer), to = sections_last(sections, buffer);
    int64_t top = board->top[buffer];
    uint32_t bad = UINT32_MAX;

    board_note(board, buffer);
    board->offset[buffer] = board->floor[buffer];
    board->floor[buffer] = board->top[buffer] = FLOOR_PLACED;
    board->conflict.depth[buffer] = board->depth++;
    board->left--;
    mark_changed(board, buffer);
    FOR_SECTIONS(board, buffer, s)
    {
        board->room[s] += sections->size[buffer];
        board->unplaced[s]--;
    }
    for (; other < end; other++) {
        if ((board->floor[*other] >= top && !board->skipped[*other]) || is_placed(board, *other))
            continue;
        board_note(board, *other);
        board->skipped[*other] = 0;
        if (board->floor[*other] >= top)
            continue;
        if (!raise_floor(board, *other, top, (int32_t)buffer))
            bad = *other;
        uint32_t first = sections_first(sections, *other), last = sections_last(sections, *other);
        from = first < from ? first : from;
        to = last > to ? last : to;
    }
    return bad == UINT32_MAX ? check_sections(board, from, to) : fail_buffer(board, bad);
}

/* Everything on its lowest floor; true when all end within the capacity. */
static bool reset_buffers(struct board *board)
{
    const struct sections *sections = board->sections;
    bool is_good = true;

    board->left = board->depth = 0;
    for (uint32_t i = 0; i < board->count; i++) {
        board->floor[i] = sections->fixed[i] >= 0 ? sections->fixed[i] : 0;
        board->top[i] = board->floor[i] + sections->size[i];
        board->skipped[i] = 0;
        board->conflict.cause[i] = CAUSE_NONE;
        if (sections->size[i] == 0) { /* never lives: counts as placed */
            board->offset[i] = board->floor[i];
            board->floor[i] = board->top[i] = FLOOR_PLACED;
            continue;
        }
        board->left++;
        is_good &= board->top[i] <= board->capacity;
    }
    return is_good;
}

bool board_reset(struct board *board, int64_t capacity)
{
    const struct sections *sections = board->sections;

    board->capacity = capacity;
    bool is_good = reset_buffers(board);
    for (uint32_t s = 0; s < board->section_count; s++) {
        board->room[s] = capacity - sections->load[s];
        board->unplaced[s] = board->member_start[s + 1] - board->member_start[s];
        board->watch[s] = board->members[board->member_start[s]];
        board->changed[s] = 1;
        is_good &= is_holding(board, s);
    }
    board->trail_count = 0;
    board->conflict.record_count = 0;
    conflict_clear(&board->conflict);
    return is_good;
}

/* ---- Making ---------------------------------------------------------------------- */

static acre_status fail_overlaps(void)
{
    return status_fail(ACRE_ERR_LIMIT, "plan: too many overlaps to search");
}

/* Lists the buffers of every section, in the canonical order. */
static acre_status list_members(struct board *board)
{
    const struct sections *sections = board->sections;
    uint32_t *start = board->member_start;
    uint64_t total = 0;

    for (uint32_t p = 0; p < sections->piece_count; p++) {
        total += sections->pieces[p].last - sections->pieces[p].first;
        if (total > OVERLAPS_MAX)
            return fail_overlaps();
        for (uint32_t s = sections->pieces[p].first; s < sections->pieces[p].last; s++)
            start[s + 1]++;
    }
    for (uint32_t s = 0; s < board->section_count; s++)
        start[s + 1] += start[s];
    board->members = heap_array(total + 1, sizeof *board->members);
    if (!board->members)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t n = 0; n < board->count; n++) {
        uint32_t i = sections->order[n];
        FOR_SECTIONS(board, i, s)
        {
            board->members[start[s]++] = i;
        }
    }
    for (uint32_t s = board->section_count; s > 0; s--)
        start[s] = start[s - 1];
    start[0] = 0;
    return ACRE_OK;
}

/* Where those members of a section begin that a buffer that lives before it as well has not
 * overlapped yet: the last ones, in the canonical order, unless there are gaps. */
static uint32_t first_new(const struct board *board, uint32_t buffer, uint32_t section)
{
    uint32_t from = board->member_start[section], k = board->member_start[section + 1];

    if (board->sections->has_gaps || section == sections_first(board->sections, buffer))
        return from;
    while (k > from && sections_first(board->sections, board->members[k - 1]) == section)
        k--;
    return k;
}

/* Walks the overlapping buffers of one; puts them at out unless it is NULL. */
static uint32_t walk_neighbours(struct board *board, uint32_t buffer, uint32_t *seen, uint32_t *out)
{
    uint32_t count = 0;

    seen[buffer] = buffer + 1;
    FOR_SECTIONS(board, buffer, s)
    {
        for (uint32_t k = first_new(board, buffer, s); k < board->member_start[s + 1]; k++) {
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
    board->room = heap_array(section_count, sizeof *board->room);
    board->watch = heap_array(section_count, sizeof *board->watch);
    board->unplaced = heap_array(section_count, sizeof *board->unplaced);
    board->weight = heap_array(section_count, sizeof *board->weight);
    board->changed = heap_array(section_count, sizeof *board->changed);
    board->member_start = heap_array(section_count + 1, sizeof *board->member_start);
    if (board->floor && board->top && board->offset && board->skipped && board->neighbour_start &&
        board->room && board->watch && board->unplaced && board->weight && board->changed &&
        board->member_start)
        status = conflict_init(&board->conflict, board->count);
    if (status == ACRE_OK)
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
    heap_free(board->room);
    heap_free(board->watch);
    heap_free(board->unplaced);
    heap_free(board->weight);
    heap_free(board->changed);
    heap_free(board->member_start);
    heap_free(board->members);
    conflict_fini(&board->conflict);
    heap_free(board->trail);
    heap_free(board);
}
