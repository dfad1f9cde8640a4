/* SPDX-License-Identifier: MIT */
/* The allocator of caches that a process shares. */
#include "base/heap.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/cache.h>

#include <pthread.h>

#define TYPE ACRE_DEVICE_OPENCL
#define THREADS 8

static struct fake *fake;
static uint64_t heap_before;

static void begin(void)
{
    heap_before = heap_live_count();
    fake = fake_create(&(struct fake_config){.devices = 3});
    REQUIRE_OK(acre_device_set(TYPE, 0));
}

static void end(void)
{
    EXPECT_EQ(fake_alloc_count(fake), 0);
    REQUIRE_OK(acre_device_set(TYPE, 0));
    fake_destroy(fake);
    EXPECT_EQ(heap_live_count(), heap_before);
}

TEST(there_is_one_per_type_with_a_cache_per_device)
{
    acre_allocator *allocator, *again;
    acre_data_ptr ptrs[3];

    begin();
    REQUIRE_OK(acre_device_allocator(TYPE, &allocator));
    REQUIRE_OK(acre_device_allocator(TYPE, &again));
    EXPECT_PTR_EQ(allocator, again);
    EXPECT_EQ(fake_calls(fake, FAKE_ALLOC), 0);
    for (int i = 0; i < 3; i++) {
        acre_cache *cache = acre_cache_of_allocator(allocator, i);
        REQUIRE(cache != NULL);
        EXPECT_PTR_EQ(acre_cache_device(cache), fake_device(fake, i));
        REQUIRE_OK(acre_device_set(TYPE, i));
        REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &ptrs[i]));
        EXPECT(fake_owns(fake, i, ptrs[i].data, 1000));
        EXPECT_EQ(ptrs[i].device.index, i);
    }
    for (int i = 0; i < 3; i++) { /* whatever device is current */
        acre_allocator_stats stats = {.struct_size = sizeof stats};
        acre_data_ptr_clear(&ptrs[i]);
        REQUIRE_OK(acre_allocator_stats_get(allocator, i, &stats));
        EXPECT_EQ(stats.allocated_bytes.current, 0);
        EXPECT_EQ(stats.allocated_bytes.freed, 1024);
    }
    acre_allocator_destroy(allocator);
    end();
}

TEST(it_serves_its_type_on_request_with_priority_one)
{
    acre_allocator *allocator, *other;
    bool replaced;

    begin();
    REQUIRE_OK(acre_device_allocator(TYPE, &allocator));
    EXPECT(!acre_allocator_get(TYPE));
    REQUIRE_OK(acre_plain_allocator_create(TYPE, &other));
    REQUIRE_OK(acre_allocator_set(TYPE, other, 0, NULL));
    REQUIRE_OK(acre_device_allocator_install(TYPE, &replaced));
    EXPECT(replaced);
    EXPECT_PTR_EQ(acre_allocator_get(TYPE), allocator);
    REQUIRE_OK(acre_allocator_set(TYPE, other, 0, &replaced));
    EXPECT(!replaced);
    REQUIRE_OK(acre_allocator_set(TYPE, other, 2, &replaced));
    EXPECT(replaced);
    REQUIRE_OK(acre_device_allocator_install(TYPE, &replaced));
    EXPECT(!replaced);
    acre_allocator_destroy(other);
    REQUIRE_OK(acre_device_allocator_install(TYPE, NULL));
    EXPECT_PTR_EQ(acre_allocator_get(TYPE), allocator);
    acre_allocator_destroy(allocator);
    EXPECT(!acre_allocator_get(TYPE));
    end();
}

TEST(after_its_end_there_is_a_new_one)
{
    acre_allocator *allocator = NULL;
    acre_data_ptr ptr;

    for (int round = 0; round < 2; round++) {
        begin();
        REQUIRE_OK(acre_device_allocator(TYPE, &allocator));
        REQUIRE_OK(acre_allocator_allocate(allocator, 1, &ptr));
        acre_data_ptr_clear(&ptr);
        EXPECT_GT(fake_bytes(fake), 0);
        REQUIRE_OK(acre_allocator_empty_cache(allocator));
        EXPECT_EQ(fake_bytes(fake), 0);
        acre_allocator_destroy(allocator);
        end();
    }
}

TEST(the_environment_decides)
{
    acre_allocator *allocator = NULL;

    begin();
    setenv("ACRE_CONF", "no_such_option:1", 1);
    EXPECT_EQ(acre_device_allocator(TYPE, &allocator), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "ACRE_CONF");
    EXPECT(!allocator);
    setenv("ACRE_CONF", "policy:torch", 1);
    REQUIRE_OK(acre_device_allocator(TYPE, &allocator));
    EXPECT_EQ(acre_cache_policy(acre_cache_of_allocator(allocator, 2)), ACRE_POLICY_TORCH);
    unsetenv("ACRE_CONF");
    acre_allocator_destroy(allocator);
    end();
}

TEST(bad_arguments_are_refused)
{
    acre_allocator *allocator = NULL;

    EXPECT_EQ(acre_device_allocator(TYPE, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_allocator((acre_device_type)-1, &allocator), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_allocator((acre_device_type)ACRE_DEVICE_TYPE_COUNT, &allocator),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_allocator(TYPE, &allocator), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_device_allocator_install(TYPE, NULL), ACRE_ERR_UNSUPPORTED);
    EXPECT(!allocator);
}

static pthread_barrier_t start_line;

static void *ask(void *arg)
{
    acre_data_ptr ptr;

    pthread_barrier_wait(&start_line);
    if (acre_device_allocator(TYPE, arg) == ACRE_OK &&
        acre_allocator_allocate(*(acre_allocator **)arg, 5000, &ptr) == ACRE_OK)
        acre_data_ptr_clear(&ptr);
    return NULL;
}

TEST(threads_that_ask_at_once_get_the_same)
{
    pthread_t threads[THREADS];
    acre_allocator *got[THREADS];

    for (uint64_t round = t_count(40, 400); round; round--) {
        begin();
        memset(got, 0, sizeof got);
        pthread_barrier_init(&start_line, NULL, THREADS);
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, ask, &got[i]);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&start_line);
        REQUIRE(got[0] != NULL);
        for (int i = 1; i < THREADS; i++)
            EXPECT_PTR_EQ(got[i], got[0]);
        acre_allocator_destroy(got[0]);
        end();
    }
}

T_MAIN()
