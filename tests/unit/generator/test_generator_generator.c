/* SPDX-License-Identifier: MIT */
/* Generators: seeds, offsets, states, clones, threads, failing host memory. */
#include "tests/support/t.h"

#include "base/heap.h"
#include "generator/generator.h"

#include <pthread.h>

static const acre_device_id label = {ACRE_DEVICE_PRIVATE, 1};

static acre_generator *create(acre_generator_kind kind)
{
    acre_generator *generator = NULL;

    REQUIRE_OK(acre_generator_create(kind, label, &generator));
    return generator;
}

static uint64_t offset_of(acre_generator *generator)
{
    uint64_t offset = 1;

    REQUIRE_OK(acre_generator_get_offset(generator, &offset));
    return offset;
}

static uint64_t seed_of(acre_generator *generator)
{
    uint64_t seed = 0;

    REQUIRE_OK(acre_generator_get_seed(generator, &seed));
    return seed;
}

TEST(a_new_generator_has_the_default_seed)
{
    acre_generator *philox = create(ACRE_GENERATOR_PHILOX);
    acre_generator *mt = create(ACRE_GENERATOR_MT19937);

    EXPECT_EQ(seed_of(philox), 67280421310721);
    EXPECT_EQ(offset_of(philox), 0);
    EXPECT_EQ(seed_of(mt), 67280421310721);
    EXPECT_EQ(generator_kind_of(philox), ACRE_GENERATOR_PHILOX);
    EXPECT_EQ(generator_kind_of(mt), ACRE_GENERATOR_MT19937);
    acre_generator_destroy(philox);
    acre_generator_destroy(mt);
    acre_generator_destroy(NULL);
}

TEST(D81_the_offset_is_a_multiple_of_four)
{
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX);
    uint64_t before = 99;

    EXPECT_EQ(acre_generator_set_offset(generator, 3), ACRE_ERR_INVALID);
    EXPECT_EQ(offset_of(generator), 0);
    REQUIRE_OK(acre_generator_set_offset(generator, 4));
    REQUIRE_OK(acre_generator_advance(generator, 5, &before));
    EXPECT_EQ(before, 4);
    EXPECT_EQ(offset_of(generator), 12);
    REQUIRE_OK(acre_generator_advance(generator, 0, &before));
    EXPECT_EQ(before, 12);
    EXPECT_EQ(offset_of(generator), 12);
    REQUIRE_OK(acre_generator_advance(generator, 4, &before));
    EXPECT_EQ(offset_of(generator), 16);
    acre_generator_destroy(generator);
}

TEST(an_offset_does_not_pass_its_end)
{
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX);
    uint64_t before = 7;

    REQUIRE_OK(acre_generator_set_offset(generator, UINT64_MAX - 3));
    EXPECT_EQ(acre_generator_advance(generator, 1, &before), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_generator_set_offset(generator, 8));
    EXPECT_EQ(acre_generator_advance(generator, UINT64_MAX, &before), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_generator_advance(generator, UINT64_MAX - 10, &before), ACRE_ERR_RANGE);
    EXPECT_EQ(before, 7);
    EXPECT_EQ(offset_of(generator), 8);
    REQUIRE_OK(acre_generator_advance(generator, UINT64_MAX - 11, &before));
    EXPECT_EQ(offset_of(generator), UINT64_MAX - 3);
    acre_generator_destroy(generator);
}

TEST(D82_setting_the_seed_zeroes_the_offset)
{
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX);

    REQUIRE_OK(acre_generator_set_offset(generator, 400));
    REQUIRE_OK(acre_generator_set_seed(generator, UINT64_MAX));
    EXPECT_EQ(offset_of(generator), 0);
    EXPECT_EQ(seed_of(generator), UINT64_MAX);
    acre_generator_destroy(generator);
}

