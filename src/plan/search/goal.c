/* SPDX-License-Identifier: MIT */
#include "plan/search/goal.h"

#define SHARE_FIRST 0.25
#define RACE_PART   8u /* of the work at most is done in races */

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* What lies on the floor, on a fixed offset or on others that do, is at a multiple of it. */
static int64_t find_unit(const struct sections *sections)
{
    int64_t unit = 0;

    for (uint32_t i = 0; i < sections->buffer_count; i++) {
        unit = common_divisor(unit, sections->size[i]);
        if (sections->fixed[i] > 0)
            unit = common_divisor(unit, sections->fixed[i]);
    }
    for (uint32_t i = 0; i < sections->buffer_count; i++)
        if (sections->alignment[i] > 1)
            unit =
                unit % sections->alignment[i] ? common_divisor(unit, sections->alignment[i]) : unit;
    return unit ? unit : 1;
}

void goal_init(struct goal *goal, const struct sections *sections)
{
    *goal = (struct goal){
        .bound = sections->lower_bound,
        .proved = sections->lower_bound,
        .unit = find_unit(sections),
        .share = SHARE_FIRST,
    };
}

bool goal_next(struct goal *goal, int64_t best)
{
    if (best <= goal->proved)
        return false;
    int64_t step = (int64_t)((double)(best - goal->proved) * goal->share) / goal->unit * goal->unit;
    goal->is_race = !goal->is_begun || (goal->was_next && goal->raced <= goal->work / RACE_PART);
    goal->height = !goal->is_begun ? goal->proved : best - 1;
    goal->was_next = !goal->is_race && step <= goal->unit;
    if (!goal->is_race && step > goal->unit)
        goal->height = best - 1 - (step - goal->unit);
    goal->is_begun = true;
    return true;
}

void goal_note(struct goal *goal, enum search_result result, uint64_t work)
{
    if (goal->height > goal->bound) {
        goal->work += work;
        goal->raced += goal->is_race ? work : 0;
    }
    if (result == SEARCH_NONE)
        goal->proved = goal->height + 1;
    if (result == SEARCH_FOUND)
        goal->was_next = false;
    else if (!goal->is_race)
        goal->share = goal->was_next ? SHARE_FIRST : goal->share / 2;
}
