/* SPDX-License-Identifier: MIT */
/* Counting who has come; see counters.h.
 *
 * Coming is a plain store of the own line and a load of the other's, which the processor may
 * do in the other order. Leaving, which is rare, pays for both: it makes every processor that
 * runs a rank finish its stores (membarrier) between the two.
 */
#include "symm/collective/counters.h"

#include "symm/deadline.h"
#include "symm/far/mail.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RETREAT_MS 1000 /* that telling far ranks of it may take */

/* Every rank's stores until now are visible afterwards. */
static void stores_settle(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
        nanosleep(&(struct timespec){0, NS_PER_MS}, NULL); /* far longer than a store takes */
}

/* The word in which a rank counts the rounds of a channel. */
static struct spot counters_arrivals(const struct team *team, int rank, int channel)
{
    if (team_is_far(team, rank))
        return mail_spot(team, MAIL_BARRIER + (uint32_t)channel, rank);
    struct control *control = team_control(team, rank);
    return (struct spot){counters_line(control, channel), control};
}

static bool has_come(struct spot spot, uint32_t round, uint32_t *out_seen)
{
    *out_seen = atomic_load_explicit(spot.word, memory_order_acquire);
    return (int32_t)(*out_seen - round) >= 0;
}

static bool has_come_soon(const struct team *team, struct spot spot, uint32_t round,
                          uint32_t *out_seen)
{
    for (int i = 0; i < (team->spin_count ? COUNTERS_LOOKS : 1); i++)
        if (has_come(spot, round, out_seen))
            return true;
    return false;
}

/* Lets everybody know how many barriers this rank has come to. */
static acre_status count_tell(struct work *work, int channel, uint32_t round, int64_t deadline)
{
    const struct team *team = work->symm->team;
    struct spot own = counters_arrivals(team, team->rank, channel);
    int rank;

    atomic_store_explicit(own.word, round, memory_order_release);
    word_wake(own);
    if (__builtin_expect(!team->places, 1))
        return ACRE_OK;
    acre_status status = mail_send(work, MAIL_BARRIER + (uint32_t)channel, round, deadline, &rank);
    return status == ACRE_OK || rank < 0 ? status : work_fail_wait(work, status, rank, "answer");
}

/* Takes the count back; false: the rank that was waited for came in the last moment. */
static bool count_take_back(struct work *work, int channel, uint32_t round, struct spot other)
{
    int64_t deadline = deadline_in_ms(RETREAT_MS);
    uint32_t seen;

    count_tell(work, channel, round - 1, deadline);
    stores_settle();
    if (!has_come(other, round, &seen)) {
        work->symm->team->rounds[channel] = round - 1;
        return true;
    }
    count_tell(work, channel, round, deadline);
    return false;
}

/* A rank that has not come and never will, or -1. */
static int missing_dead(const struct team *team, int channel, uint32_t round)
{
    uint32_t seen;

    for (int i = 0; i < team->count; i++)
        if (i != team->rank && !has_come(counters_arrivals(team, i, channel), round, &seen) &&
            link_is_dead(team->group->peers, i) &&
            !has_come(counters_arrivals(team, i, channel), round, &seen))
            return i;
    return -1;
}

/* The rank that is waited for is late, and others may be. */
static acre_status fail_late(struct work *work, int channel, int rank, uint32_t round)
{
    const struct team *team = work->symm->team;
    bool is_late[WORLD_MAX];
    uint32_t seen;

    for (int i = 0; i < team->count; i++)
        is_late[i] = i == rank || (i != team->rank &&
                                   !has_come(counters_arrivals(team, i, channel), round, &seen));
    return work_fail_late(work, is_late, "come to the barrier");
}

/* Waits for one rank; one that is late, or any that is dead, makes the barrier fail. */
static acre_status counters_wait(struct work *work, int channel, int rank, uint32_t round)
{
    const struct team *team = work->symm->team;
    struct spot other = counters_arrivals(team, rank, channel);
    uint32_t seen;

    while (!has_come_soon(team, other, round, &seen)) {
        /* Short waits, so that all who have not come can be looked after. */
        if (word_await(work, other, seen, -1, 50 * NS_PER_MS) == ACRE_OK)
            continue;
        int dead = missing_dead(team, channel, round);
        if (dead < 0 && deadline_left_ns(work_deadline(work)) > 0)
            continue;
        if (count_take_back(work, channel, round, other))
            return dead >= 0 ? work_fail_wait(work, ACRE_ERR_PEER, dead, "")
                             : fail_late(work, channel, rank, round);
    }
    return ACRE_OK;
}

acre_status counters_await(struct work *work, int channel, uint32_t round)
{
    const struct team *team = work->symm->team;
    acre_status status = ACRE_OK;

    for (int step = 1; step < team->count && status == ACRE_OK; step++)
        status = counters_wait(work, channel, (team->rank + step) % team->count, round);
    return status;
}

acre_status counters_meet(struct work *work, int channel)
{
    struct team *team = work->symm->team;
    uint32_t round = ++team->rounds[channel];
    acre_status status = count_tell(work, channel, round, team->places ? work_deadline(work) : 0);

    if (status == ACRE_OK)
        return counters_await(work, channel, round);
    team->rounds[channel] = round - 1;
    atomic_store(counters_arrivals(team, team->rank, channel).word, round - 1);
    return status;
}
