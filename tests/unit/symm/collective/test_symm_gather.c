/* SPDX-License-Identifier: MIT */
/* Collectives that move bytes: S70. */
#include "symm/symm.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

static void moves(struct rank *me)
{
    int *base, out[64], in[8];
    acre_symm *symm = ranks_symm(me, 64 * 4, (void **)&base);

    for (int round = 0; round < 2; round++) { /* S70: symmetric or ordinary input */
        for (int i = 0; i < 8; i++)
            in[i] = base[i] = me->rank * 100 + i + round;
        REQUIRE_OK(acre_symm_gather_out(symm, 0, round ? in : NULL, 32, out, NULL));
        for (int i = 0; i < 8 * me->count; i++)
            EXPECT_EQ(out[i], i / 8 * 100 + i % 8 + round);
    }
    for (int i = 0; i < 8; i++)
        base[i] = me->rank * 100 + i;
    REQUIRE_OK(acre_symm_broadcast(symm, 0, 32, 1, NULL));
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(base[i], 100 + i);
    EXPECT_EQ(acre_symm_broadcast(symm, 0, 32, me->count, NULL), ACRE_ERR_RANGE);
    ranks_meet(me, 0);
    for (int i = 0; i < me->count * 2; i++)
        base[i] = me->rank * 100 + i;
    REQUIRE_OK(acre_symm_all_to_all(symm, 0, 8, out, NULL));
    for (int r = 0; r < me->count; r++)
        for (int i = 0; i < 2; i++)
            EXPECT_EQ(out[2 * r + i], r * 100 + 2 * me->rank + i);
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S70_gather_broadcast_all_to_all)
{
    ranks_run(2, moves);
    ranks_run(3, moves);
}

T_MAIN()
