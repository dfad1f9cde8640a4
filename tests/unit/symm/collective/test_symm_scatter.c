/* SPDX-License-Identifier: MIT */
/* Tiles: S76. Reduce-scatter is tested with the other reductions. */
#include "symm/symm.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

static void tiles(struct rank *me)
{
    float *base, out[64];
    acre_symm *symm = ranks_symm(me, 64 * 4, (void **)&base);
    acre_tile tile = {.offset = (8 + 2) * 4, .rows = 3, .columns = 4, .stride = 8};
    acre_tile two[2] = {{0, 2, 2, 8}, {32 * 4, 2, 2, 8}};
    int roots[2] = {1, 0};

    for (int i = 0; i < 64; i++) {
        base[i] = (float)(me->rank * 64 + i);
        out[i] = -1;
    }
    REQUIRE_OK(acre_symm_tile_reduce(symm, &tile, ACRE_DTYPE_F32, 1, out, NULL));
    for (int i = 0; i < 64; i++) {
        bool is_inside = me->rank == 1 && i / 8 < 3 && i % 8 < 4;
        float sum = 0;
        for (int r = 0; r < me->count; r++)
            sum += (float)(r * 64 + i + 10);
        EXPECT(out[i] == (is_inside ? sum : -1));
    }
    REQUIRE_OK(acre_symm_tile_reduce_multi(symm, two, roots, 2, 2, ACRE_DTYPE_F32, out, NULL));
    if (me->rank < 2) {
        float sum = 0;
        for (int r = 0; r < me->count; r++)
            sum += (float)(r * 64 + (me->rank == 0 ? 32 : 0));
        EXPECT(out[0] == sum && out[9] == sum + 9 * (float)me->count);
    }
    roots[1] = 1;
    EXPECT_EQ(acre_symm_tile_reduce_multi(symm, two, roots, 2, 2, ACRE_DTYPE_F32, out, NULL),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "rank 1");
    EXPECT_EQ(acre_symm_tile_reduce_multi(symm, two, roots, 2, 1, ACRE_DTYPE_F32, out, NULL),
              ACRE_ERR_INVALID);
    tile.stride = 3;
    EXPECT_EQ(acre_symm_tile_reduce(symm, &tile, ACRE_DTYPE_F32, 1, out, NULL),
              ACRE_ERR_INVALID);
    tile.stride = 60;
    EXPECT_EQ(acre_symm_tile_reduce(symm, &tile, ACRE_DTYPE_F32, 1, out, NULL),
              ACRE_ERR_INVALID);
    ranks_meet(me, 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S76_tiles)
{
    ranks_run(3, tiles);
}

T_MAIN()
