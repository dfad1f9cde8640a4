/* SPDX-License-Identifier: MIT */
/* Meetings of collectives, and what their public calls have in common.
 *
 * Every rank counts the steps it has finished in its own control page; a meeting is to count
 * one more and to wait until everybody has. Nothing is reset, so nothing is left behind. One
 * page is written by its owner only and read by all: one transfer of a cache line per rank.
 */
#ifndef SRC_SYMM_SYNC_H
#define SRC_SYMM_SYNC_H

#include "symm/collective/reduce.h"
#include "symm/collective/work.h"

#define SYNC_TOLD_STEPS (1u << 24)

/* Begins and ends a collective of a team; one at a time. Errors: ACRE_ERR_STATE. */
acre_status sync_begin(struct work *work);
void sync_end(struct work *work);
/* All writes of all ranks before it are seen by all after it. */
acre_status sync_meet(struct work *work);
/* The step that the next meeting finishes; odd and even ones alternate in using pages. */
static inline uint32_t sync_step(const struct work *work)
{
    return work->symm->team->sequence + 1;
}
/* Begins a step that is no meeting: each rank knows by other means that all have come. It is
 * told now and then all the same: a meeting compares by differences, which half the numbers
 * bound. */
static inline uint32_t sync_skip(struct work *work)
{
    struct team *team = work->symm->team;
    uint32_t step = ++team->sequence;

    if (__builtin_expect(step % SYNC_TOLD_STEPS == 0, 0))
        atomic_store_explicit(&team_control(team, team->rank)->sequence, step,
                              memory_order_release);
    return step;
}

/* Fills work and place from options. Errors: ACRE_ERR_INVALID (too small, or the reduction
 * is none of those allowed, a bit each). */
acre_status options_take(const char *call, acre_symm *symm,
                         const acre_collective_options *options, unsigned reduces,
                         struct work *work, struct place *place);
/* Whether [offset, offset + bytes) lies in the buffer, counted from the handle's offset. */
acre_status work_range_check(const struct work *work, size_t offset, size_t count,
                             size_t element_bytes);
/* Checks a range as above, and that it is made of whole words. Gives its bytes. */
acre_status elements_check(const struct work *work, size_t offset, size_t count,
                           acre_dtype dtype, size_t *out_bytes);
/* Addresses of a range in every rank's block; NULL for far ranks only, on ACRE_OK. */
acre_status ranks_at(struct work *work, size_t offset, void **out);

#endif
