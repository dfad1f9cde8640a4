/* SPDX-License-Identifier: MIT */
#include "cache/cache.h"

#include "cache/fork.h"

#include "backend/backend.h"
#include "cache/threads/front.h"
#include "cache/threads/lane.h"

static struct lock caches_lock = LOCK_INITIALIZER(RANK_LEAF, "caches of the process");
static struct list caches = LIST_INITIALIZER(caches); /* by caches_lock */

FORK_GUARD(caches_lock);

#define FOR_EACH_CACHE(cache)                                                                      \
    LIST_FOR_EACH(link_, &caches)                                                                  \
        for (acre_cache *cache = CONTAINER_OF(link_, acre_cache, fork_link); cache; cache = NULL)

static void fork_prepare(void)
{
    FOR_EACH_CACHE(cache)
    if (cache->facts.has_lanes)
        front_stop_locked(cache->front);
}

static void fork_parent(void)
{
    FOR_EACH_CACHE(cache)
    if (cache->facts.has_lanes)
        front_go_locked(cache->front);
}

static void fork_child(void)
{
    threads_forget_others();
    FOR_EACH_CACHE(cache)
    if (cache->facts.has_lanes && cache_fork_refuse(cache) != ACRE_OK)
        front_abandon_locked(cache);
}

FORK_HANDLER(cache_fork, fork_prepare, fork_parent, fork_child);

void cache_fork_join(acre_cache *cache)
{
    cache->fork_generation = fork_generation();
    fork_guard_quick(&cache->fork_guard, &cache->lock, NULL);
    lock_take(&caches_lock);
    list_push_back(&caches, &cache->fork_link);
    lock_drop(&caches_lock);
}

void cache_fork_leave(acre_cache *cache)
{
    lock_take(&caches_lock);
    list_remove(&cache->fork_link);
    lock_drop(&caches_lock);
    fork_guard_end(&cache->fork_guard);
}

acre_status cache_fork_refuse(const acre_cache *cache)
{
    return backend_check_fork(cache->device->backend);
}
