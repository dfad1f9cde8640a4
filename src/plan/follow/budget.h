/* SPDX-License-Identifier: MIT */
/* Time for placing one round, shared by the placements it takes.
 *
 * Each placement gets an equal part of what is left, so that what an easy one does not
 * use goes to those after it. Every placement is made, however late it is: a part is
 * never 0, which would mean a fixed amount of work. */
#ifndef SRC_PLAN_BUDGET_H
#define SRC_PLAN_BUDGET_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define BUDGET_DEFAULT 1.0  /* seconds, where none are asked for      */
#define BUDGET_LEAST 1e-3   /* seconds, for one placement             */

struct budget {
    bool is_work;           /* a fixed amount of work instead of time */
    double end;             /* when time is up                        */
    uint32_t left;          /* placements to come                     */
};

/* seconds as in acre_planner_config: 0 for the default, INFINITY for a fixed amount of work. */
static inline struct budget budget_make(double seconds, uint32_t placements, double now)
{
    return (struct budget){.is_work = isinf(seconds), .left = placements,
                           .end = now + (seconds > 0 ? seconds : BUDGET_DEFAULT)};
}

/* Seconds for the next placement, as in acre_plan_config. */
static inline double budget_next(struct budget *budget, double now)
{
    if (budget->is_work)
        return 0;
    double part = (budget->end - now) / (budget->left > 1 ? budget->left : 1);
    budget->left -= budget->left > 0;
    return part > BUDGET_LEAST ? part : BUDGET_LEAST;
}

#endif
