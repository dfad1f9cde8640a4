/* SPDX-License-Identifier: MIT */
/* Numbers that look drawn, from numbers: for hashes and for chance that is repeatable. */
#ifndef SRC_PLAN_MIX_H
#define SRC_PLAN_MIX_H

#include <stdint.h>

static inline uint64_t mix_bits(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* The next of a sequence; moves its state on. */
static inline uint64_t mix_next(uint64_t *state)
{
    uint64_t drawn = mix_bits(*state);

    *state += 0x9E3779B97F4A7C15u;
    return drawn;
}

#endif
