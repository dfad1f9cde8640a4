/* SPDX-License-Identifier: MIT */
/* The registry of fork: guarded locks are free in a child, whoever held them. */
#include "base/process/fork.h"

#include "base/log.h"

#include "tests/support/t.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lock low, high;
static struct quick_lock quick;
static struct fork_guard low_guard, high_guard, quick_guard;
static _Atomic int is_over;
static int pair[2]; /* equal whenever low is free */
static int told; /* children that the guard of quick was told of */

/* Holds locks most of the time, and changes the registry while it holds one. */
static void *hold(void *arg)
{
    struct lock own;
    struct fork_guard own_guard;

    (void)arg;
    while (!is_over) {
        lock_take(&low);
        pair[0]++;
        quick_lock_take(&quick);
        lock_init(&own, RANK_LEAF, "own");
        fork_guard_lock(&own_guard, &own);
        quick_lock_drop(&quick);
        lock_take(&high);
        lock_drop(&high);
        fork_guard_end(&own_guard);
        lock_fini(&own);
        pair[1]++;
        lock_drop(&low);
    }
    return NULL;
}

/* A guard hears of a child while its lock is held. */
static void quick_child(struct fork_guard *guard)
{
    EXPECT_PTR_EQ(guard, &quick_guard);
    EXPECT(!quick_lock_try(&quick));
    told++;
}

static void child(void *arg)
{
    unsigned before = *(unsigned *)arg;

    alarm(20);
    EXPECT_EQ(fork_generation(), before + 1);
    EXPECT_EQ(told, 1);
    lock_take(&low);
    EXPECT_EQ(pair[0], pair[1]);
    quick_lock_take(&quick);
    quick_lock_drop(&quick);
    lock_take(&high);
    lock_drop(&high);
    lock_drop(&low);
}

TEST(a_child_finds_guarded_locks_free)
{
    pthread_t threads[2];
    unsigned before = fork_generation();

    lock_init(&low, RANK_REGISTRY, "low");
    lock_init(&high, RANK_GENERATOR, "high");
    quick_lock_init(&quick, RANK_CACHE, "quick");
    fork_guard_lock(&high_guard, &high);
    fork_guard_quick(&quick_guard, &quick, quick_child);
    fork_guard_lock(&low_guard, &low);
    is_over = 0;
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, hold, NULL) == 0);
    for (uint64_t i = 0; i < t_count(100, 2000); i++) {
        int status = t_child(child, &before);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fork_guard_end(&low_guard);
    fork_guard_end(&high_guard);
    fork_guard_end(&quick_guard);
    fork_guard_end(&quick_guard); /* twice is harmless */
    EXPECT_EQ(told, 0);
    EXPECT_EQ(fork_generation(), before);
}

/* ---- Locks of the library that anybody may need ------------------------------------------ */

static void hear(void *arg, acre_log_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

/* Sets the function of the log, again and again. */
static void *set_log(void *arg)
{
    while (!is_over)
        acre_log_set(hear, arg, ACRE_LOG_ERROR);
    return NULL;
}

static void child_logs(void *arg)
{
    (void)arg;
    alarm(20);
    log_line(ACRE_LOG_ERROR, "the child is there");
}

TEST(a_child_finds_the_log_free)
{
    pthread_t threads[2];

    is_over = 0;
    acre_log_set(hear, NULL, ACRE_LOG_ERROR);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, set_log, NULL) == 0);
    for (uint64_t i = 0, hung = 0; i < t_count(100, 2000) && !hung; i++) {
        hung = t_child(child_logs, NULL) != 0;
        EXPECT(!hung);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    acre_log_set(NULL, NULL, ACRE_LOG_ERROR);
}

T_MAIN()
