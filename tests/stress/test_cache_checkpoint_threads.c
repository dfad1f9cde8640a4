/* SPDX-License-Identifier: MIT */
/* A pool is saved and restored while other threads allocate and free, in the
 * shared pool and through blocks of that pool that they were given. */
#include "base/bits.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/pool.h>

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 3
#define GIFTS 8

static acre_cache *cache;
static acre_pool_id pool;
static _Atomic bool is_over;
static _Atomic(void *) gifts[GIFTS]; /* blocks of the pool that others shall free */
static _Atomic uint64_t failures;
static _Atomic uint64_t freed_count; /* gifts whose free has returned */
static uint64_t given_count;         /* by the thread that saves      */

static void *work(void *arg)
{
    uint64_t number = (uint64_t)(uintptr_t)arg, random = t_seed() + number;
    void *kept[16] = {NULL};

    while (!atomic_load(&is_over)) {
        uint64_t dice = t_random(&random);
        void **slot = &kept[dice % 16];
        if (*slot && acre_cache_free(cache, *slot) != ACRE_OK)
            atomic_fetch_add(&failures, 1);
        if (acre_cache_alloc(cache, 1 + dice / 16 % 8000, fake_stream((int)number), slot) !=
            ACRE_OK)
            atomic_fetch_add(&failures, 1);
        void *gift = atomic_exchange(&gifts[dice / 4096 % GIFTS], NULL);
        if (gift && acre_cache_free(cache, gift) != ACRE_OK)
            atomic_fetch_add(&failures, 1);
        if (gift)
            atomic_fetch_add(&freed_count, 1);
    }
    for (int i = 0; i < 16; i++)
        if (kept[i] && acre_cache_free(cache, kept[i]) != ACRE_OK)
            atomic_fetch_add(&failures, 1);
    return NULL;
}

static void *alloc_in_pool(size_t bytes)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_pool_begin(cache, pool, NULL));
    REQUIRE_OK(acre_cache_alloc(cache, bytes, NULL, &pointer));
    REQUIRE_OK(acre_pool_end(cache, pool));
    return pointer;
}

/* Divides the pool, saves, divides it otherwise, restores; then what is live is
 * freed, half of it by others. */
static void run_round(uint64_t round)
{
    void *blocks[4], *later[4];
    acre_pool_state *state = NULL;
    acre_pool_delta *delta = NULL;
    bool is_same = false;

    for (int i = 0; i < 4; i++)
        blocks[i] = alloc_in_pool((size_t)(i + 1) * 700 + round % 5000);
    REQUIRE_OK(acre_pool_save(cache, pool, &state));
    for (int i = 0; i < 4; i += 2)
        REQUIRE_OK(acre_cache_free(cache, blocks[i]));
    for (int i = 0; i < 4; i++)
        later[i] = alloc_in_pool(512 + round % 3000);
    acre_status status = acre_pool_restore(cache, state, &delta);
    REQUIRE_EQ(status, ACRE_OK);
    (void)later;
    EXPECT_EQ(delta->allocated_count, 4);
    REQUIRE_OK(acre_pool_check_live(cache, pool, blocks, 4, &is_same));
    EXPECT(is_same);
    acre_pool_delta_destroy(delta);
    acre_pool_state_destroy(state);
    for (int i = 0; i < 4; i++) {
        void *none = NULL;
        if (i % 2 || !atomic_compare_exchange_strong(&gifts[(unsigned)i % GIFTS], &none,
                                                     blocks[i]))
            REQUIRE_OK(acre_cache_free(cache, blocks[i]));
        else
            given_count++;
    }
    while (atomic_load(&freed_count) != given_count)
        sched_yield();
}

static void run(acre_policy policy)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    struct fake *fake = fake_create(&(struct fake_config){.completes_at_once = true});
    pthread_t threads[THREADS];

    atomic_store(&is_over, false);
    REQUIRE_OK(acre_cache_create(fake_device(fake, 0), &config, &cache));
    pool = acre_pool_id_next();
    REQUIRE_OK(acre_pool_create(cache, pool, NULL));
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (uint64_t round = 0; round < t_count(200, 20000 / t_slowness()); round++)
        run_round(round);
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(atomic_load(&failures), 0);
    REQUIRE_OK(acre_cache_check(cache));
    REQUIRE_OK(acre_pool_release(cache, pool));
    acre_cache_destroy(cache);
    EXPECT_EQ(fake_alloc_count(fake), 0);
    fake_destroy(fake);
}

TEST(torch)
{
    run(ACRE_POLICY_TORCH);
}

TEST(acre)
{
    run(ACRE_POLICY_ACRE);
}

T_MAIN()
