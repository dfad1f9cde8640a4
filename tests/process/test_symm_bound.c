/* SPDX-License-Identifier: MIT */
/* Ranks look at a word for long only where each may have a processor of its own. */
#include "symm/team/team.h"

#include "tests/support/ranks.h"

#include <sched.h>
#include <unistd.h>

/* The number of an allowed processor, counted from 0; -1: there are fewer. */
static int processor_at(int index)
{
    cpu_set_t allowed;

    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (int at = 0; at < CPU_SETSIZE; at++)
        if (CPU_ISSET(at, &allowed) && index-- == 0)
            return at;
    return -1;
}

static unsigned looks_when_bound_to(struct rank *me, int processor)
{
    cpu_set_t set;
    void *base;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
    ranks_meet(me, 0);
    acre_symm *symm = ranks_symm(me, 64, &base);
    unsigned looks = ((struct team **)(void *)symm)[0]->spin_count;
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
    return looks;
}

static void both_on_one(struct rank *me)
{
    EXPECT_EQ(looks_when_bound_to(me, processor_at(0)), 0);
}

static void each_on_its_own(struct rank *me)
{
    EXPECT_GT(looks_when_bound_to(me, processor_at(me->rank)), 0);
}

TEST(ranks_that_share_a_processor_give_it_away_at_once)
{
    T_NEEDS("sched_setaffinity");
    ranks_run(2, both_on_one);
}

TEST(ranks_with_a_processor_each_look_for_long)
{
    T_NEEDS("sched_setaffinity");
    if (processor_at(1) < 0)
        T_SKIP("one processor");
    ranks_run(2, each_on_its_own);
}

T_MAIN()
