/* SPDX-License-Identifier: MIT */
/* What makes a hole a good one for a buffer (sweep.h).
 *
 * A hole has a score, the lower the better, of two parts: for what is left over of it,
 * and for how far apart the buffer ends from its neighbour there, as those that end
 * together leave one hole. Of what is left over the score grows, until there is so much
 * that other buffers fit into it:
 *
 *   score |      _________   plateau
 *         |    /|
 *         |  /  |
 *         |/____|_________
 *              knee      left over, in parts of the buffer's size or of the mean size
 */
#ifndef SRC_PLAN_TASTE_H
#define SRC_PLAN_TASTE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct hole_score {
    bool is_by_mean; /* left over in parts of the mean size              */
    float slope;     /* how fast the score grows with what is left over  */
    float knee;      /* infinite: there is none                          */
    float plateau;   /* score behind the knee                            */
    float ends;      /* weight of how far apart ends are                 */
    float tight;     /* the part of the weight that applies when the
                        hole is filled exactly                           */
    float edge;      /* how far apart any end is from floor and ceiling  */
};

/* A score to begin with; there are two, in turns. */
struct hole_score hole_score_first(uint32_t turn);
/* Some other one; moves the state of chance on. */
struct hole_score hole_score_draw(uint64_t *random);

/* Roughly the logarithm to base 2 of a number from 1 on. */
static inline float hole_score_log2(float x)
{
    uint32_t bits;
    float part;

    memcpy(&bits, &x, sizeof bits);
    float whole = (float)(int)(bits >> 23) - 127;
    bits = (bits & 0x7FFFFFu) | 0x3F800000u;
    memcpy(&part, &bits, sizeof part);
    return whole + (-0.33582878f * part + 2) * part - 1.6582878f;
}

/* How far two ends are apart: the ratio of the times until them, at least 1. */
static inline float hole_score_ratio(float a, float b)
{
    return a > b ? a / b : b / a;
}

/* The score of a hole, by what is left over and how far apart ends are. */
static inline float hole_score_rate(const struct hole_score *hole_score, float rest, float apart)
{
    float score = rest < hole_score->knee ? hole_score_log2(1 + hole_score->slope * rest)
                                          : hole_score->plateau;

    return score + hole_score->ends * hole_score_log2(apart) * (rest > 0 ? 1 : hole_score->tight);
}

/* The least score that a hole can have of which so much or more is left over. */
static inline float hole_score_least(const struct hole_score *hole_score, float rest)
{
    float score = rest <= 0 ? 0 : hole_score_log2(1 + hole_score->slope * rest);

    return score < hole_score->plateau ? score : hole_score->plateau;
}

#endif
