/* SPDX-License-Identifier: MIT */
/* Moments on the monotonic clock by which something must have happened. */
#ifndef SRC_SYMM_DEADLINE_H
#define SRC_SYMM_DEADLINE_H

#include <poll.h>
#include <stdint.h>
#include <time.h>

#define DEADLINE_NEVER INT64_MAX
#define NS_PER_MS 1000000ll

static inline int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* So many milliseconds from now; 0 means never, and so does what is centuries away. */
static inline int64_t deadline_in_ms(uint64_t ms)
{
    return ms == 0 || ms > 1000000000000ull ? DEADLINE_NEVER
                                            : clock_ns() + (int64_t)ms * NS_PER_MS;
}

static inline int64_t deadline_left_ns(int64_t deadline)
{
    int64_t left = deadline == DEADLINE_NEVER ? DEADLINE_NEVER : deadline - clock_ns();

    return left < 0 ? 0 : left;
}

static inline int64_t deadline_sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What is left for poll(2), rounded up; at most a minute, so callers loop. */
static inline int deadline_poll_ms(int64_t deadline)
{
    int64_t left = deadline_left_ns(deadline);

    return left > 60000 * NS_PER_MS ? 60000 : (int)((left + NS_PER_MS - 1) / NS_PER_MS);
}

#endif
