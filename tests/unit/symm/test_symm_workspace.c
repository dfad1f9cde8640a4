/* SPDX-License-Identifier: MIT */
/* Workspaces and topology: S71, S89, S90. */
#include "symm/symm.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

static void workspaces(struct rank *me)
{
    acre_symm *a, *b, *c, *d;
    acre_symm_info info = {.struct_size = sizeof info};

    (void)me;
    REQUIRE_OK(acre_symm_workspace("world", 1000, &a));
    REQUIRE_OK(acre_symm_workspace("world", 1000, &b));
    EXPECT_PTR_EQ(a->team, b->team);
    REQUIRE_OK(acre_symm_workspace("world", 5000, &c));
    EXPECT(a->team != c->team);
    REQUIRE_OK(acre_symm_workspace("world", 200, &d));
    EXPECT_PTR_EQ(c->team, d->team);
    REQUIRE_OK(acre_symm_info_get(d, &info));
    EXPECT_EQ(info.buffer_bytes, 5000);
    EXPECT_EQ(acre_symm_workspace("nobody", 200, &d), ACRE_ERR_NOT_FOUND);
    acre_symm_release(a);
    acre_symm_release(b);
    acre_symm_release(c);
    acre_symm_release(d);
}

TEST(S71_workspaces_grow_and_never_shrink)
{
    ranks_run(2, workspaces);
}

TEST(S89_connectivity)
{
    int first[4], second[4];

    EXPECT_EQ(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "strings", 2, first),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "peer", 99, first), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "peer", 2, first));
    REQUIRE_OK(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "peer", 2, second));
    EXPECT(memcmp(first, second, sizeof first) == 0);
    EXPECT(first[0] == 0 && first[3] == 0 && first[1] == 1 && first[2] == 1);
}

TEST(S90_the_older_choice)
{
    size_t limit = 256 << 10;

    EXPECT_EQ(acre_symm_algorithm_legacy(limit, ACRE_DTYPE_F32, 64), ACRE_ALGORITHM_ONE_SHOT);
    EXPECT_EQ(acre_symm_algorithm_legacy(limit + 4, ACRE_DTYPE_BF16, 64),
              ACRE_ALGORITHM_TWO_SHOT);
    EXPECT_EQ(acre_symm_algorithm_legacy(10 << 20, ACRE_DTYPE_F32, 64),
              ACRE_ALGORITHM_TWO_SHOT);
    EXPECT_EQ(acre_symm_algorithm_legacy((10 << 20) + 4, ACRE_DTYPE_F32, 64),
              ACRE_ALGORITHM_AUTO);
    EXPECT_EQ(acre_symm_algorithm_legacy(64, (acre_dtype)7, 64), ACRE_ALGORITHM_AUTO);
    EXPECT_EQ(acre_symm_algorithm_legacy(64, ACRE_DTYPE_BF16, 2), ACRE_ALGORITHM_AUTO);
}

T_MAIN()
