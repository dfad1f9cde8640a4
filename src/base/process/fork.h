/* SPDX-License-Identifier: MIT */
/* What a process does around fork: one registry for the whole library.
 *
 * Only the thread that calls fork exists in the child. A lock that another thread held at that
 * moment would never be dropped there, and what it guards might be half changed. So:
 *
 *   before     every guarded lock is taken, in the order of ranks; then the handlers' prepare
 *   parent     the handlers' parent, last one first; the locks are dropped
 *   child      the generation grows; the handlers' child, the guards' child; the locks are dropped;
 *              the handlers' after, which may take locks
 *
 * Guarded locks are those that are held for short. Locks that may be held while another process
 * is waited for (groups, teams, stores) are not: a fork must not wait for them, and what they guard
 * is of no use in a child.
 *
 * Taking is by trying: a thread that holds a lock may need the registry itself, to add or end a
 * guard, so a round that gets stuck gives everything back and begins again.
 *
 * Handlers and guards of static locks are registered by constructors (FORK_GUARD, FORK_HANDLER),
 * before anybody can fork.
 */
#ifndef SRC_BASE_FORK_H
#define SRC_BASE_FORK_H

#include "base/list.h"
#include "base/lock.h"
#include "base/quick_lock.h"

/* A lock that is taken around fork. One of the two. */
struct fork_guard {
    struct list link; /* by rank */
    struct lock *lock;
    struct quick_lock *quick;
    void (*child)(struct fork_guard *guard); /* in a child, with the lock held; or NULL */
};

/* What else happens, with all guarded locks held but for the last; any may be NULL. */
struct fork_handler {
    struct list link;
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
    void (*after)(void); /* in the child, with the locks dropped */
};

/* Guards a lock until fork_guard_end, which comes before the lock ends. */
void fork_guard_lock(struct fork_guard *guard, struct lock *lock);
void fork_guard_quick(struct fork_guard *guard, struct quick_lock *lock,
                      void (*child)(struct fork_guard *guard));
void fork_guard_end(struct fork_guard *guard);

void fork_handler_add(struct fork_handler *handler);

/* Grows by one in every child of fork. */
extern __attribute__((visibility("hidden"))) _Atomic unsigned fork_children;
static inline unsigned fork_generation(void)
{
    return atomic_load_explicit(&fork_children, memory_order_relaxed);
}

/* Guards a static struct lock. */
#define FORK_GUARD(name)                                                       \
    static struct fork_guard name##_guard;                                     \
    __attribute__((constructor)) static void name##_guard_begin(void)          \
    {                                                                          \
        fork_guard_lock(&name##_guard, &name);                                 \
    }                                                                          \
    _Static_assert(1, "")

/* Registers functions prepare, parent and child, or NULL. */
#define FORK_HANDLER(name, prepare_fn, parent_fn, child_fn)                    \
    FORK_HANDLER_OF(name, .prepare = prepare_fn, .parent = parent_fn, .child = child_fn)
/* Registers some of the functions, by their members. */
#define FORK_HANDLER_OF(name, ...)                                             \
    static struct fork_handler name = {__VA_ARGS__};                           \
    __attribute__((constructor)) static void name##_begin(void)                \
    {                                                                          \
        fork_handler_add(&name);                                               \
    }                                                                          \
    _Static_assert(1, "")

#endif
