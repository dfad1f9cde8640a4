/* SPDX-License-Identifier: MIT */
/* Heaps in the child of a fork: every lock is taken before the fork and dropped after, in
 * parent and child, so that the child finds no heap or cache in the middle of a change. What
 * lost threads kept in magazines goes back to the slabs. */
#include "hostmem/heap.h"
#include "hostmem/inside.h"

#include <pthread.h>

static void fork_prepare(void)
{
    pthread_mutex_lock(&idle_trim_lock.mutex);
    pthread_mutex_lock(&heaps_lock.mutex);
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++)
        if (heaps[i])
            pthread_mutex_lock(&heaps[i]->lock.mutex);
    inside_fork_begin();
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++)
        if (heaps[i])
            inside_fork_stop(heaps[i]->cache);
}

static void fork_parent(void)
{
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++)
        if (heaps[i])
            inside_fork_go(heaps[i]->cache);
    inside_fork_end();
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++)
        if (heaps[i])
            pthread_mutex_unlock(&heaps[i]->lock.mutex);
    pthread_mutex_unlock(&heaps_lock.mutex);
    pthread_mutex_unlock(&idle_trim_lock.mutex);
}

static void fork_child(void)
{
    fork_parent();
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++) {
        if (!heaps[i])
            continue;
        magazines_adopt(heaps[i]);
        idle_orphan(&heaps[i]->idle, !(heaps[i]->flags & ACRE_HOSTMEM_NO_THREAD));
    }
}

static void watch_once(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void fork_watch_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_once);
}
