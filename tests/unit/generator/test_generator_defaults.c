/* SPDX-License-Identifier: MIT */
/* The generator of a device: one, found again, seeded at random. */
#include "tests/support/t.h"

#include "base/heap.h"
#include "generator/generator.h"

#include <acre/acre.h>

#include <pthread.h>

TEST(a_device_has_one_generator)
{
    acre_generator *first = NULL, *again = NULL, *current = NULL;

    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_CPU, 0, &first));
    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_CPU, 0, &again));
    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_CPU, -1, &current));
    EXPECT_PTR_EQ(first, again);
    EXPECT_PTR_EQ(first, current);
    EXPECT_EQ(generator_kind_of(first), ACRE_GENERATOR_MT19937);
    EXPECT_EQ(acre_generator_device(first).type, ACRE_DEVICE_CPU);
    EXPECT_EQ(acre_generator_device(first).index, 0);
    acre_generator_default_clear();
}

TEST(it_is_seeded_at_random)
{
    acre_generator *generator = NULL;
    uint64_t first = 0, second = 0;

    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_CPU, 0, &generator));
    REQUIRE_OK(acre_generator_get_seed(generator, &first));
    acre_generator_default_clear();
    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_CPU, 0, &generator));
    REQUIRE_OK(acre_generator_get_seed(generator, &second));
    EXPECT_NE(first, second);
    acre_generator_default_clear();
}

TEST(devices_that_are_not_there)
{
    acre_generator *generator = NULL;

    EXPECT_EQ(acre_generator_default(ACRE_DEVICE_CPU, 7, &generator), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_generator_default(ACRE_DEVICE_CPU, -2, &generator), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_generator_default(ACRE_DEVICE_CPU, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(generator, NULL);
}

static void *find(void *out)
{
    acre_generator **slot = out;

    return acre_generator_default(ACRE_DEVICE_CPU, 0, slot) == ACRE_OK ? NULL : out;
}

TEST(threads_that_come_at_once_get_the_same)
{
    enum { THREADS = 8 };
    acre_generator *found[THREADS] = {NULL};
    pthread_t threads[THREADS];
    void *result;

    for (int i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, find, &found[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        EXPECT_PTR_EQ(result, NULL);
        EXPECT_PTR_EQ(found[i], found[0]);
    }
    acre_generator_default_clear();
}

TEST(every_host_allocation_may_fail)
{
    acre_device *device;
    acre_generator *generator;
    uint64_t before;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &device));
    before = heap_live_count();
    for (uint64_t nth = 1;; nth++) {
        acre_status status;

        heap_fail_nth(nth);
        status = acre_generator_default(ACRE_DEVICE_CPU, 0, &generator);
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            EXPECT_EQ(nth, 4);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(heap_live_count(), before);
    }
    acre_generator_default_clear();
    EXPECT_EQ(heap_live_count(), before);
}

T_MAIN()
