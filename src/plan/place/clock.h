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

/* Whether a moment has come; 0 never does. */
static inline bool clock_is_past(double deadline)
{
    return deadline > 0 && clock_now() >= deadline;
}

#endif
