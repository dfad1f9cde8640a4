/* SPDX-License-Identifier: MIT */
/* The barrier of 3 to 32 ranks; see barrier.h. */
#include "symm/collective/barrier.h"

#include "base/status.h"
#include "symm/deadline.h"
#include "symm/collective/word.h"

#include <endian.h>

static uint32_t generation_of(uint64_t state)
{
    return (uint32_t)(state >> 32);
}

/* The half of a state that changes when all have come, for waiting on. */
static struct spot generation_spot(struct control *control, _Atomic uint64_t *state)
{
    _Atomic uint32_t *halves = (_Atomic uint32_t *)(void *)state;

    return (struct spot){&halves[BYTE_ORDER == LITTLE_ENDIAN ? 1 : 0], control};
}

/* Removes the own bit. False: all have come meanwhile, or the generation has changed. */
static bool barrier_leave(_Atomic uint64_t *state, uint32_t generation, uint64_t bit, uint64_t all)
{
    uint64_t seen = atomic_load(state);

    while (generation_of(seen) == generation && (uint32_t)seen != all)
        if (atomic_compare_exchange_weak(state, &seen, seen & ~bit))
            return true;
    return false;
}

/* All have come, and the next generation starts; by whoever is the first to say so. */
static acre_status barrier_open(_Atomic uint64_t *state, struct spot spot, uint32_t generation,
                                uint64_t all)
{
    uint64_t full = (uint64_t)generation << 32 | all;

    if (atomic_compare_exchange_strong(state, &full, (uint64_t)(generation + 1) << 32))
        word_wake(spot);
    return ACRE_OK;
}

/* A rank that is not here and whose process has ended, or -1. */
static int missing_dead(const struct team *team, uint64_t seen)
{
    for (int i = 0; i < team->count; i++)
        if (i != team->rank && !(seen >> i & 1) && link_is_dead(team->group->peers, i))
            return i;
    return -1;
}

static acre_status fail_missing(struct work *work, uint64_t seen, int dead)
{
    const struct team *team = work->symm->team;
    bool is_missing[BARRIER_RANKS_MAX];

    if (dead >= 0)
        return work_fail_wait(work, ACRE_ERR_PEER, dead, "");
    for (int i = 0; i < team->count; i++)
        is_missing[i] = i != team->rank && !(seen >> i & 1);
    return work_fail_late(work, is_missing, "come");
}

acre_status barrier_meet(struct work *work, int channel)
{
    const struct team *team = work->symm->team;
    struct control *control = team_control(team, 0);
    _Atomic uint64_t *state = &control->barriers[channel].word;
    uint64_t bit = (uint64_t)1 << team->rank, all = ((uint64_t)1 << team->count) - 1;
    uint64_t seen = atomic_fetch_or(state, bit) | bit, came = seen; /* came: at any time */
    uint32_t generation = generation_of(seen);
    struct spot spot = generation_spot(control, state);

    if ((uint32_t)seen == all)
        return barrier_open(state, spot, generation, all);
    for (;;) {
        /* Short waits, so that those who have not come can be looked after. */
        acre_status status = word_await(work, spot, generation, -1, 50 * NS_PER_MS);
        if (status == ACRE_OK)
            return ACRE_OK;
        seen = atomic_load(state);
        /* Who came last may have died, or been stopped, before it opened the barrier. */
        if (generation_of(seen) != generation || (uint32_t)seen == all)
            return barrier_open(state, spot, generation, all);
        came |= seen;
        int dead = missing_dead(team, seen);
        if (dead < 0 && deadline_left_ns(work_deadline(work)) > 0)
            continue;
        if (barrier_leave(state, generation, bit, all))
            return fail_missing(work, (uint32_t)came == all ? seen : came, dead);
    }
}
