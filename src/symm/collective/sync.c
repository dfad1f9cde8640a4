/* SPDX-License-Identifier: MIT */
/* Meetings and common checks of collectives; see sync.h. */
#include "symm/collective/sync.h"

#include "base/status.h"
#include "base/struct_size.h"
#include "symm/deadline.h"
#include "symm/far/mail.h"

#include <stddef.h>

acre_status sync_begin(struct work *work)
{
    struct team *team = work->symm->team;

    lock_take(&team->lock);
    if (!atomic_load_explicit(&team->is_broken, memory_order_relaxed))
        return ACRE_OK;
    lock_drop(&team->lock);
    return status_fail(ACRE_ERR_STATE,
                       "%s: an earlier collective of this block and group failed "
                       "half way; allocate and rendezvous a new block",
                       work->call);
}

void sync_end(struct work *work)
{
    lock_drop(&work->symm->team->lock);
}

/* Where it can be read here how many steps a rank has finished. */
static struct spot sequence_spot(const struct team *team, int rank)
{
    if (team_is_far(team, rank))
        return mail_spot(team, MAIL_SEQUENCE, rank);
    struct control *control = team_control(team, rank);
    return (struct spot){&control->sequence, control};
}

/* A rank that has not finished a step and never will, or -1. Not only the one that is waited
 * for: that one may have failed because of another. */
static int missing_dead(const struct team *team, uint32_t step)
{
    for (int i = 0; i < team->count; i++) {
        _Atomic uint32_t *sequence = sequence_spot(team, i).word;
        uint32_t seen = atomic_load_explicit(sequence, memory_order_acquire);
        if (i != team->rank && (int32_t)(seen - step) < 0 && link_is_dead(team->group->peers, i) &&
            atomic_load(sequence) == seen)
            return i;
    }
    return -1;
}

/* The rank that is waited for is late, and others may be. */
static acre_status fail_late(struct work *work, int rank, uint32_t step)
{
    const struct team *team = work->symm->team;
    bool is_late[WORLD_MAX];

    for (int i = 0; i < team->count; i++)
        is_late[i] = i == rank || (int32_t)(atomic_load(sequence_spot(team, i).word) - step) < 0;
    return work_fail_late(work, is_late, "take part");
}

/* Waits until a rank has finished a step. */
static acre_status wait_for(struct work *work, int rank, uint32_t step)
{
    struct team *team = work->symm->team;
    struct spot spot = sequence_spot(team, rank);
    uint32_t seen;

    while ((int32_t)((seen = atomic_load_explicit(spot.word, memory_order_acquire)) - step) < 0) {
        acre_status status = word_await(work, spot, seen, -1, 50 * NS_PER_MS);
        if (status == ACRE_OK)
            continue;
        int dead = missing_dead(team, step);
        if (dead < 0 && deadline_left_ns(work_deadline(work)) > 0)
            continue;
        atomic_store_explicit(&team->is_broken, true, memory_order_relaxed);
        return dead >= 0 ? work_fail_wait(work, ACRE_ERR_PEER, dead, "")
                         : fail_late(work, rank, step);
    }
    return ACRE_OK;
}

/* Tells far ranks that this one has finished a step. */
static acre_status tell_far(struct work *work, uint32_t step)
{
    int rank;
    acre_status status = mail_send(work, MAIL_SEQUENCE, step, work_deadline(work), &rank);

    if (status == ACRE_OK)
        return ACRE_OK;
    atomic_store_explicit(&work->symm->team->is_broken, true, memory_order_relaxed);
    return rank < 0 ? status : work_fail_wait(work, status, rank, "take part");
}

acre_status sync_meet(struct work *work)
{
    struct team *team = work->symm->team;
    struct control *own = team_control(team, team->rank);
    uint32_t step = ++team->sequence;

    if (team->count == 1)
        return ACRE_OK;
    atomic_store_explicit(&own->sequence, step, memory_order_release);
    word_wake((struct spot){&own->sequence, own});
    if (team->places) {
        acre_status status = tell_far(work, step);
        if (status != ACRE_OK)
            return status;
    }
    for (int i = 1; i < team->count; i++) {
        acre_status status = wait_for(work, (team->rank + i) % team->count, step);
        if (status != ACRE_OK)
            return status;
    }
    return ACRE_OK;
}

acre_status options_take(const char *call, acre_symm *symm, const acre_collective_options *options,
                         unsigned reduces, struct work *work, struct place *place)
{
    acre_collective_options whole = {.struct_size = sizeof whole};
    acre_status status = ACRE_OK;

    if (!symm)
        return status_fail(ACRE_ERR_INVALID, "%s: symm is NULL: the memory is not symmetric", call);
    if (options)
        status = STRUCT_TAKE(call, acre_collective_options, options, &whole);
    if (status != ACRE_OK)
        return status;
    options = &whole;
    if ((unsigned)options->reduce > ACRE_REDUCE_MAX || !(reduces >> options->reduce & 1))
        return status_fail(ACRE_ERR_INVALID, "%s: reduction %d is not offered; sum is", call,
                           (int)options->reduce);
    *work = (struct work){.symm = symm,
                          .call = call,
                          .timeout_ms = options->timeout_ms ? options->timeout_ms
                                                            : symm->team->group->timeout_ms};
    *place = (struct place){options->device, options->stream, options->is_async != 0};
    return ACRE_OK;
}

acre_status work_range_check(const struct work *work, size_t offset, size_t count,
                             size_t element_bytes)
{
    size_t room = work->symm->team->layout.buffer_bytes - work->symm->offset, bytes;

    if (offset <= room && !__builtin_mul_overflow(count, element_bytes, &bytes) &&
        bytes <= room - offset)
        return ACRE_OK;
    return status_fail(ACRE_ERR_INVALID,
                       "%s: %zu elements of %zu bytes from %zu on exceed the "
                       "%zu bytes there are",
                       work->call, count, element_bytes, offset, room);
}

acre_status elements_check(const struct work *work, size_t offset, size_t count, acre_dtype dtype,
                           size_t *out_bytes)
{
    size_t element = dtype_bytes(dtype);

    if (element == 0)
        return status_fail(ACRE_ERR_INVALID, "%s: type %d of elements is not known", work->call,
                           (int)dtype);
    acre_status status = work_range_check(work, offset, count, element);
    if (status != ACRE_OK)
        return status;
    if ((work->symm->offset + offset) % 4 != 0 || count * element % 4 != 0)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu elements of %zu bytes at offset %zu are not "
                           "whole words of 4 bytes",
                           work->call, count, element, work->symm->offset + offset);
    *out_bytes = count * element;
    return ACRE_OK;
}

acre_status ranks_at(struct work *work, size_t offset, void **out)
{
    for (int i = 0; i < work->symm->team->count; i++) {
        char *block = team_is_far(work->symm->team, i) ? NULL : work_block(work, i);
        if (!block && !team_is_far(work->symm->team, i))
            return ACRE_ERR_INVALID;
        out[i] = block ? block + work->symm->offset + offset : NULL;
    }
    return ACRE_OK;
}
