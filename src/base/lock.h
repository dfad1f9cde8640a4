/* SPDX-License-Identifier: MIT */
/* Mutexes with ranks. A thread takes locks in increasing rank, never two of the
 * same rank; with ACRE_CHECK >= 1 a violation aborts and names both. */
#ifndef SRC_BASE_LOCK_H
#define SRC_BASE_LOCK_H

#include <pthread.h>

enum lock_rank {
    RANK_START = 1,    /* starting a built-in backend               */
    RANK_REGISTRY,     /* backends, current allocators              */
    RANK_OPENED,       /* memory of other processes that is open    */
    RANK_GROUP,        /* one per symmetric-memory group            */
    RANK_PLAN,         /* one per planner                           */
    RANK_FILE,         /* one per file of device memory             */
    RANK_HEAPS,        /* heaps of host memory                      */
    RANK_HEAP,         /* one per heap of host memory               */
    RANK_THREADS,      /* threads that keep free blocks             */
    RANK_CACHE,        /* one per cache                             */
    RANK_SERVICE,      /* starting and ending the service of sharing */
    RANK_SERVICE_OFFERS, /* what is offered to other processes      */
    RANK_ALLOCATOR,    /* tables of plain allocators                */
    RANK_GENERATOR,    /* state of a random generator               */
    RANK_RUNTIME,      /* stream pools and peers of a backend       */
    RANK_DEVICE,       /* memory of a simulated backend             */
    RANK_GRAPH,        /* captures of a simulated backend           */
    RANK_EVENT,        /* an event or graph of a simulated backend  */
    RANK_STREAM,       /* a stream of a simulated backend           */
    RANK_WORKER,       /* threads of a simulated backend            */
    RANK_LEAF          /* takes nothing after                       */
};

/* What ranks are checked by. */
struct lock_mark {
    enum lock_rank rank;
    const char *name; /* for the message of a violation; not owned */
};

struct lock {
    pthread_mutex_t mutex;
    struct lock_mark mark;
};

#define LOCK_INITIALIZER(rank, name) {PTHREAD_MUTEX_INITIALIZER, {rank, name}}

void lock_init(struct lock *lock, enum lock_rank rank, const char *name);
void lock_fini(struct lock *lock);
void lock_take(struct lock *lock);
void lock_drop(struct lock *lock);

/* Waits for condition with the lock dropped meanwhile. */
void lock_wait(struct lock *lock, pthread_cond_t *condition);
/* Waits for at most the given time; 0 when woken, ETIMEDOUT otherwise. The
 * condition must use CLOCK_MONOTONIC (lock_condition_init). */
int lock_wait_ns(struct lock *lock, pthread_cond_t *condition, long long ns);
void lock_condition_init(pthread_cond_t *condition);

/* Whether this thread holds any ranked lock; always 0 without checks. */
int lock_held_any(void);

/* For other kinds of lock: notes that this thread takes or dropped one. Nothing
 * without checks. */
void lock_mark_push(const struct lock_mark *mark);
void lock_mark_pop(const struct lock_mark *mark);

#endif
