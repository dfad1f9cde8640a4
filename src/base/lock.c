/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include "base/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if ACRE_CHECK >= 1
/* Locks this thread holds, lowest rank first. */
static _Thread_local const struct lock *held[RANK_LEAF + 1];
static _Thread_local int held_count;

static void held_push(const struct lock *lock)
{
    if (held_count > 0 && held[held_count - 1]->rank >= lock->rank) {
        fprintf(stderr, "acre: lock \"%s\" (rank %d) taken while holding \"%s\" (rank %d)\n",
                lock->name, lock->rank, held[held_count - 1]->name,
                held[held_count - 1]->rank);
        abort();
    }
    held[held_count++] = lock;
}

static void held_pop(const struct lock *lock)
{
    int i = held_count - 1;

    while (i >= 0 && held[i] != lock)
        i--;
    CHECK(i >= 0);
    for (held_count--; i < held_count; i++)
        held[i] = held[i + 1];
}

int lock_held_any(void)
{
    return held_count > 0;
}
#else
static void held_push(const struct lock *lock)
{
    (void)lock;
}

static void held_pop(const struct lock *lock)
{
    (void)lock;
}

int lock_held_any(void)
{
    return 0;
}
#endif

void lock_init(struct lock *lock, enum lock_rank rank, const char *name)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
    lock->name = name;
}

void lock_fini(struct lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

void lock_take(struct lock *lock)
{
    held_push(lock);
    pthread_mutex_lock(&lock->mutex);
}

void lock_drop(struct lock *lock)
{
    held_pop(lock);
    pthread_mutex_unlock(&lock->mutex);
}

void lock_wait(struct lock *lock, pthread_cond_t *condition)
{
    held_pop(lock);
    pthread_cond_wait(condition, &lock->mutex);
    held_push(lock);
}

int lock_wait_ns(struct lock *lock, pthread_cond_t *condition, long long ns)
{
    struct timespec until;
    int code;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    held_pop(lock);
    code = pthread_cond_timedwait(condition, &lock->mutex, &until);
    held_push(lock);
    return code == ETIMEDOUT ? ETIMEDOUT : 0;
}

void lock_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
