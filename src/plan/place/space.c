/* SPDX-License-Identifier: MIT */
#include "plan/place/space.h"

#include "base/check.h"
#include "base/heap.h"

#include <string.h>

acre_status space_init(struct space *space, uint32_t buffer_count)
{
    space->floor = buffer_count;
    space->residents = heap_array(buffer_count + (size_t)1, sizeof *space->residents);
    return space->residents ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

void space_fini(struct space *space)
{
    heap_free(space->residents);
}

/* ---- Holes ----------------------------------------------------------------------- */

static void remove_hole(struct space *space, uint32_t owner)
{
    struct resident *resident = &space->residents[owner];

    if (resident->bin == SPACE_NONE)
        return;
    if (resident->behind != SPACE_NONE)
        space->residents[resident->behind].before = resident->before;
    if (resident->before != SPACE_NONE)
        space->residents[resident->before].behind = resident->behind;
    else if ((space->bins[resident->bin] = resident->behind) == SPACE_NONE)
        space->filled[resident->bin / 64] &= ~(UINT64_C(1) << resident->bin % 64);
    resident->bin = SPACE_NONE;
}

/* Puts the hole above a resident into the bin of the size that it now has. */
static void sort_hole(struct space *space, uint32_t owner)
{
    struct resident *resident = &space->residents[owner];
    int64_t end =
        resident->above == SPACE_NONE ? space->ceiling : space->residents[resident->above].offset;

    remove_hole(space, owner);
    resident->hole = end - space_hole_start(space, owner);
    CHECK(resident->hole >= 0);
    if (resident->hole <= 0)
        return;
    resident->bin = space_bin(resident->hole);
    resident->before = SPACE_NONE;
    resident->behind = space->bins[resident->bin];
    if (resident->behind != SPACE_NONE)
        space->residents[resident->behind].before = owner;
    space->bins[resident->bin] = owner;
    space->filled[resident->bin / 64] |= UINT64_C(1) << resident->bin % 64;
}

/* ---- Residents ------------------------------------------------------------------- */

/* Empties the space but for the floor, whose hole is still to be sorted. */
static void space_reset(struct space *space, int64_t ceiling, uint32_t section)
{
    memset(space->bins, 0xFF, sizeof space->bins);
    memset(space->filled, 0, sizeof space->filled);
    space->residents[space->floor] = (struct resident){.below = SPACE_NONE,
                                                       .above = SPACE_NONE,
                                                       .since = section,
                                                       .bin = SPACE_NONE,
                                                       .before = SPACE_NONE,
                                                       .behind = SPACE_NONE};
    space->ceiling = ceiling;
    space->top = space->floor;
    space->count = 0;
}

void space_clear(struct space *space, int64_t ceiling)
{
    space_reset(space, ceiling, 0);
    sort_hole(space, space->floor);
}

void space_put(struct space *space, uint32_t buffer, uint32_t below, int64_t offset)
{
    struct resident *resident = &space->residents[buffer];
    uint32_t above = space->residents[below].above;

    resident->offset = offset;
    resident->below = below;
    resident->above = above;
    resident->since = space->residents[below].since;
    resident->bin = SPACE_NONE;
    space->residents[below].above = buffer;
    if (above == SPACE_NONE)
        space->top = buffer;
    else
        space->residents[above].below = buffer;
    space->count++;
    sort_hole(space, below);
    sort_hole(space, buffer);
}

void space_take(struct space *space, uint32_t buffer, uint32_t section)
{
    struct resident *resident = &space->residents[buffer];

    remove_hole(space, buffer);
    space->residents[resident->below].above = resident->above;
    if (resident->above == SPACE_NONE)
        space->top = resident->below;
    else
        space->residents[resident->above].below = resident->below;
    space->count--;
    space->residents[resident->below].since = section;
    sort_hole(space, resident->below);
}

void space_raise(struct space *space, int64_t ceiling)
{
    space->ceiling = ceiling;
    sort_hole(space, space->top);
}

void space_list(const struct space *space, uint32_t *out)
{
    for (uint32_t at = space->residents[space->floor].above; at != SPACE_NONE;
         at = space->residents[at].above)
        *out++ = at;
}

void space_restore(struct space *space, const uint32_t *list, uint32_t count, int64_t ceiling,
                   uint32_t section)
{
    space_reset(space, ceiling, section);
    for (uint32_t k = 0; k < count; k++) {
        struct resident *resident = &space->residents[list[k]];
        resident->below = space->top;
        resident->above = SPACE_NONE;
        resident->since = section;
        resident->bin = SPACE_NONE;
        space->residents[space->top].above = list[k];
        sort_hole(space, space->top);
        space->top = list[k];
    }
    space->count = count;
    sort_hole(space, space->top);
}
