/* SPDX-License-Identifier: MIT */
/* Signals: put, wait and barrier on the words of signal pads.
 *
 * The word for (channel c, from rank s) in rank d's pad has the index c * N + s; 0 is empty,
 * 1 is signalled. Put exchanges 0 for 1 in the other's pad, wait 1 for 0 in the own one.
 *
 * A barrier of two ranks, or of very many, is a put to all and a wait for all. One that runs
 * out of time takes its unconsumed signals back and restores those it consumed. With two
 * ranks that is exact: a signal that cannot be taken back was consumed by a rank that had
 * put its own before, so the barrier is complete. Between 3 and 32 ranks meet in one word of
 * rank 0's control page (barrier.c), where leaving is exact as well.
 */
#include "base/status.h"
#include "symm/barrier.h"
#include "symm/deadline.h"
#include "symm/word.h"
#include "symm/work.h"

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

static acre_status put_body(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;
    struct spot spot;

    if (!spot_find(work, signal->rank, signal->channel, team->rank, &spot))
        return ACRE_ERR_INVALID;
    acre_status status = word_exchange(team, spot, 0, 1, signal->rank, work->deadline);
    return status == ACRE_OK ? status
                             : work_fail_wait(work, status, signal->rank,
                                              "take the signal before this one");
}

static acre_status wait_body(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;
    struct spot spot;

    if (!spot_find(work, team->rank, signal->channel, signal->rank, &spot))
        return ACRE_ERR_INVALID;
    acre_status status = word_exchange(team, spot, 1, 0, signal->rank, work->deadline);
    return status == ACRE_OK ? status
                             : work_fail_wait(work, status, signal->rank, "signal");
}

/* ---- Barrier, pair by pair -------------------------------------------------------- */

/* Takes back what a barrier did up to a rank in its second half; put_count signals were
 * sent. True: it could not, because with two ranks the other was there. */
static bool pairs_undo(struct signal *signal, int put_count, int waited_count)
{
    struct work *work = &signal->work;
    const struct team *team = work->symm->team;
    struct spot spot;
    bool is_complete = false;

    for (int step = 1; step <= put_count; step++) {
        int rank = (team->rank + step) % team->count;
        if (spot_find(work, rank, signal->channel, team->rank, &spot) && !word_try(spot, 1, 0))
            is_complete = team->count == 2;
    }
    for (int step = 1; step <= waited_count && !is_complete; step++) {
        int rank = (team->rank + step) % team->count;
        if (spot_find(work, team->rank, signal->channel, rank, &spot))
            word_try(spot, 0, 1);
    }
    return is_complete;
}

static acre_status pairs_body(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;
    struct spot spot;
    acre_status status = ACRE_OK;
    int step, rank;

    for (step = 1; step < team->count; step++) {
        rank = (team->rank + step) % team->count;
        if (!spot_find(work, rank, signal->channel, team->rank, &spot))
            return ACRE_ERR_INVALID;
        status = word_exchange(team, spot, 0, 1, rank, work->deadline);
        if (status != ACRE_OK) {
            pairs_undo(signal, step - 1, 0);
            return work_fail_wait(work, status, rank, "leave the barrier before this one");
        }
    }
    for (step = 1; step < team->count; step++) {
        rank = (team->rank + step) % team->count;
        if (!spot_find(work, team->rank, signal->channel, rank, &spot))
            return ACRE_ERR_INVALID;
        status = word_exchange(team, spot, 1, 0, rank, work->deadline);
        if (status == ACRE_OK)
            continue;
        if (!pairs_undo(signal, team->count - 1, step - 1))
            return work_fail_wait(work, status, rank, "come to the barrier");
        word_try(spot, 1, 0);
    }
    return ACRE_OK;
}

static acre_status barrier_body(struct work *work)
{
    struct signal *signal = (struct signal *)work;
    const struct team *team = work->symm->team;

    if (team->count == 1)
        return ACRE_OK;
    if (team->count == 2 || team->count > BARRIER_RANKS_MAX)
        return pairs_body(work);
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
    struct signal signal = {{.symm = symm, .body = body, .call = call,
                             .timeout_ms = timeout_ms}, rank, channel};
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
    return signal_run("acre_symm_barrier", symm, 0, channel, timeout_ms, barrier_body);
}
