/* SPDX-License-Identifier: MIT */
#include "plan/place/hole_score.h"

#include "plan/place/mix.h"

#include <math.h>

struct hole_score hole_score_first(uint32_t turn)
{
    static const struct hole_score hole_scores[] = {
        {false, 1, INFINITY, INFINITY, 0.2f, 0.4f, 10},
        {true, 10, 0.7f, 2.4f, 0.5f, 0.4f, 10},
    };

    return hole_scores[turn % (sizeof hole_scores / sizeof *hole_scores)];
}

static float next_unit(uint64_t *random)
{
    return (float)(mix_next(random) >> 40) * 0x1p-24f;
}

struct hole_score hole_score_draw(uint64_t *random)
{
    struct hole_score hole_score = {
        .is_by_mean = next_unit(random) < 0.5f, .knee = INFINITY, .plateau = INFINITY};

    hole_score.slope = exp2f(-4 + 8 * next_unit(random));
    hole_score.ends = exp2f(-5 + 5 * next_unit(random));
    hole_score.tight = next_unit(random);
    hole_score.edge = exp2f(6 * next_unit(random));
    if (hole_score.is_by_mean) {
        hole_score.knee = exp2f(-4 + 7 * next_unit(random));
        hole_score.plateau =
            next_unit(random) * hole_score_log2(1 + hole_score.slope * hole_score.knee);
    }
    return hole_score;
}