TEST(D82_the_state_round_trips)
{
    acre_generator *a = create(ACRE_GENERATOR_PHILOX), *b = create(ACRE_GENERATOR_PHILOX);
    uint64_t state[2], seed = UINT64_C(0x123456789abcdef0);

    REQUIRE_OK(acre_generator_set_seed(a, seed));
    REQUIRE_OK(acre_generator_set_offset(a, 1 << 20));
    EXPECT_EQ(acre_generator_state_bytes(a), 16);
    REQUIRE_OK(acre_generator_get_state(a, state, 16));
    EXPECT_EQ(state[0], seed);
    EXPECT_EQ(state[1], 1 << 20);
    REQUIRE_OK(acre_generator_set_state(b, state, 16));
    EXPECT_EQ(seed_of(b), seed);
    EXPECT_EQ(offset_of(b), 1 << 20);
    REQUIRE_OK(acre_generator_set_state(b, &(uint64_t){31}, 8));
    EXPECT_EQ(seed_of(b), 31);
    EXPECT_EQ(offset_of(b), 0);
    acre_generator_destroy(a);
    acre_generator_destroy(b);
}

TEST(D82_bad_states_change_nothing)
{
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX);
    uint64_t state[3] = {5, 6, 7};

    REQUIRE_OK(acre_generator_set_seed(generator, 1000));
    REQUIRE_OK(acre_generator_set_offset(generator, 44));
    EXPECT_EQ(acre_generator_set_state(generator, state, 9), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_set_state(generator, state, 17), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_set_state(generator, state, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_set_state(generator, state, 16), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "offset 6");
    EXPECT_EQ(acre_generator_set_state(generator, NULL, 16), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_get_state(generator, state, 8), ACRE_ERR_INVALID);
    EXPECT_EQ(seed_of(generator), 1000);
    EXPECT_EQ(offset_of(generator), 44);
    acre_generator_destroy(generator);
}

TEST(a_clone_is_independent_and_keeps_its_label)
{
    for (int kind = ACRE_GENERATOR_PHILOX; kind <= ACRE_GENERATOR_MT19937; kind++) {
        acre_generator *a = create((acre_generator_kind)kind), *b = NULL;
        uint32_t from_a[5], from_b[5], later[5];

        REQUIRE_OK(acre_generator_random32(a, from_a, 5));
        REQUIRE_OK(acre_generator_clone(a, &b));
        EXPECT_EQ(acre_generator_device(b).type, ACRE_DEVICE_PRIVATE);
        EXPECT_EQ(acre_generator_device(b).index, 1);
        EXPECT_EQ(seed_of(b), seed_of(a));
        REQUIRE_OK(acre_generator_random32(a, from_a, 5));
        REQUIRE_OK(acre_generator_random32(b, from_b, 5));
        EXPECT_EQ(memcmp(from_a, from_b, sizeof from_a), 0);
        REQUIRE_OK(acre_generator_random32(a, later, 5));
        acre_generator_destroy(a);
        REQUIRE_OK(acre_generator_random32(b, from_b, 5));
        EXPECT_EQ(memcmp(later, from_b, sizeof later), 0);
        acre_generator_destroy(b);
    }
}

TEST(shared_generators_move_together)
{
    acre_generator *a = create(ACRE_GENERATOR_PHILOX), *b = NULL;
    uint64_t before;

    REQUIRE_OK(acre_generator_share(a, &b));
    REQUIRE_OK(acre_generator_advance(a, 8, &before));
    EXPECT_EQ(offset_of(b), 8);
    acre_generator_destroy(a);
    REQUIRE_OK(acre_generator_advance(b, 8, &before));
    EXPECT_EQ(before, 8);
    acre_generator_destroy(b);
}

TEST(host_draws_follow_the_offset)
{
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX);
    uint32_t words[6];
    uint64_t wide[2];
    acre_philox engine;

    REQUIRE_OK(acre_generator_set_seed(generator, 42));
    REQUIRE_OK(acre_generator_random32(generator, words, 6));
    EXPECT_EQ(words[0], 0x9ceaf053u);
    EXPECT_EQ(words[3], 0x5742b3d7u);
    EXPECT_EQ(offset_of(generator), 8);
    acre_philox_init(&engine, 42, 0, 2);
    REQUIRE_OK(acre_generator_random64(generator, wide, 2));
    for (int i = 0; i < 2; i++) {
        uint64_t high = acre_philox_next(&engine);

        EXPECT_EQ(wide[i], (high << 32 | acre_philox_next(&engine)));
    }
    EXPECT_EQ(offset_of(generator), 12);
    acre_generator_destroy(generator);
}

