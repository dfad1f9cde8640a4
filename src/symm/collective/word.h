/* SPDX-License-Identifier: MIT */
/* Words in shared memory that ranks change and wait for.
 *
 * A waiter spins for a while, yields the processor for a while, then sleeps in the kernel and
 * checks every 50 ms whether the other rank still lives. Before it sleeps, it adds itself to the
 * count of sleepers in the control page of the word's owner; a writer reads that count after it
 * changed the word. A plain store may become visible after that read, and the wake-up is missed
 * then. The first sleeps are short, so that a missed wake-up costs a fraction of a millisecond;
 * later sleeps take up to 50 ms. In return, no fence is needed while nobody sleeps.
 */
#ifndef SRC_SYMM_WORD_H
#define SRC_SYMM_WORD_H

#include "symm/collective/work.h"

/* A word of a rank's pad or control page. */
struct spot {
    _Atomic uint32_t *word;
    struct control *owner;
};

/* Waits until the word is no longer seen, for at most slice_ns (0: the work's own time).
 * Errors, without a recorded sentence: ACRE_ERR_TIMEOUT; ACRE_ERR_PEER when the process of
 * peer has ended. peer -1: nobody's. */
acre_status word_await(struct work *work, struct spot spot, uint32_t seen, int peer,
                       int64_t slice_ns);
/* Exchanges from for to, waiting until it is there. Everything written before is seen by who
 * finds the new value. Errors: as word_await. */
acre_status word_exchange(struct work *work, struct spot spot, uint32_t from, uint32_t to,
                          int peer);
/* Exchanges from for to without waiting; whether from was there. */
bool word_try(struct spot spot, uint32_t from, uint32_t to);

void word_wake_sleepers(_Atomic uint32_t *word);

/* Wakes those who sleep on the word, after it was changed. */
static inline void word_wake(struct spot spot)
{
    if (__builtin_expect(atomic_load_explicit(&spot.owner->sleepers, memory_order_acquire) != 0,
                         0))
        word_wake_sleepers(spot.word);
}

static inline void word_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
