/* SPDX-License-Identifier: MIT */
/* Sizes as PyTorch's allocator computes them: rounding of requests, which pool
 * serves them, how much to ask of the device. Pure functions; an answer that
 * does not fit is 0. */
#ifndef SRC_CACHE_SIZE_H
#define SRC_CACHE_SIZE_H

#include "base/bits.h"
#include "cache/block.h"
#include "cache/conf.h"

#define SIZE_SMALL_MAX ((size_t)1 << 20)       /* largest request of the small pool   */
#define SIZE_SMALL_SEGMENT ((size_t)2 << 20)   /* segment of the small pool           */
#define SIZE_LARGE_MIN ((size_t)10 << 20)      /* from here on segments are their own */
#define SIZE_LARGE_UNIT ((size_t)2 << 20)      /* rounding of those                   */
#define SIZE_REQUEST_END ((size_t)1 << 60)     /* requests from here on are refused   */

/* Divisions that apply to a request; the table is indexed by floor(log2 MiB). */
static inline unsigned size_divisions(const struct cache_conf *conf, size_t bytes)
{
    unsigned index = bit_high(bytes >> 20 | 1);

    return conf->divisions[index < CONF_DIVISION_COUNT ? index : CONF_DIVISION_COUNT - 1];
}

/* Rounds up to one of `divisions` steps, a power of two above 1, between powers
 * of two. */
size_t size_round_division(size_t bytes, unsigned divisions);

/* Block size for a request of bytes > 0. */
static inline size_t size_round(const struct cache_conf *conf, size_t bytes)
{
    if (bytes < BLOCK_UNIT)
        return BLOCK_UNIT;
    unsigned divisions = size_divisions(conf, bytes);
    if (__builtin_expect(divisions > 1 && bytes > BLOCK_UNIT * divisions, 0))
        return size_round_division(bytes, divisions);
    return round_up(bytes, BLOCK_UNIT);
}

static inline bool size_is_small(size_t rounded)
{
    return rounded <= SIZE_SMALL_MAX;
}

/* What to ask of the device for a block of that size. */
size_t size_segment(const struct cache_conf *conf, size_t rounded);

/* a + b <= limit, without wrapping. */
static inline bool size_fits(uint64_t a, uint64_t b, uint64_t limit)
{
    return a <= limit && b <= limit - a;
}

#endif