/* Two seeds of 53 bits that agree would be a wonder. */
TEST(random_seeds_differ_and_keep_53_bits)
{
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX);
    uint64_t first = 0, second = 0, all = 0;

    REQUIRE_OK(acre_generator_set_offset(generator, 8));
    REQUIRE_OK(acre_generator_seed_random(generator, &first));
    EXPECT_EQ(seed_of(generator), first);
    EXPECT_EQ(offset_of(generator), 0);
    REQUIRE_OK(acre_generator_seed_random(generator, &second));
    EXPECT_NE(first, second);
    for (int i = 0; i < 100; i++) {
        REQUIRE_OK(acre_generator_seed_random(generator, &first));
        all |= first;
    }
    EXPECT_EQ(all >> 53, 0);
    EXPECT_NE(all >> 48, 0);
    REQUIRE_OK(acre_generator_seed_random(generator, NULL));
    acre_generator_destroy(generator);
}

TEST(null_and_nonsense_are_refused)
{
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX), *out = NULL;
    uint64_t value;

    EXPECT_EQ(acre_generator_create((acre_generator_kind)3, label, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_create(ACRE_GENERATOR_PHILOX, label, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_clone(NULL, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_share(generator, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_set_seed(NULL, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_get_seed(generator, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_seed_random(NULL, &value), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_get_offset(generator, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_set_offset(NULL, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_advance(generator, 1, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_random32(generator, NULL, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_random64(NULL, &value, 1), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(out, NULL);
    acre_generator_destroy(generator);
}

enum { THREADS = 4, STEPS = 2000 };

struct taker {
    acre_generator *generator;
    uint64_t taken[STEPS];
};

static void *take(void *arg)
{
    struct taker *taker = arg;

    for (int i = 0; i < STEPS; i++)
        if (acre_generator_advance(taker->generator, 5, &taker->taken[i]) != ACRE_OK)
            return arg;
    return NULL;
}

/* No two increments get the same offset, and none is lost. */
TEST(D81_increments_are_thread_safe)
{
    static struct taker takers[THREADS];
    static unsigned char seen[THREADS * STEPS];
    acre_generator *generator = create(ACRE_GENERATOR_PHILOX);
    pthread_t threads[THREADS];
    void *result;

    for (int i = 0; i < THREADS; i++) {
        takers[i].generator = generator;
        REQUIRE_EQ(pthread_create(&threads[i], NULL, take, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        EXPECT_PTR_EQ(result, NULL);
        for (int k = 0; k < STEPS; k++) {
            REQUIRE_EQ(takers[i].taken[k] % 8, 0);
            REQUIRE(takers[i].taken[k] / 8 < THREADS * STEPS);
            seen[takers[i].taken[k] / 8]++;
        }
    }
    for (int i = 0; i < THREADS * STEPS; i++)
        REQUIRE_EQ(seen[i], 1);
    EXPECT_EQ(offset_of(generator), 8 * THREADS * STEPS);
    acre_generator_destroy(generator);
}

static acre_status life(void)
{
    acre_generator *a = NULL, *b = NULL, *c = NULL;
    acre_status status = acre_generator_create(ACRE_GENERATOR_PHILOX, label, &a);

    if (status == ACRE_OK)
        status = acre_generator_clone(a, &b);
    if (status == ACRE_OK)
        status = acre_generator_share(b, &c);
    acre_generator_destroy(a);
    acre_generator_destroy(b);
    acre_generator_destroy(c);
    return status;
}

TEST(every_host_allocation_may_fail)
{
    uint64_t before = heap_live_count();

    for (uint64_t nth = 1; nth < 20; nth++) {
        acre_status status;

        heap_fail_nth(nth);
        status = life();
        EXPECT_EQ(heap_live_count(), before);
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            EXPECT_EQ(nth, 6);
            return;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
    }
    EXPECT(!"the scenario never ran out of allocations");
}

T_MAIN()
