/* SPDX-License-Identifier: MIT */
#include "base/process/fork.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#define TRY_COUNT      2000  /* before a round is given up   */
#define ROUND_PAUSE_NS 50000 /* between two rounds           */

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER; /* of both lists          */
static struct list guards = LIST_INITIALIZER(guards);        /* lowest rank first      */
static struct list handlers = LIST_INITIALIZER(handlers);    /* oldest first           */
static bool is_watching;                                     /* pthread_atfork is done */
_Atomic unsigned fork_children;

/* Locks are taken here without their marks: several of one rank are, and the thread that forks
 * holds none by any other way. */
static bool guard_try(const struct fork_guard *guard)
{
    uint32_t seen = 0;

    if (guard->lock)
        return pthread_mutex_trylock(&guard->lock->mutex) == 0;
    return atomic_compare_exchange_strong_explicit(&guard->quick->state, &seen, 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

static void guard_drop(const struct fork_guard *guard)
{
    if (guard->lock)
        pthread_mutex_unlock(&guard->lock->mutex);
    else if (atomic_fetch_sub_explicit(&guard->quick->state, 1, memory_order_release) != 1)
        quick_lock_wake(guard->quick);
}

/* Drops the guarded locks before one in the list; all for the head of the list. */
static void guards_drop(const struct list *end)
{
    for (const struct list *link = end->prev; link != &guards; link = link->prev)
        guard_drop(CONTAINER_OF(link, struct fork_guard, link));
}

/* Takes all of them, or none. */
static bool guards_take(void)
{
    LIST_FOR_EACH(link, &guards) {
        const struct fork_guard *guard = CONTAINER_OF(link, struct fork_guard, link);
        int tries = 0;

        while (!guard_try(guard)) {
            if (++tries == TRY_COUNT) {
                guards_drop(link);
                return false;
            }
            sched_yield();
        }
    }
    return true;
}

static void fork_prepare(void)
{
    const struct timespec pause = {.tv_nsec = ROUND_PAUSE_NS};

    for (;;) {
        pthread_mutex_lock(&registry);
        if (guards_take())
            break;
        pthread_mutex_unlock(&registry);
        nanosleep(&pause, NULL);
    }
    LIST_FOR_EACH(link, &handlers) {
        const struct fork_handler *handler = CONTAINER_OF(link, struct fork_handler, link);
        if (handler->prepare)
            handler->prepare();
    }
}

static void fork_parent(void)
{
    for (const struct list *link = handlers.prev; link != &handlers; link = link->prev) {
        const struct fork_handler *handler = CONTAINER_OF(link, struct fork_handler, link);
        if (handler->parent)
            handler->parent();
    }
    guards_drop(&guards);
    pthread_mutex_unlock(&registry);
}

static void fork_child(void)
{
    atomic_fetch_add_explicit(&fork_children, 1, memory_order_relaxed);
    LIST_FOR_EACH(link, &handlers) {
        const struct fork_handler *handler = CONTAINER_OF(link, struct fork_handler, link);
        if (handler->child)
            handler->child();
    }
    LIST_FOR_EACH(link, &guards) {
        struct fork_guard *guard = CONTAINER_OF(link, struct fork_guard, link);
        if (guard->child)
            guard->child(guard);
    }
    guards_drop(&guards);
    pthread_mutex_unlock(&registry);
    LIST_FOR_EACH(link, &handlers) {
        const struct fork_handler *handler = CONTAINER_OF(link, struct fork_handler, link);
        if (handler->after)
            handler->after();
    }
}

/* Tells the C library once; without memory for that, which a process that just starts has, a
 * child is on its own. */
static void registry_watch(void)
{
    if (!is_watching)
        is_watching = pthread_atfork(fork_prepare, fork_parent, fork_child) == 0;
}

static enum lock_rank guard_rank(const struct fork_guard *guard)
{
    return guard->lock ? guard->lock->mark.rank : guard->quick->mark.rank;
}

static void guard_add(struct fork_guard *guard)
{
    struct list *at = guards.prev;

    pthread_mutex_lock(&registry);
    registry_watch();
    for (at = guards.prev; at != &guards; at = at->prev)
        if (guard_rank(CONTAINER_OF(at, struct fork_guard, link)) <= guard_rank(guard))
            break;
    list_push_front(at, &guard->link);
    pthread_mutex_unlock(&registry);
}

void fork_guard_lock(struct fork_guard *guard, struct lock *lock)
{
    *guard = (struct fork_guard){.lock = lock};
    guard_add(guard);
}

void fork_guard_quick(struct fork_guard *guard, struct quick_lock *lock,
                      void (*child)(struct fork_guard *guard))
{
    *guard = (struct fork_guard){.quick = lock, .child = child};
    guard_add(guard);
}

void fork_guard_end(struct fork_guard *guard)
{
    if (!guard->lock && !guard->quick)
        return;
    pthread_mutex_lock(&registry);
    list_remove(&guard->link);
    pthread_mutex_unlock(&registry);
    *guard = (struct fork_guard){.lock = NULL};
}

void fork_handler_add(struct fork_handler *handler)
{
    pthread_mutex_lock(&registry);
    registry_watch();
    list_push_back(&handlers, &handler->link);
    pthread_mutex_unlock(&registry);
}
