/* SPDX-License-Identifier: MIT */
/* Time that costs almost nothing to read, made into dates when it is looked at.
 *
 * Ticks increase at a constant rate on every processor of the machine. Two
 * moments at which ticks and the real-time clock were read together give the
 * line between them. */
#ifndef SRC_CACHE_TICKS_H
#define SRC_CACHE_TICKS_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ticks_ns_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return ticks_ns_of(CLOCK_MONOTONIC);
#endif
}

/* Writes ticks_now() as two halves, which takes one instruction less. */
static inline void ticks_write(uint64_t *to)
{
#if defined(__x86_64__)
    uint32_t *halves = (uint32_t *)(void *)to, low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    __builtin_memcpy(halves, &low, sizeof low);
    __builtin_memcpy(halves + 1, &high, sizeof high);
#else
    *to = ticks_now();
#endif
}

/* One moment on both clocks. */
struct ticks_mark {
    uint64_t ticks;
    uint64_t real_ns; /* since 1970 */
};

static inline struct ticks_mark ticks_mark(void)
{
    return (struct ticks_mark){ticks_now(), ticks_ns_of(CLOCK_REALTIME)};
}

/* The date of ticks in microseconds, given two marks, the second not earlier. */
static inline uint64_t ticks_date_us(const struct ticks_mark *a, const struct ticks_mark *b,
                                     uint64_t ticks)
{
    double rate = b->ticks > a->ticks && b->real_ns > a->real_ns
                      ? (double)(b->real_ns - a->real_ns) / (double)(b->ticks - a->ticks)
                      : 0;
    double past = rate * (double)(int64_t)(ticks - a->ticks);

    return (a->real_ns + (uint64_t)(int64_t)past) / 1000;
}

#endif
