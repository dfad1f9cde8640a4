/* SPDX-License-Identifier: MIT */
/* The contended half: a short spin, then sleep in the kernel. */
#include "base/quick_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at the lock before sleeping; holders are short. */
#define SPIN_COUNT 100

static inline void quick_lock_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

void quick_lock_take_slow(struct quick_lock *lock)
{
    for (int i = 0; i < SPIN_COUNT; i++) {
        uint32_t seen = 0;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(&lock->state, &seen, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
        quick_lock_relax();
    }
    /* From here on the lock is taken as 2: the holder will wake somebody. */
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void quick_lock_wake(struct quick_lock *lock)
{
    atomic_store_explicit(&lock->state, 0, memory_order_release);
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
