/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include "base/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if ACRE_CHECK >= 1
/* Locks this thread holds, lowest rank first. */
static _Thread_local const struct lock_mark *held[RANK_LEAF + 1];
static _Thread_local int held_count;

void lock_mark_push(const struct lock_mark *mark)
{
    if (held_count > 0 && held[held_count - 1]->rank >= mark->rank) {
        fprintf(stderr, "acre: lock \"%s\" (rank %d) taken while holding \"%s\" (rank %d)\n",
                mark->name, mark->rank, held[held_count - 1]->name, held[held_count - 1]->rank);
        abort();
    }
    held[held_count++] = mark;
}

void lock_mark_pop(const struct lock_mark *mark)
{
    int i = held_count - 1;

    while (i >= 0 && held[i] != mark)
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
void lock_mark_push(const struct lock_mark *mark)
{
    (void)mark;
}

void lock_mark_pop(const struct lock_mark *mark)
{
    (void)mark;
}

int lock_held_any(void)
{
    return 0;
}
#endif

void lock_init(struct lock *lock, enum lock_rank rank, const char *name)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->mark = (struct lock_mark){rank, name};
}

void lock_fini(struct lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

void lock_take(struct lock *lock)
{
    lock_mark_push(&lock->mark);
    pthread_mutex_lock(&lock->mutex);
}

void lock_drop(struct lock *lock)
{
    lock_mark_pop(&lock->mark);
    pthread_mutex_unlock(&lock->mutex);
}

void lock_wait(struct lock *lock, pthread_cond_t *condition)
{
    lock_mark_pop(&lock->mark);
    pthread_cond_wait(condition, &lock->mutex);
    lock_mark_push(&lock->mark);
}

int lock_wait_ns(struct lock *lock, pthread_cond_t *condition, long long ns)
{
    struct timespec until;
    int code;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    lock_mark_pop(&lock->mark);
    code = pthread_cond_timedwait(condition, &lock->mutex, &until);
    lock_mark_push(&lock->mark);
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
