/* SPDX-License-Identifier: MIT */
/* mt19937: known outputs, the 5056 bytes of its state, kept normals. */
#include "tests/support/t.h"

#include "generator/mt19937.h"

static const acre_device_id label = {ACRE_DEVICE_PRIVATE, 1};

static acre_generator *twister(uint64_t seed)
{
    acre_generator *generator = NULL;

    REQUIRE_OK(acre_generator_create(ACRE_GENERATOR_MT19937, label, &generator));
    REQUIRE_OK(acre_generator_set_seed(generator, seed));
    return generator;
}

static double normal64(acre_generator *generator)
{
    double value = 0;
    acre_fill fill = {.dst = &value, .count = 1, .type = ACRE_REAL_F64};

    REQUIRE_OK(acre_generator_normal(generator, &fill, 0, 1));
    return value;
}

static float normal32(acre_generator *generator)
{
    float value = 0;
    acre_fill fill = {.dst = &value, .count = 1, .type = ACRE_REAL_F32};

    REQUIRE_OK(acre_generator_normal(generator, &fill, 0, 1));
    return value;
}

TEST(D78_mt19937_rows)
{
    static uint32_t words[10000];
    acre_generator *generator = twister(5489);

    REQUIRE_OK(acre_generator_random32(generator, words, 10000));
    EXPECT_EQ(words[9999], 4123659995u);
    REQUIRE_OK(acre_generator_set_seed(generator, 42));
    REQUIRE_OK(acre_generator_random32(generator, words, 4));
    EXPECT_EQ(words[0], 1608637542u);
    EXPECT_EQ(words[1], 3421126067u);
    EXPECT_EQ(words[2], 4083286876u);
    EXPECT_EQ(words[3], 787846414u);
    acre_generator_destroy(generator);
}

TEST(D78_mt19937_64_bit_draws_put_the_first_word_high)
{
    acre_generator *generator = twister(42);
    uint64_t value;

    REQUIRE_OK(acre_generator_random64(generator, &value, 1));
    EXPECT_EQ(value, (UINT64_C(1608637542) << 32 | 3421126067u));
    acre_generator_destroy(generator);
}

static uint64_t at(const uint8_t *state, size_t offset, size_t bytes)
{
    uint64_t value = 0;

    memcpy(&value, state + offset, bytes);
    return value;
}

/* Fields stand where the layout says, before and after draws. */
TEST(D83_layout_of_the_state)
{
    uint8_t state[ACRE_MT19937_STATE_BYTES];
    acre_generator *generator = twister(UINT64_C(0x500000007));
    uint32_t words[3];

    EXPECT_EQ(acre_generator_state_bytes(generator), 5056);
    REQUIRE_OK(acre_generator_get_state(generator, state, sizeof state));
    EXPECT_EQ(at(state, 0, 8), UINT64_C(0x500000007));
    EXPECT_EQ(at(state, 8, 4), 1);
    EXPECT_EQ(at(state, 12, 4), 1);
    EXPECT_EQ(at(state, 16, 8), 0);
    EXPECT_EQ(at(state, 24, 8), 7);
    EXPECT_EQ(at(state, 32, 8), (uint32_t)(1812433253u * (7u ^ 7u >> 30) + 1));
    REQUIRE_OK(acre_generator_random32(generator, words, 3));
    REQUIRE_OK(acre_generator_get_state(generator, state, sizeof state));
    EXPECT_EQ(at(state, 8, 4), 622);
    EXPECT_EQ(at(state, 16, 8), 3);
    EXPECT_EQ(at(state, 24 + 8 * 623 + 4, 4), 0);
    acre_generator_destroy(generator);
}

TEST(D83_layout_of_kept_normals)
{
    uint8_t state[ACRE_MT19937_STATE_BYTES];
    acre_generator *generator = twister(7);
    double kept64;
    float kept32;

    normal64(generator);
    REQUIRE_OK(acre_generator_get_state(generator, state, sizeof state));
    EXPECT_EQ(at(state, 5040, 4), 1);
    EXPECT_EQ(at(state, 5052, 1), 0);
    memcpy(&kept64, state + 5024, 8);
    EXPECT(normal64(generator) == kept64);

    normal32(generator);
    REQUIRE_OK(acre_generator_get_state(generator, state, sizeof state));
    EXPECT_EQ(at(state, 5040, 4), 0);
    EXPECT_EQ(at(state, 5052, 1), 1);
    EXPECT_EQ(at(state, 5053, 3), 0);
    memcpy(&kept32, state + 5048, 4);
    EXPECT(normal32(generator) == kept32);
    acre_generator_destroy(generator);
}

