/* SPDX-License-Identifier: MIT */
#include "base/quick_lock.h"

#include "tests/support/t.h"

#include <pthread.h>

#define THREADS 4

static struct quick_lock quick;
static uint64_t counter; /* guarded by quick */
static uint64_t rounds;

static void *count_up(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < rounds; i++) {
        quick_lock_take(&quick);
        counter++;
        quick_lock_drop(&quick);
    }
    return NULL;
}

TEST(one_thread_at_a_time)
{
    pthread_t threads[THREADS];

    quick_lock_init(&quick, RANK_CACHE, "quick");
    counter = 0;
    rounds = t_count(100000, 5000000);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, count_up, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(counter, THREADS * rounds);
    EXPECT_EQ(atomic_load(&quick.state), 0);
}

static void *take_and_drop(void *arg)
{
    quick_lock_take(&quick);
    *(int *)arg = 1;
    quick_lock_drop(&quick);
    return NULL;
}

TEST(a_sleeper_is_woken)
{
    pthread_t thread;
    int was_in = 0;

    quick_lock_init(&quick, RANK_CACHE, "quick");
    quick_lock_take(&quick);
    REQUIRE(pthread_create(&thread, NULL, take_and_drop, &was_in) == 0);
    while (atomic_load(&quick.state) != 2) /* until it is about to sleep */
        sched_yield();
    EXPECT_EQ(was_in, 0);
    quick_lock_drop(&quick);
    pthread_join(thread, NULL);
    EXPECT_EQ(was_in, 1);
}

#if ACRE_CHECK >= 1
static void take_in_wrong_order(void *arg)
{
    struct lock other;

    (void)arg;
    lock_init(&other, RANK_REGISTRY, "other");
    quick_lock_init(&quick, RANK_CACHE, "quick");
    if (!freopen("/dev/null", "w", stderr))
        return;
    quick_lock_take(&quick);
    lock_take(&other);
}

TEST(ranks_count_together_with_other_locks)
{
    int status = t_child(take_in_wrong_order, NULL);

    EXPECT(status != 0);
    quick_lock_init(&quick, RANK_CACHE, "quick");
    EXPECT(!lock_held_any());
    quick_lock_take(&quick);
    EXPECT(lock_held_any());
    quick_lock_drop(&quick);
    EXPECT(!lock_held_any());
}
#endif

T_MAIN()
