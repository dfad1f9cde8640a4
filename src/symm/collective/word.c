/* SPDX-License-Identifier: MIT */
/* Waiting for words; see word.h. */
#include "symm/collective/word.h"

#include "symm/deadline.h"
#include "symm/far/far.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define YIELD_COUNT    60               /* times the processor is given away before sleeping */
#define SLEEP_FIRST_NS 200000           /* grows to                                          */
#define SLEEP_FAR_NS   400000           /* where a far rank may write, which wakes nobody   */
#define SLEEP_MOST_NS  (50 * NS_PER_MS) /* between looks at who has died                  */

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    struct timespec time = {ns / 1000000000, (long)(ns % 1000000000)};

    syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, NULL, 0);
}

void word_wake_sleepers(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool has_changed(struct spot spot, uint32_t seen)
{
    return atomic_load_explicit(spot.word, memory_order_acquire) != seen;
}

/* Sleeps until the word changes, the other dies, or time is up. */
static acre_status sleep_on(const struct team *team, struct spot spot, uint32_t seen, int peer,
                            int64_t deadline)
{
    int64_t most = team->places ? SLEEP_FAR_NS : SLEEP_MOST_NS, looked = clock_ns();

    for (int64_t ns = SLEEP_FIRST_NS;; ns = ns < most / 2 ? ns * 2 : most) {
        int64_t left = deadline_left_ns(deadline);
        atomic_fetch_add(&spot.owner->sleepers, 1);
        if (atomic_load(spot.word) == seen && left > 0)
            futex_wait(spot.word, seen, left < ns ? left : ns);
        atomic_fetch_sub(&spot.owner->sleepers, 1);
        if (has_changed(spot, seen))
            return ACRE_OK;
        bool is_due = ns == SLEEP_MOST_NS || clock_ns() - looked > SLEEP_MOST_NS;
        bool is_dead = peer >= 0 && is_due && link_is_dead(team->group->peers, peer);
        if (is_due)
            looked = clock_ns();
        if (has_changed(spot, seen))
            return ACRE_OK; /* the last thing it did */
        if (is_dead)
            return ACRE_ERR_PEER;
        if (left == 0)
            return ACRE_ERR_TIMEOUT;
    }
}

static acre_status word_do_await(struct work *work, struct spot spot, uint32_t seen, int peer,
                                 int64_t slice_ns)
{
    const struct team *team = work->symm->team;

    for (unsigned i = 0; i < team->spin_count; i++) {
        if (has_changed(spot, seen))
            return ACRE_OK;
        word_pause();
    }
    for (int i = 0; i < YIELD_COUNT; i++) {
        if (has_changed(spot, seen))
            return ACRE_OK;
        sched_yield();
    }
    int64_t deadline = work_deadline(work);
    if (slice_ns)
        deadline = deadline_sooner(deadline, clock_ns() + slice_ns);
    return sleep_on(team, spot, seen, peer, deadline);
}

acre_status word_await(struct work *work, struct spot spot, uint32_t seen, int peer,
                       int64_t slice_ns)
{
    if (__builtin_expect(!work->symm->team->places, 1))
        return word_do_await(work, spot, seen, peer, slice_ns);
    far_attend_begin();
    acre_status status = word_do_await(work, spot, seen, peer, slice_ns);
    far_attend_end();
    return status;
}

bool word_try(struct spot spot, uint32_t from, uint32_t to)
{
    uint32_t expected = from;

    if (!atomic_compare_exchange_strong(spot.word, &expected, to))
        return false;
    word_wake(spot);
    return true;
}

acre_status word_exchange(struct work *work, struct spot spot, uint32_t from, uint32_t to, int peer)
{
    acre_status status = ACRE_OK;

    /* Trying at once instead of looking first takes the cache line over once, not twice. */
    while (status == ACRE_OK && !word_try(spot, from, to)) {
        uint32_t seen = atomic_load_explicit(spot.word, memory_order_relaxed);
        if (seen != from)
            status = word_await(work, spot, seen, peer, 0);
    }
    return status;
}
