/* SPDX-License-Identifier: MIT */
/* Which height to search for next, when the lowest is wanted.
 *
 * First the bound. Then a share of what lies between the bound and the best height below the
 * best: what is possible is found about as fast at a low goal as at a high one, so steps are
 * large; the share is halved when nothing is found. Below one unit, the greatest size of
 * which heights are multiples, large steps are tried again; but first, if little work went
 * into that, the next lower height is searched for in a way that could exclude it.
 */
#ifndef SRC_PLAN_GOAL_H
#define SRC_PLAN_GOAL_H

#include "plan/search/search.h"

struct goal {
    int64_t height;    /* to search for                                          */
    int64_t bound;     /* below which nothing is, whatever was searched for      */
    int64_t proved;    /* nothing is lower                                       */
    int64_t unit;      /* offsets can be multiples of this                       */
    double share;      /* of the step in what is between proved and the best     */
    bool is_race;      /* by styles that differ, else by many short descents     */
    bool was_next;     /* the step was one unit                                  */
    uint64_t work;     /* done below the best height                             */
    uint64_t raced;    /* of it, in races                                        */
    bool is_begun;
};

void goal_init(struct goal *goal, const struct sections *sections);
/* Sets the next goal below the best height. False when nothing lower exists. */
bool goal_next(struct goal *goal, int64_t best);
/* Takes note of how the search for it ended, and after how much work. */
void goal_note(struct goal *goal, enum search_result result, uint64_t work);

#endif
