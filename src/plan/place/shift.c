/* SPDX-License-Identifier: MIT */
#include "plan/place/shift.h"

#define HOLES_MAX  48u /* large holes that are looked at                   */
#define PLACES_MAX 32u /* holes that are looked at for what is to move     */

/* A move: which buffer, and the owner of the hole that it goes to. */
struct move {
    uint32_t buffer, to;
    int64_t size; /* of the buffer                                    */
};

/* A hole that has been free since a buffer was born and is not next to it; SPACE_NONE when
 * there is none. */
static uint32_t find_place(const struct space *space, const struct sections *sections,
                           uint32_t buffer, uint32_t born)
{
    const struct resident *residents = space->residents;
    int64_t size = residents[buffer].size;
    uint32_t looked = 0;

    for (uint32_t bin = space_next_bin(space, space_bin(size)); bin < SPACE_BINS;
         bin = space_next_bin(space, bin + 1))
        for (uint32_t at = space->bins[bin]; at != SPACE_NONE; at = residents[at].behind) {
            if (looked++ == PLACES_MAX)
                return SPACE_NONE;
            int64_t low = sections_align(sections, buffer, space_hole_start(space, at));
            if (residents[at].since <= born && at != buffer && at != residents[buffer].below &&
                low + size <= space_hole_end(space, at))
                return at;
        }
    return SPACE_NONE;
}

/* Room is wanted for a buffer, by moving one that was born after a section. */
struct shift_task {
    const struct space *space;
    const struct sections *sections;
    const uint32_t *birth;
    uint32_t after, buffer;
};

/* Looks whether moving a resident makes enough room, and is a smaller move. */
static void try_move(const struct shift_task *task, uint32_t moved, struct move *best)
{
    const struct space *space = task->space;
    uint32_t buffer = task->buffer;
    const struct resident *residents = space->residents, *resident = &residents[moved];

    if (moved == SPACE_NONE || moved == space->floor || task->birth[moved] <= task->after ||
        resident->size >= best->size)
        return;
    int64_t start = space_hole_start(space, resident->below);
    if (sections_align(task->sections, buffer, start) + residents[buffer].size >
        space_hole_end(space, moved))
        return;
    uint32_t to = find_place(space, task->sections, moved, task->birth[moved]);
    if (to != SPACE_NONE)
        *best = (struct move){moved, to, resident->size};
}

bool shift_one(struct space *space, const struct sections *sections, const uint32_t *birth,
               uint32_t after, uint32_t buffer)
{
    const struct resident *residents = space->residents;
    struct move best = {SPACE_NONE, SPACE_NONE, residents[buffer].size};
    struct shift_task task = {space, sections, birth, after, buffer};
    uint32_t looked = 0;

    for (uint32_t bin = SPACE_BINS; bin-- > 0 && looked < HOLES_MAX;)
        for (uint32_t at = space->bins[bin]; at != SPACE_NONE && looked < HOLES_MAX;
             at = residents[at].behind, looked++) {
            try_move(&task, at, &best);
            try_move(&task, residents[at].above, &best);
        }
    if (best.buffer == SPACE_NONE)
        return false;
    space_take(space, best.buffer, birth[buffer]);
    space_put(space, best.buffer, best.to,
              sections_align(sections, best.buffer, space_hole_start(space, best.to)));
    return true;
}
