/* SPDX-License-Identifier: MIT */
/* Signals: put, wait and barrier on the words of signal pads.
 *
 * The word for (channel c, from rank s) in rank d's pad has the index c * N + s; 0 is empty,
 * 1 is signalled. Put exchanges 0 for 1 in the other's pad, wait 1 for 0 in the own one.
 *
 * On another host the word is exchanged over the wire; only its sender makes it 1 and only its
 * owner makes it 0, so the two never meet in it.
 *
 * A barrier of 3 to 32 ranks is one word of rank 0's control page (barrier.c). A barrier of 2
 * ranks, of more than 32, or with far ranks is a counter per rank (counters.c).
 */
#include "base/status.h"
#include "symm/collective/barrier.h"
#include "symm/collective/counters.h"
#include "symm/deadline.h"
#include "symm/far/reach.h"
#include "symm/collective/word.h"

#include <time.h>

#define FAR_AGAIN_NS 200000 /* between looks at a word on another host */

struct signal {
    struct work work;
    int rank, channel;
};

/* The word of a rank's pad for signals that come from another. */
static bool spot_find(struct work *work, int owner, int channel, int from, struct spot *out)
{
    const struct team *team = work->symm->team;
    char *block = work_block(work, owner);

    if (!block)
        return false;
    size_t index = (size_t)channel * (size_t)team->count + (size_t)from;
    out->word = (_Atomic uint32_t *)(void *)(block + team->layout.pad_offset + 4 * index);
    out->owner = team_control(team, owner);
    return true;
}

/* Exchanges 0 for 1 in the pad of a rank on another host, asking again while it is 1. */
static acre_status put_far(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;
    const struct place_far *place = &team->places[signal->rank];
    size_t index = (size_t)signal->channel * (size_t)team->count + (size_t)team->rank;
    int64_t deadline = work_deadline(work);

    for (;;) {
        uint32_t seen = 1;
        far_op op = {.kind = WIRE_SWAP,
                     .rank = place->wire_rank,
                     .here = &seen,
                     .address = place->block + team->layout.pad_offset + 4 * index,
                     .bytes = sizeof seen,
                     .compare = 0,
                     .value = 1};
        acre_status status = reach_run(work, &op, 1, deadline);
        if (status != ACRE_OK || seen == 0)
            return status;
        if (deadline_left_ns(deadline) == 0)
            return work_fail_wait(work, ACRE_ERR_TIMEOUT, signal->rank,
                                  "take the signal before this one");
        nanosleep(&(struct timespec){0, FAR_AGAIN_NS}, NULL);
    }
}

static acre_status put_body(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;
    struct spot spot;

    if (team_is_far(team, signal->rank))
        return put_far(work);
    if (!spot_find(work, signal->rank, signal->channel, team->rank, &spot))
        return ACRE_ERR_INVALID;
    acre_status status = word_exchange(work, spot, 0, 1, signal->rank);
    return status == ACRE_OK
               ? status
               : work_fail_wait(work, status, signal->rank, "take the signal before this one");
}

static acre_status wait_body(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;
    struct spot spot;

    if (!spot_find(work, team->rank, signal->channel, signal->rank, &spot))
        return ACRE_ERR_INVALID;
    acre_status status = word_exchange(work, spot, 1, 0, signal->rank);
    return status == ACRE_OK ? status : work_fail_wait(work, status, signal->rank, "signal");
}

/* ---- Barrier -------------------------------------------------------------------------- */

static acre_status barrier_body(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;

    if (team->count == 1)
        return ACRE_OK;
    if (team->count == 2 || team->count > BARRIER_RANKS_MAX || team->places)
        return counters_meet(work, signal->channel);
    return barrier_meet(work, signal->channel);
}

/* ---- Public calls ----------------------------------------------------------------- */

static acre_status signal_run(const char *call, acre_symm *symm, int rank, int channel,
                              uint64_t timeout_ms, acre_status (*body)(struct work *))
{
    if (!symm)
        return status_fail(ACRE_ERR_INVALID, "%s: symm is NULL", call);
    acre_status status = rank_check(symm->team, call, rank);
    if (status != ACRE_OK)
        return status;
    if (channel < 0 || (uint32_t)channel >= symm->team->channels)
        return status_fail(ACRE_ERR_RANGE, "%s: channel %d is outside 0 to %d", call, channel,
                           (int)symm->team->channels - 1);
    struct signal signal = {{.symm = symm,
                             .body = body,
                             .call = call,
                             .timeout_ms = timeout_ms,
                             .is_on_host = body == barrier_body},
                            rank,
                            channel};
    return work_run(&signal.work, sizeof signal, &(struct place){NULL, NULL, false});
}

ACRE_API acre_status acre_symm_put_signal(acre_symm *symm, int rank, int channel,
                                          uint64_t timeout_ms)
{
    return signal_run("acre_symm_put_signal", symm, rank, channel, timeout_ms, put_body);
}

ACRE_API acre_status acre_symm_wait_signal(acre_symm *symm, int rank, int channel,
                                           uint64_t timeout_ms)
{
    return signal_run("acre_symm_wait_signal", symm, rank, channel, timeout_ms, wait_body);
}

ACRE_API acre_status acre_symm_barrier(acre_symm *symm, int channel, uint64_t timeout_ms)
{
    const struct team *team = symm ? symm->team : NULL;
    struct signal signal = {
        {.symm = symm, .call = "acre_symm_barrier", .timeout_ms = timeout_ms}, 0, channel};
    uint32_t round;

    if (!team || !team->pair[0] || team->spin_count == 0 || (uint32_t)channel >= team->channels ||
        group_is_inherited(team->group))
        return signal_run("acre_symm_barrier", symm, 0, channel, timeout_ms, barrier_body);
    return counters_pass(team, channel, &round) ? ACRE_OK
                                                : counters_await(&signal.work, channel, round);
}
