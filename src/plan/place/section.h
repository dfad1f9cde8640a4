/* SPDX-License-Identifier: MIT */
/* Buffers with known lifetimes, cut into sections of time.
 *
 * A section is a span of time over which a largest set of buffers lives: time
 * goes on to the next section where a buffer starts after another has ended.
 * Two buffers overlap in time exactly when they share a section, so nothing
 * behind this file knows about time any more.
 *
 *   buffer   first      last            a piece is a run of sections in which a
 *     0      |==========|               buffer lives without a gap; buffers
 *     1            |=========|          without gaps have one piece
 *   section  0     1    2    3
 *
 * Immutable once made; may be read from any thread.
 */
#ifndef SRC_PLAN_SECTION_H
#define SRC_PLAN_SECTION_H

#include <acre/plan.h>

#include <stdbool.h>

/* Sections [first, last) in which a buffer lives. */
struct piece {
    uint32_t first, last;
};

struct sections {
    uint32_t buffer_count;
    uint32_t section_count;
    uint32_t piece_count;
    bool has_fixed;         /* some buffer's offset is given                     */
    bool has_gaps;          /* some buffer has several pieces                    */
    int64_t *size;          /* by buffer, in bytes; 0 for those that never live  */
    int64_t *alignment;     /* by buffer, at least 1                             */
    int64_t *fixed;         /* by buffer: the given offset, or -1                */
    uint32_t *piece_start;  /* by buffer and one more: its first piece           */
    struct piece *pieces;   /* by buffer, in order of time                       */
    int64_t *load;          /* by section: sum of sizes that live                */
    uint32_t *order;        /* buffers in a canonical order that does not depend
                               on the order of rows                              */
    int64_t lower_bound;    /* largest load, or top of a fixed buffer            */
    uint64_t bound_time;    /* moment at which it occurs                         */
};

/* Checks buffers and cuts them. Errors: ACRE_ERR_INVALID (names the buffer),
 * ACRE_ERR_HOST_MEMORY. */
acre_status sections_create(const acre_plan_buffer *buffers, size_t count,
                            struct sections **out);
void sections_destroy(struct sections *sections); /* NULL is fine */

/* First and last section of a buffer, gaps included. */
static inline uint32_t sections_first(const struct sections *sections, uint32_t buffer)
{
    return sections->pieces[sections->piece_start[buffer]].first;
}

static inline uint32_t sections_last(const struct sections *sections, uint32_t buffer)
{
    return sections->pieces[sections->piece_start[buffer + 1] - 1].last;
}

/* The smallest multiple of the buffer's alignment that is not below offset. */
static inline int64_t sections_align(const struct sections *sections, uint32_t buffer,
                                     int64_t offset)
{
    int64_t alignment = sections->alignment[buffer];

    return alignment == 1 ? offset : (offset + alignment - 1) / alignment * alignment;
}

#endif
