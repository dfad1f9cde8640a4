/* SPDX-License-Identifier: MIT */
/* One rank runs out of host memory while all meet: the others hear of it at once, and why. */
#include "base/heap.h"

#include "tests/support/ranks.h"

#include <fcntl.h>

static void *block; /* what is met with; NULL: a barrier of the group */

static acre_status meet(struct rank *me)
{
    acre_symm *symm = NULL;

    if (!block)
        return acre_group_barrier(me->group);
    acre_status status = acre_symm_rendezvous(block, "world", &symm);
    acre_symm_release(symm);
    return status;
}

/* Fails one allocation of rank 1 while all meet; false when there was none to fail. */
static bool lack_once(struct rank *me, uint64_t nth)
{
    if (me->rank == 1)
        heap_fail_nth(nth);
    acre_status status = meet(me);
    if (me->rank == 1)
        atomic_store(&me->shared[nth], (uint64_t)heap_fail_disarm());
    EXPECT(fcntl(0, F_GETFD) >= 0); /* no stranger's descriptor is closed */
    if (status != ACRE_OK)
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
    if (status != ACRE_OK && me->rank != 1)
        EXPECT_HAS(acre_last_error(), "rank 1 failed: ");
    ranks_meet(me, (int)nth);
    bool has_failed = atomic_load(&me->shared[nth]);
    if (!has_failed)
        EXPECT_EQ(status, ACRE_OK);
    return has_failed;
}

static void lack_each(struct rank *me, bool is_barrier)
{
    bool has_failed = true;

    REQUIRE_OK(acre_group_barrier(me->group)); /* all have joined */
    for (uint64_t nth = 1; has_failed; nth++) {
        void *fresh = NULL;
        if (!is_barrier)
            REQUIRE_OK(acre_symm_alloc(NULL, 64, &fresh));
        block = fresh;
        has_failed = lack_once(me, nth);
        EXPECT_EQ(meet(me), ACRE_OK); /* and the next time all is well */
        acre_symm_free(fresh);
    }
}

static void lacks_at_barriers(struct rank *me)
{
    lack_each(me, true);
}

static void lacks_at_rendezvous(struct rank *me)
{
    lack_each(me, false);
}

TEST(a_barrier_without_memory_is_told_to_all)
{
    ranks_run_with(3, lacks_at_barriers, 10000, 0);
}

TEST(a_rendezvous_without_memory_is_told_to_all)
{
    ranks_run_with(3, lacks_at_rendezvous, 10000, 0);
}

T_MAIN()
