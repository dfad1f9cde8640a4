/* SPDX-License-Identifier: MIT */
/* The raw Philox engine: published vectors, skipping, carries. */
#include "tests/support/t.h"

#include "generator/philox.h"

static void expect_words(const uint32_t got[4], uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    EXPECT_EQ(got[0], a);
    EXPECT_EQ(got[1], b);
    EXPECT_EQ(got[2], c);
    EXPECT_EQ(got[3], d);
}

TEST(D78_philox_block_vectors)
{
    const uint32_t zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
    const uint32_t pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    const uint32_t pi_key[2] = {0xa4093822, 0x299f31d0};
    uint32_t out[4];

    acre_philox_block(zero, zero, out);
    expect_words(out, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    acre_philox_block(ones, ones, out);
    expect_words(out, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
    acre_philox_block(pi, pi_key, out);
    expect_words(out, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(D78_philox_engine_vectors)
{
    acre_philox engine;

    acre_philox_init(&engine, 0, 0, 4);
    EXPECT_EQ(acre_philox_next(&engine), 4013802324u);
    EXPECT_EQ(acre_philox_next(&engine), 2979262830u);
    acre_philox_init(&engine, 10, 0, 1);
    EXPECT_EQ(acre_philox_next(&engine), 2007330488u);
    EXPECT_EQ(acre_philox_next(&engine), 2354548925u);
    acre_philox_init(&engine, 42, 0, 0);
    EXPECT_EQ(acre_philox_next(&engine), 0x9ceaf053u);
    EXPECT_EQ(acre_philox_next(&engine), 0x77f5493bu);
    EXPECT_EQ(acre_philox_next(&engine), 0x12bf50adu);
    EXPECT_EQ(acre_philox_next(&engine), 0x5742b3d7u);
}

static int agree(acre_philox *a, acre_philox *b, int words)
{
    while (words-- > 0)
        if (acre_philox_next(a) != acre_philox_next(b))
            return 0;
    return 1;
}

TEST(D79_equal_engines_agree_and_skipping_equals_drawing)
{
    acre_philox a, b;

    acre_philox_init(&a, 123, 7, 99);
    acre_philox_init(&b, 123, 7, 99);
    EXPECT(agree(&a, &b, 1000));
    acre_philox_skip(&a, 2);
    for (int i = 0; i < 8; i++)
        acre_philox_next(&b);
    EXPECT(agree(&a, &b, 100));
}

/* Also in the middle of a block, where the words at hand become others. */
TEST(D79_skipping_inside_a_block)
{
    for (int start = 1; start < 4; start++) {
        acre_philox a, b;

        acre_philox_init(&a, 5, 0, 0);
        acre_philox_init(&b, 5, 0, 0);
        agree(&a, &b, start);
        acre_philox_skip(&a, 2);
        for (int i = 0; i < 8; i++)
            acre_philox_next(&b);
        EXPECT(agree(&a, &b, 13));
    }
}

TEST(different_inputs_give_different_words)
{
    acre_philox a, b;

    acre_philox_init(&a, 1, 0, 0);
    acre_philox_init(&b, 2, 0, 0);
    EXPECT(!agree(&a, &b, 4));
    acre_philox_init(&a, 1, 0, 0);
    acre_philox_init(&b, 1, 1, 0);
    EXPECT(!agree(&a, &b, 4));
    acre_philox_init(&a, 1, 0, 0);
    acre_philox_init(&b, UINT64_C(1) << 32 | 1, 0, 0);
    EXPECT(!agree(&a, &b, 4));
}

TEST(D80_the_block_offset_carries_into_the_subsequence)
{
    acre_philox a, b;

    acre_philox_init(&a, 77, 3, UINT64_MAX);
    for (int i = 0; i < 4; i++)
        acre_philox_next(&a);
    acre_philox_init(&b, 77, 4, 0);
    EXPECT(agree(&a, &b, 40));

    acre_philox_init(&a, 77, 3, UINT64_MAX);
    acre_philox_skip(&a, 1);
    acre_philox_init(&b, 77, 4, 0);
    EXPECT(agree(&a, &b, 40));
    EXPECT_EQ(a.counter[2], 4);
}

TEST(D80_carries_between_all_words)
{
    acre_philox a, b;

    acre_philox_init(&a, 1, 0, 0xffffffffu);
    acre_philox_skip(&a, 1);
    acre_philox_init(&b, 1, 0, UINT64_C(1) << 32);
    EXPECT(agree(&a, &b, 4));
    acre_philox_init(&a, 1, 0xffffffffu, UINT64_MAX);
    acre_philox_skip(&a, 1);
    acre_philox_init(&b, 1, UINT64_C(1) << 32, 0);
    EXPECT(agree(&a, &b, 4));
    acre_philox_init(&a, 1, UINT64_MAX, UINT64_MAX);
    acre_philox_skip(&a, 1);
    acre_philox_init(&b, 1, 0, 0);
    EXPECT(agree(&a, &b, 4));
}

TEST(a_block_by_position_is_that_of_the_engine)
{
    uint64_t block = UINT64_C(0x123456789abcdef);
    acre_philox engine;
    uint32_t words[4];

    philox_block_at(UINT64_C(0xfedcba9876543210), block, words);
    acre_philox_init(&engine, UINT64_C(0xfedcba9876543210), 0, block);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(words[i], acre_philox_next(&engine));
}

TEST(uniform_of_a_word_lies_in_the_unit_interval)
{
    EXPECT(acre_philox_uniform(0) == 0.0f);
    EXPECT(acre_philox_uniform(0x80000000u) == 0.0f);
    EXPECT(acre_philox_uniform(0x7fffffffu) < 1.0f);
    EXPECT(acre_philox_uniform(0xffffffffu) < 1.0f);
    EXPECT(acre_philox_uniform(0xffffffffu) > 0.9999999f);
    EXPECT(acre_philox_uniform(0x40000000u) == 1073741824.0f * 4.6566127342e-10f);
}

T_MAIN()
