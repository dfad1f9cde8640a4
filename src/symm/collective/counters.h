/* SPDX-License-Identifier: MIT */
/* A barrier of one counter per rank, each in a cache line of its owner's control page.
 *
 * A rank writes the number of the round into its own line and waits until every other line says
 * as much: a line has one writer and crosses once. The writer never reads it, which would wait
 * for those who do: it has its own count in team->rounds.
 *
 * Who runs out of time takes its count back, then looks at the others again: whoever counted
 * before that is seen, and whoever counts after it finds the count taken back. Of two ranks,
 * therefore, both pass or none; of more, and of ranks on other hosts, which are told by mail,
 * some may pass who saw the count before it was taken back. The picture has a model in
 * tests/model/counters.pml.
 */
#ifndef SRC_SYMM_COUNTERS_H
#define SRC_SYMM_COUNTERS_H

#include "symm/collective/word.h"

#define COUNTERS_LOOKS 200 /* at a line before the processor is told that this is waiting */

/* Meets all ranks on a channel. */
acre_status counters_meet(struct work *work, int channel);
/* Waits for the others after counters_pass. */
acre_status counters_await(struct work *work, int channel, uint32_t round);

static inline _Atomic uint32_t *counters_line(struct control *control, int channel)
{
    return (_Atomic uint32_t *)(void *)&control->barriers[channel].word;
}

/* Of two ranks on host memory (team->pair), the whole of a barrier in which neither has to
 * wait long: whether both came. If not, the round is counted and to be waited for. */
static inline bool counters_pass(const struct team *team, int channel, uint32_t *out_round)
{
    uint32_t round = ++team->rounds[channel];
    _Atomic uint32_t *own = counters_line(team->pair[0], channel);
    _Atomic uint32_t *other = counters_line(team->pair[1], channel);

    atomic_store_explicit(own, round, memory_order_release);
    word_wake((struct spot){own, team->pair[0]});
    *out_round = round;
    for (int i = 0; i < COUNTERS_LOOKS; i++)
        if ((int32_t)(atomic_load_explicit(other, memory_order_acquire) - round) >= 0)
            return true;
    return false;
}

#endif
