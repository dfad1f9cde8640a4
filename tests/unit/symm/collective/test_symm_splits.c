/* SPDX-License-Identifier: MIT */
/* Exchanges with variable splits: S72 to S75. */
#include "symm/symm.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

/* Rows that rank s sends to rank d for expert e; some are 0. */
static int64_t rows_of(int s, int d, int e)
{
    return (s * 3 + d * 5 + e * 2) % 4;
}

/* Row i of a split, as a number that says where it belongs. */
static int row_value(int s, int d, int e, int64_t i)
{
    return s * 100000 + d * 10000 + e * 100 + (int)i;
}

static void splits_1d(struct rank *me)
{
    int *base, out[64], at = 0;
    int64_t splits[4], out_splits[4], out_offsets[4];
    acre_symm *symm = ranks_symm(me, 256, (void **)&base);

    for (int d = 0; d < me->count; d++) {
        splits[d] = rows_of(me->rank, d, 0);
        for (int64_t i = 0; i < splits[d]; i++)
            base[at++] = row_value(me->rank, d, 0, i);
    }
    acre_splits s = {.struct_size = sizeof s, .row_bytes = 4, .in_rows = (size_t)at,
                     .out_rows = 64, .in_splits = splits, .out_splits = out_splits,
                     .out_offsets = out_offsets};
    REQUIRE_OK(acre_symm_all_to_all_v(symm, 0, &s, out, NULL));
    at = 0;
    for (int from = 0; from < me->count; from++) {
        EXPECT_EQ(out_splits[from], rows_of(from, me->rank, 0));
        EXPECT_EQ(out_offsets[from], at);
        for (int64_t i = 0; i < out_splits[from]; i++)
            EXPECT_EQ(out[at++], row_value(from, me->rank, 0, i));
    }
    s.out_rows = (size_t)at - 1; /* too small everywhere: each rank says so itself */
    EXPECT_EQ(acre_symm_all_to_all_v(symm, 0, &s, out, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "room");
    s.out_rows = 64;
    splits[0] = 1000;
    EXPECT_EQ(acre_symm_all_to_all_v(symm, 0, &s, out, NULL), ACRE_ERR_INVALID);
    splits[0] = -1;
    EXPECT_EQ(acre_symm_all_to_all_v(symm, 0, &s, out, NULL), ACRE_ERR_INVALID);
    splits[0] = rows_of(me->rank, 0, 0);
    REQUIRE_OK(acre_symm_all_to_all_v(symm, 0, &s, out, NULL));
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S72_splits_in_one_dimension)
{
    ranks_run(3, splits_1d);
    ranks_run(4, splits_1d);
}

enum { EXPERTS = 3, CELLS = 4 * EXPERTS };

static void dispatch_and_combine(struct rank *me, int64_t align)
{
    int *base, *there, back[64], at = 0;
    int64_t splits[CELLS], there_splits[CELLS], there_offsets[CELLS], back_splits[CELLS];
    int64_t back_offsets[CELLS];
    acre_symm *symm = ranks_symm(me, 64 * 4, (void **)&base);
    acre_symm *second = ranks_symm(me, 256 * 4, (void **)&there);

    for (int d = 0; d < me->count; d++)
        for (int e = 0; e < EXPERTS; e++) {
            splits[d * EXPERTS + e] = rows_of(me->rank, d, e);
            for (int64_t i = 0; i < splits[d * EXPERTS + e]; i++)
                base[at++] = row_value(me->rank, d, e, i);
        }
    acre_splits s = {.struct_size = sizeof s, .row_bytes = 4, .in_rows = (size_t)at,
                     .out_rows = 256, .experts = EXPERTS, .align = align, .in_splits = splits,
                     .out_splits = there_splits, .out_offsets = there_offsets};
    REQUIRE_OK(acre_symm_all_to_all_v(symm, 0, &s, there, NULL));
    int64_t begin = 0;
    for (int e = 0; e < EXPERTS; e++) {
        int64_t row = begin;
        EXPECT_EQ(begin % align, 0);
        for (int from = 0; from < me->count; from++) {
            int cell = e * me->count + from;
            EXPECT_EQ(there_splits[cell], rows_of(from, me->rank, e));
            EXPECT_EQ(there_offsets[cell], row);
            for (int64_t i = 0; i < there_splits[cell]; i++)
                EXPECT_EQ(there[row++], row_value(from, me->rank, e, i));
        }
        begin += row == begin ? align : (row - begin + align - 1) / align * align;
    }
    for (int d = 0; d < me->count; d++)
        for (int e = 0; e < EXPERTS; e++)
            EXPECT_EQ(splits[d * EXPERTS + e], rows_of(me->rank, d, e));
    acre_splits r = {.struct_size = sizeof r, .row_bytes = 4, .in_rows = 256, .out_rows = 64,
                     .experts = EXPERTS, .in_splits = there_splits, .in_offsets = there_offsets,
                     .out_splits = back_splits, .out_offsets = back_offsets};
    REQUIRE_OK(acre_symm_all_to_all_v(second, 0, &r, back, NULL));
    EXPECT(memcmp(back, base, (size_t)at * 4) == 0);
    int64_t sum = 0;
    for (int i = 0; i < me->count * EXPERTS; i++) {
        EXPECT_EQ(back_splits[i], splits[i]);
        EXPECT_EQ(back_offsets[i], sum);
        sum += splits[i];
    }
    s.align = -1;
    EXPECT_EQ(acre_symm_all_to_all_v(symm, 0, &s, there, NULL), ACRE_ERR_INVALID);
    s.align = 1;
    s.experts = 1000;
    EXPECT_EQ(acre_symm_all_to_all_v(symm, 0, &s, there, NULL), ACRE_ERR_INVALID);
    s.experts = EXPERTS;
    s.in_splits = NULL;
    EXPECT_EQ(acre_symm_all_to_all_v(symm, 0, &s, there, NULL), ACRE_ERR_INVALID);
    ranks_meet(me, (int)align);
    acre_symm_release(symm);
    acre_symm_release(second);
    acre_symm_free(base);
    acre_symm_free(there);
}

static void splits_2d(struct rank *me)
{
    dispatch_and_combine(me, 1);
    dispatch_and_combine(me, 8);
    dispatch_and_combine(me, 16);
}

TEST(S73_S74_S75_there_and_back)
{
    ranks_run(2, splits_2d);
    ranks_run(4, splits_2d);
}

T_MAIN()
