/* SPDX-License-Identifier: MIT */
/* Time limits of placing. */
#ifndef SRC_PLAN_CLOCK_H
#define SRC_PLAN_CLOCK_H

#include <stdbool.h>
#include <time.h>

/* Seconds since some moment. */
static inline double clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The earlier of two moments, of which 0 never comes. */
static inline double clock_first(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* Whether a moment has come; 0 never does. */
static inline bool clock_is_past(double deadline)
{
    return deadline > 0 && clock_now() >= deadline;
}

#endif
