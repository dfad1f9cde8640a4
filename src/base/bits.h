/* SPDX-License-Identifier: MIT */
/* Arithmetic on sizes: powers of two, rounding that cannot wrap, bit scans. */
#ifndef SRC_BASE_BITS_H
#define SRC_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static inline bool is_power_of_two(uint64_t x)
{
    return x && !(x & (x - 1));
}

/* Index of the highest bit set; x is not 0. */
static inline unsigned bit_high(uint64_t x)
{
    return 63u ^ (unsigned)__builtin_clzll(x); /* one instruction, unlike 63 - */
}

/* Index of the lowest bit set; x is not 0. */
static inline unsigned bit_low(uint64_t x)
{
    return (unsigned)__builtin_ctzll(x);
}

/* Rounds up to a multiple of unit, a power of two; 0 means it would not fit. */
static inline uint64_t round_up(uint64_t x, uint64_t unit)
{
    return (x + unit - 1) & ~(unit - 1);
}

static inline uint64_t round_down(uint64_t x, uint64_t unit)
{
    return x & ~(unit - 1);
}

#endif
