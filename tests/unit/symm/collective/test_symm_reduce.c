/* SPDX-License-Identifier: MIT */
/* Sums of arrays: both builds give the same bits, for every type, count and alignment. */
#include "symm/collective/reduce.h"

#include "tests/support/t.h"

#include <math.h>

static void fill_random(uint8_t *data, size_t bytes, uint64_t *state)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)t_random(state);
}

/* NaN bits may differ in their payload; everything else is compared as it is. */
static bool is_same(acre_dtype dtype, const uint8_t *a, const uint8_t *b)
{
    uint16_t x, y;
    float u, v;

    if (dtype == ACRE_DTYPE_F32) {
        memcpy(&u, a, 4);
        memcpy(&v, b, 4);
        return memcmp(a, b, 4) == 0 || (isnan(u) && isnan(v));
    }
    if (dtype == ACRE_DTYPE_F16 || dtype == ACRE_DTYPE_BF16) {
        memcpy(&x, a, 2);
        memcpy(&y, b, 2);
        u = dtype == ACRE_DTYPE_F16 ? half_to_float(x) : bfloat_to_float(x);
        v = dtype == ACRE_DTYPE_F16 ? half_to_float(y) : bfloat_to_float(y);
        return x == y || (isnan(u) && isnan(v));
    }
    return memcmp(a, b, dtype_bytes(dtype)) == 0;
}

TEST(both_builds_agree)
{
    static uint8_t in[4][700], plain[700], fast[2][700];
    uint64_t state = t_seed();

    for (uint64_t round = 0; round < t_count(400, 20000); round++) {
        acre_dtype dtype = (acre_dtype)(t_random(&state) % 5);
        size_t element = dtype_bytes(dtype), count = t_random(&state) % 150 + 1;
        size_t shift = t_random(&state) % 8 * element;
        const void *from[4];
        void *to[2] = {fast[0] + shift, fast[1] + shift}, *one = plain + shift;
        for (int i = 0; i < 4; i++) {
            fill_random(in[i], sizeof in[i], &state);
            from[i] = in[i] + t_random(&state) % 8 * element;
        }
        struct reduction r = {dtype, t_random(&state) & 1, to, 2, from,
                              (int)(t_random(&state) % 4) + 1, count};
        memset(fast, 0xee, sizeof fast);
        reduce_run(&r);
        r.to = &one;
        r.to_count = 1;
        reduce_run_plain(&r);
        for (size_t i = 0; i < count; i++)
            for (int k = 0; k < 2; k++)
                if (!is_same(dtype, plain + shift + i * element, fast[k] + shift + i * element)) {
                    t_fail(__FILE__, __LINE__, "type %d element %zu of %zu", (int)dtype, i,
                           count);
                    return;
                }
        EXPECT_EQ(fast[0][shift + count * element], 0xee);
    }
}

TEST(a_sum_may_go_into_one_of_its_sources)
{
    float a[100], b[100], expected[100];

    for (int i = 0; i < 100; i++) {
        a[i] = (float)i;
        b[i] = (float)(i * i);
        expected[i] = a[i] + b[i];
    }
    void *to[2] = {a, b};
    reduce_run(&(struct reduction){ACRE_DTYPE_F32, false, to, 2, (const void *const *)to, 2,
                                   100});
    EXPECT(memcmp(a, expected, sizeof a) == 0);
    EXPECT(memcmp(b, expected, sizeof b) == 0);
}

TEST(halves_survive_the_way_there_and_back)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        float value = half_to_float((uint16_t)bits);
        if (!isnan(value))
            EXPECT_EQ(float_to_half(value), bits);
        value = bfloat_to_float((uint16_t)bits);
        if (!isnan(value))
            EXPECT_EQ(float_to_bfloat(value), bits);
    }
    EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
    EXPECT_EQ(float_to_half(65519.9f), 0x7bff);
    EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
    EXPECT_EQ(float_to_half(0x1p-25f), 0);
    EXPECT_EQ(float_to_half(0x1.8p-25f), 1);
    EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00); /* a tie goes to even */
    EXPECT_EQ(float_to_half(1.0f + 0x3p-11f), 0x3c02);
}

T_MAIN()
