/* SPDX-License-Identifier: MIT */
/* Threads that allocate in turn exactly at the peak do not stop each other each time. */
#include "cache/threads/account.h"

#include "tests/support/lab.h"

#include <acre/history.h>

#include <pthread.h>

enum { ROUNDS = 2000 };

static struct lab shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static bool is_asking; /* for statistics, after every third turn */

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
        if (is_asking && i % 3 == 0)
            lab_stats(&shared);
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

static void check_turns(void)
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

TEST(turns_at_the_peak_stop_threads_now_and_then_only)
{
    check_turns();
}

/* Sums begin anew whenever somebody asks; a stop soon after the last is told all the same. */
TEST(turns_do_so_too_while_somebody_asks_for_statistics)
{
    is_asking = true;
    check_turns();
    is_asking = false;
}

/* Lets the lanes rest for a number of allocations. */
static void let_rest(uint32_t count)
{
    quick_lock_take(&shared.cache->lock);
    front_stop_locked(shared.cache->front);
    front_collect_locked(shared.cache->front);
    front_rest_locked(shared.cache->front, count);
    quick_lock_drop(&shared.cache->lock);
}

/* A rest ends by itself, and what happens meanwhile works as ever. */
TEST(a_rest_ends_after_its_allocations)
{
    struct front *front;

    open_shared();
    front = shared.cache->front;
    lab_free(&shared, lab_alloc(&shared, 512));
    let_rest(5);
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

/* How many small blocks the lane at hand keeps. */
static int64_t kept_count(void)
{
    int64_t count[CREDIT_CLASSES] = {0};

    lane_count(lane_current, count);
    return count[CREDIT_SMALL];
}

/* What is freed meanwhile stays with the thread, is counted as free, and refused a second time. */
TEST(a_block_freed_in_a_rest_stays_at_hand)
{
    open_shared();
    void *block = lab_alloc(&shared, 512);
    let_rest(100);
    lab_free(&shared, block);
    EXPECT_EQ(kept_count(), 1);
    EXPECT_EQ(CURRENT(&shared, allocated_bytes), 0);
    EXPECT_EQ(acre_cache_free(shared.cache, block), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(lab_alloc(&shared, 512), block);
    EXPECT_EQ(CURRENT(&shared, allocated_bytes), 512);
    lab_free(&shared, block);
    EXPECT_EQ(acre_cache_empty(shared.cache), ACRE_OK);
    EXPECT_EQ(CURRENT(&shared, reserved_bytes), 0);
    lab_close(&shared);
}

/* With caching switched off nothing stays. */
TEST(a_block_freed_in_a_rest_goes_back_when_caching_is_off)
{
    open_shared();
    void *block = lab_alloc(&shared, 512);
    let_rest(100);
    acre_cache_enable(shared.cache, false);
    lab_free(&shared, block);
    EXPECT_EQ(kept_count(), 0);
    EXPECT_EQ(CURRENT(&shared, allocated_bytes), 0);
    EXPECT_EQ(acre_cache_empty(shared.cache), ACRE_OK);
    EXPECT_EQ(CURRENT(&shared, reserved_bytes), 0);
    acre_cache_enable(shared.cache, true);
    lab_close(&shared);
}

/* A history has what is freed and allocated meanwhile. */
TEST(a_rest_leaves_nothing_out_of_the_history)
{
    acre_history_config config = {.struct_size = sizeof config, .max_entries = 100};
    acre_history *history;

    open_shared();
    void *block = lab_alloc(&shared, 512);
    let_rest(100);
    EXPECT_EQ(acre_cache_history_start(shared.cache, &config), ACRE_OK);
    lab_free(&shared, block);
    lab_free(&shared, lab_alloc(&shared, 512));
    EXPECT_EQ(acre_cache_history_create(shared.cache, &history), ACRE_OK);
    /* Frees are asked for, then done. */
    EXPECT_EQ(history->entry_count, 5);
    acre_history_destroy(history);
    lab_close(&shared);
}

T_MAIN()
