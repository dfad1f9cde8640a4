/* SPDX-License-Identifier: MIT */
/* The bytes from the floor to a ceiling at one moment of a sweep (sweep.h): buffers that
 * live then, in order of offset, and the holes between them, by size.
 *
 *   ceiling ----------------
 *            hole of 7         a hole belongs to the resident below it; the floor is a
 *           [ 7           ]    resident of no size, so every hole has an owner
 *           [ 3           ]
 *            hole of 4         holes of about one size stand in one bin: eight bins for
 *           [ 4           ]    every doubling, so all holes from a size up are found
 *   floor   ----------------   without a look at smaller ones
 *
 * One thread at a time.
 */
#ifndef SRC_PLAN_SPACE_H
#define SRC_PLAN_SPACE_H

#include <acre/plan.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPACE_BINS 512u
#define SPACE_NONE UINT32_MAX

/* A buffer, or the floor. What is below and above it counts while it lives. */
struct resident {
    int64_t offset, size;
    int64_t hole;               /* size of the hole above it                       */
    uint32_t below, above;      /* SPACE_NONE above the topmost                    */
    uint32_t since;             /* all of the hole has been free from this section on */
    uint32_t bin;               /* of the hole above it, or SPACE_NONE             */
    uint32_t before, behind;    /* owners of holes in the same bin                 */
};

struct space {
    int64_t ceiling;
    uint32_t floor;             /* the resident that is the floor                  */
    uint32_t top;               /* the topmost resident                            */
    uint32_t count;             /* residents without the floor                     */
    struct resident *residents; /* by buffer, then the floor                       */
    uint32_t bins[SPACE_BINS];  /* an owner of a hole, or SPACE_NONE               */
    uint64_t filled[SPACE_BINS / 64]; /* a bit for every bin that is not empty     */
};

/* Sizes of residents are for the caller to fill in. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status space_init(struct space *space, uint32_t buffer_count);
void space_fini(struct space *space); /* zeroed is fine */

/* Empties the space, in which all has been free from section 0 on. */
void space_clear(struct space *space, int64_t ceiling);
/* Lets a buffer live at an offset in the hole above a resident. */
void space_put(struct space *space, uint32_t buffer, uint32_t below, int64_t offset);
/* Ends the life of a buffer with a section: from there on its bytes are free. */
void space_take(struct space *space, uint32_t buffer, uint32_t section);
/* Moves the ceiling up, or leaves it; the hole below it becomes the first of its bin. */
void space_raise(struct space *space, int64_t ceiling);

/* Lists residents from the floor up; there is room for count of them. */
void space_list(const struct space *space, uint32_t *out);
/* Lets these live again in a section, as listed and at the offsets that they had, and
 * nothing else. */
void space_restore(struct space *space, const uint32_t *list, uint32_t count, int64_t ceiling,
                   uint32_t section);

/* The bin of holes of a size, which is positive. Larger ones have no smaller bin. */
static inline uint32_t space_bin(int64_t size)
{
    unsigned bits = 63u - (unsigned)__builtin_clzll((uint64_t)size);

    return bits < 3 ? (uint32_t)size
                    : 8 * (bits - 2) + (uint32_t)((uint64_t)size >> (bits - 3) & 7);
}

/* The smallest size of a bin. */
static inline int64_t space_bin_size(uint32_t bin)
{
    return bin < 8 ? (int64_t)bin : (int64_t)(8 | (bin & 7)) << (bin / 8 - 1);
}

/* The first bin from one on that has holes, or SPACE_BINS. */
static inline uint32_t space_next_bin(const struct space *space, uint32_t bin)
{
    for (uint32_t word = bin / 64; word < SPACE_BINS / 64; word++) {
        uint64_t bits = space->filled[word];
        if (word == bin / 64)
            bits &= ~UINT64_C(0) << bin % 64;
        if (bits)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return SPACE_BINS;
}

/* Where the hole above a resident begins, and where it ends. */
static inline int64_t space_hole_start(const struct space *space, uint32_t owner)
{
    return space->residents[owner].offset + space->residents[owner].size;
}

static inline int64_t space_hole_end(const struct space *space, uint32_t owner)
{
    return space_hole_start(space, owner) + space->residents[owner].hole;
}

#endif
