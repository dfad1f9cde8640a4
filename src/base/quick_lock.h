/* SPDX-License-Identifier: MIT */
/* A mutex with a rank, for locks taken millions of times a second.
 *
 * Taking and dropping it uncontended is one atomic instruction each, inlined. There
 * are no conditions to wait for; struct lock has those. Ranks are checked
 * together with those of struct lock.
 *
 *   state  0  free
 *          1  held, nobody waits
 *          2  held, somebody may wait in the kernel
 */
#ifndef SRC_BASE_QUICK_LOCK_H
#define SRC_BASE_QUICK_LOCK_H

#include "base/check.h"
#include "base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct quick_lock {
    _Atomic uint32_t state;
    struct lock_mark mark;
};

static inline void quick_lock_init(struct quick_lock *lock, enum lock_rank rank,
                                   const char *name)
{
    atomic_init(&lock->state, 0);
    lock->mark = (struct lock_mark){rank, name};
}

void quick_lock_take_slow(struct quick_lock *lock);
/* Drops it after quick_lock_drop_quietly has not, and wakes one that waits. */
void quick_lock_wake(struct quick_lock *lock);

static inline void quick_lock_take(struct quick_lock *lock)
{
    uint32_t seen = 0;

#if ACRE_CHECK >= 1
    lock_mark_push(&lock->mark);
#endif
    if (UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->state, &seen, 1, memory_order_acquire, memory_order_relaxed)))
        quick_lock_take_slow(lock);
}

/* Takes it if nobody has it; for paths that leave what is rare to others. */
static inline bool quick_lock_try(struct quick_lock *lock)
{
    uint32_t seen = 0;

    if (UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->state, &seen, 1, memory_order_acquire, memory_order_relaxed)))
        return false;
#if ACRE_CHECK >= 1
    lock_mark_push(&lock->mark);
#endif
    return true;
}

/* Drops it if nobody waits. True: somebody may, it is still held, and quick_lock_wake drops it. */
static inline bool quick_lock_drop_quietly(struct quick_lock *lock)
{
#if ACRE_CHECK >= 1
    lock_mark_pop(&lock->mark);
#endif
    return atomic_fetch_sub_explicit(&lock->state, 1, memory_order_release) != 1;
}

static inline void quick_lock_drop(struct quick_lock *lock)
{
    if (UNLIKELY(quick_lock_drop_quietly(lock)))
        quick_lock_wake(lock);
}

#endif
