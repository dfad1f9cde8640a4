/* SPDX-License-Identifier: MIT */
/* Threads that allocate in turn exactly at the peak do not stop each other each time. */
#include "cache/threads/account.h"

#include "tests/support/lab.h"

#include <pthread.h>

enum { ROUNDS = 2000 };

static struct lab shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

/* Allocates and frees one block whenever it is this thread's turn. */
static void *take_turns(void *arg)
{
    int number = *(int *)arg;

    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != number)
            pthread_cond_wait(&changed, &mutex);
        void *block = lab_alloc_on(&shared, 4096, number);
        lab_free(&shared, block);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void run_turns(void)
{
    pthread_t threads[2];
    int numbers[] = {0, 1};

    turn = 0;
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, take_turns, &numbers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void open_shared(void)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE};

    lab_open_with(&shared, NULL, &config);
}

TEST(turns_at_the_peak_stop_threads_now_and_then_only)
{
    open_shared();
    run_turns();
    EXPECT_LT(shared.cache->front->stop_count, ROUNDS / 20);
    EXPECT_EQ(lab_stats(&shared)->allocation.all.peak, 1);
    EXPECT_EQ(shared.stats.allocated_bytes.all.peak, 4096);
    EXPECT_EQ(shared.stats.allocation.all.allocated, 2 * ROUNDS);
    EXPECT_EQ(shared.stats.allocation.all.freed, 2 * ROUNDS);
    EXPECT_EQ(shared.stats.allocation.all.current, 0);
    lab_close(&shared);
}

/* A rest ends by itself, and what happens meanwhile works as ever. */
TEST(a_rest_ends_after_its_allocations)
{
    struct front *front;

    open_shared();
    front = shared.cache->front;
    lab_free(&shared, lab_alloc(&shared, 512));
    quick_lock_take(&shared.cache->lock);
    front_stop_locked(front);
    front_rest_locked(front, 5);
    quick_lock_drop(&shared.cache->lock);
    void *kept = lab_alloc(&shared, 700);
    EXPECT_EQ(front->rest, 4);
    EXPECT_EQ(CURRENT(&shared, allocated_bytes), 1024);
    EXPECT_EQ(lab_stats(&shared)->requested_bytes.all.peak, 700);
    for (int i = 0; i < 4; i++)
        lab_free(&shared, lab_alloc(&shared, 512));
    EXPECT_EQ(front->rest, 0);
    for (int i = 0; i < 100; i++) /* lanes serve again */
        lab_free(&shared, lab_alloc(&shared, 512));
    lab_free(&shared, kept);
    EXPECT_EQ(CURRENT(&shared, allocation), 0);
    EXPECT_EQ(lab_stats(&shared)->allocation.all.peak, 2);
    EXPECT_EQ(shared.stats.allocation.all.allocated, 106);
    lab_close(&shared);
}

T_MAIN()