TEST(D83_state_round_trips_mid_stream_with_a_kept_normal)
{
    uint8_t state[ACRE_MT19937_STATE_BYTES], again[ACRE_MT19937_STATE_BYTES];
    acre_generator *a = twister(99), *b = twister(1);
    uint32_t skipped[1000];

    REQUIRE_OK(acre_generator_random32(a, skipped, 1000));
    normal64(a);
    normal32(a);
    REQUIRE_OK(acre_generator_get_state(a, state, sizeof state));
    REQUIRE_OK(acre_generator_set_state(b, state, sizeof state));
    REQUIRE_OK(acre_generator_get_state(b, again, sizeof again));
    EXPECT_EQ(memcmp(state, again, sizeof state), 0);
    for (int i = 0; i < 999; i++) {
        uint32_t from_a, from_b;

        EXPECT(normal64(a) == normal64(b));
        EXPECT(normal32(a) == normal32(b));
        REQUIRE_OK(acre_generator_random32(a, &from_a, 1));
        REQUIRE_OK(acre_generator_random32(b, &from_b, 1));
        REQUIRE_EQ(from_a, from_b);
    }
    acre_generator_destroy(a);
    acre_generator_destroy(b);
}

static void expect_refused(acre_generator *generator, const uint8_t *state, size_t bytes,
                           acre_status expected)
{
    uint8_t before[ACRE_MT19937_STATE_BYTES], after[ACRE_MT19937_STATE_BYTES];

    REQUIRE_OK(acre_generator_get_state(generator, before, sizeof before));
    EXPECT_EQ(acre_generator_set_state(generator, state, bytes), expected);
    REQUIRE_OK(acre_generator_get_state(generator, after, sizeof after));
    EXPECT_EQ(memcmp(before, after, sizeof before), 0);
}

static void put(uint8_t *state, size_t offset, uint64_t value, size_t bytes)
{
    memcpy(state + offset, &value, bytes);
}

TEST(D83_a_wrong_length_is_refused)
{
    uint8_t state[ACRE_MT19937_STATE_BYTES + 1] = {0};
    acre_generator *generator = twister(3);

    expect_refused(generator, state, 5055, ACRE_ERR_INVALID);
    expect_refused(generator, state, 5057, ACRE_ERR_INVALID);
    expect_refused(generator, state, 16, ACRE_ERR_INVALID);
    expect_refused(generator, state, 8, ACRE_ERR_INVALID);
    expect_refused(generator, state, 0, ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_get_state(generator, state, 5055), ACRE_ERR_INVALID);
    acre_generator_destroy(generator);
}

TEST(D83_impossible_positions_are_refused)
{
    static const struct {
        size_t offset;
        uint64_t value;
        size_t bytes;
    } bad[] = {
        {8, 0, 4},  {8, 625, 4},        {8, 0xffffffffu, 4}, {12, 0, 4},
        {16, 625, 8}, {16, UINT64_MAX, 8}, {8, 624, 4},         {24, UINT64_C(1) << 32, 8},
    };
    uint8_t good[ACRE_MT19937_STATE_BYTES], state[ACRE_MT19937_STATE_BYTES];
    acre_generator *generator = twister(3);
    uint32_t words[300];

    REQUIRE_OK(acre_generator_random32(generator, words, 300));
    REQUIRE_OK(acre_generator_get_state(generator, good, sizeof good));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(state, good, sizeof state);
        put(state, bad[i].offset, bad[i].value, bad[i].bytes);
        expect_refused(generator, state, sizeof state, ACRE_ERR_FORMAT);
    }
    REQUIRE_OK(acre_generator_set_state(generator, good, sizeof good));
    acre_generator_destroy(generator);
}

TEST(D84_seeds_with_equal_low_halves_give_equal_streams)
{
    uint64_t seed = 1234567;
    acre_generator *a = twister(seed), *b = twister(seed + (UINT64_C(1) << 32));
    uint32_t from_a[1300], from_b[1300];
    uint64_t seed_a, seed_b;

    REQUIRE_OK(acre_generator_random32(a, from_a, 1300));
    REQUIRE_OK(acre_generator_random32(b, from_b, 1300));
    EXPECT_EQ(memcmp(from_a, from_b, sizeof from_a), 0);
    REQUIRE_OK(acre_generator_get_seed(a, &seed_a));
    REQUIRE_OK(acre_generator_get_seed(b, &seed_b));
    EXPECT_EQ(seed_a, seed);
    EXPECT_EQ(seed_b, seed + (UINT64_C(1) << 32));
    acre_generator_destroy(a);
    acre_generator_destroy(b);
}

TEST(D84_seeding_forgets_kept_normals)
{
    acre_generator *a = twister(11), *b = twister(11);

    normal64(a);
    normal32(a);
    REQUIRE_OK(acre_generator_set_seed(a, 11));
    EXPECT(normal64(a) == normal64(b));
    EXPECT(normal32(a) == normal32(b));
    acre_generator_destroy(a);
    acre_generator_destroy(b);
}

TEST(D85_there_is_no_offset)
{
    acre_generator *generator = twister(1);
    uint64_t offset = 77;

    EXPECT_EQ(acre_generator_get_offset(generator, &offset), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_generator_set_offset(generator, 4), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_generator_advance(generator, 4, &offset), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(offset, 77);
    acre_generator_destroy(generator);
}

T_MAIN()
