/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include "tests/support/t.h"

#include <acre/base.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static struct lock outer = LOCK_INITIALIZER(RANK_REGISTRY, "outer");
static struct lock inner = LOCK_INITIALIZER(RANK_CACHE, "inner");
static struct lock twin = LOCK_INITIALIZER(RANK_CACHE, "twin");
static int counter;

TEST(increasing_ranks_nest_and_drop_in_any_order)
{
    lock_take(&outer);
    lock_take(&inner);
    EXPECT_EQ(lock_held_any(), ACRE_CHECK >= 1);
    lock_drop(&outer);
    lock_drop(&inner);
    EXPECT_EQ(lock_held_any(), 0);
    lock_take(&inner);
    lock_drop(&inner);
}

static void wrong_order(void *arg)
{
    (void)arg;
    freopen("/dev/null", "w", stderr);
    lock_take(&inner);
    lock_take(&outer);
}

static void same_rank(void *arg)
{
    (void)arg;
    freopen("/dev/null", "w", stderr);
    lock_take(&inner);
    lock_take(&twin);
}

TEST(wrong_order_and_equal_ranks_abort)
{
    if (ACRE_CHECK < 1)
        T_SKIP("ranks are checked from ACRE_CHECK=1 on");
    int status = t_child(wrong_order, NULL);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = t_child(same_rank, NULL);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void *count_up(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        lock_take(&inner);
        counter++;
        lock_drop(&inner);
    }
    return arg;
}

TEST(a_lock_excludes_other_threads)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, count_up, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(counter, 80000);
}

struct signal {
    struct lock lock;
    pthread_cond_t condition;
    int is_set;
};

static void *set_signal(void *arg)
{
    struct signal *s = arg;

    lock_take(&s->lock);
    s->is_set = 1;
    pthread_cond_broadcast(&s->condition);
    lock_drop(&s->lock);
    return NULL;
}

TEST(waiting_drops_the_lock)
{
    struct signal s = {.is_set = 0};
    pthread_t thread;

    lock_init(&s.lock, RANK_STREAM, "signal");
    lock_condition_init(&s.condition);
    lock_take(&s.lock);
    EXPECT_EQ(lock_wait_ns(&s.lock, &s.condition, 1000), ETIMEDOUT);
    pthread_create(&thread, NULL, set_signal, &s);
    while (!s.is_set)
        lock_wait(&s.lock, &s.condition);
    pthread_join(thread, NULL);
    s.is_set = 0;
    pthread_create(&thread, NULL, set_signal, &s);
    while (!s.is_set)
        EXPECT_EQ(lock_wait_ns(&s.lock, &s.condition, 60000000000), 0);
    lock_drop(&s.lock);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&s.condition);
    lock_fini(&s.lock);
    EXPECT_EQ(lock_held_any(), 0);
}

T_MAIN()
