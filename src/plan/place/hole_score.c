/* SPDX-License-Identifier: MIT */
#include "plan/place/hole_score.h"

#include "plan/place/mix.h"

#include <math.h>

struct taste taste_first(uint32_t turn)
{
    static const struct taste tastes[] = {
        {false, 1, INFINITY, INFINITY, 0.2f, 0.4f, 10},
        {true, 10, 0.7f, 2.4f, 0.5f, 0.4f, 10},
    };

    return tastes[turn % (sizeof tastes / sizeof *tastes)];
}

static float next_unit(uint64_t *random)
{
    return (float)(mix_next(random) >> 40) * 0x1p-24f;
}

struct taste taste_draw(uint64_t *random)
{
    struct taste taste = {.is_by_mean = next_unit(random) < 0.5f, .knee = INFINITY,
                          .plateau = INFINITY};

    taste.slope = exp2f(-4 + 8 * next_unit(random));
    taste.ends = exp2f(-5 + 5 * next_unit(random));
    taste.tight = next_unit(random);
    taste.edge = exp2f(6 * next_unit(random));
    if (taste.is_by_mean) {
        taste.knee = exp2f(-4 + 7 * next_unit(random));
        taste.plateau = next_unit(random) * taste_log2(1 + taste.slope * taste.knee);
    }
    return taste;
}
