/* SPDX-License-Identifier: MIT */
/* Private pools of a cache: their life, their scopes, which of them serves a
 * request, and the public calls about them. */
#include "cache/pools/pools.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "cache/cache.h"
#include "cache/fork.h"
#include "cache/acre/stitch.h"
#include "cache/pools/capture.h"
#include "cache/pools/sleep.h"
#include "cache/reclaim.h"
#include "cache/threads/front.h"
#include "cache/size.h"

#include <string.h>

/* For messages. */
#define ID_FORMAT   "(%llu, %llu)"
#define ID_ARGS(id) (unsigned long long)(id).graph, (unsigned long long)(id).user

/* ---- Ids -------------------------------------------------------------------------- */

acre_pool_id acre_pool_id_next(void)
{
    static _Atomic uint64_t last;

    return (acre_pool_id){.user = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1};
}

acre_pool_id acre_pool_id_next_graph(void)
{
    static _Atomic uint64_t last;

    return (acre_pool_id){.graph = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1};
}

static acre_status refuse_id(acre_pool_id id)
{
    return status_fail(ACRE_ERR_NOT_FOUND,
                       "Could not find pool of id " ID_FORMAT ": create it, or begin a scope of "
                       "it, first",
                       ID_ARGS(id));
}

/* ---- Life ------------------------------------------------------------------------- */

/* Ends a pool that is over. */
static void destroy_locked(acre_cache *cache, struct private_pool *pool)
{
    sleep_drop(cache, pool);
    stitch_destroy(pool->large.stitch);
    cache->policy->pool_fini(cache, &pool->small);
    cache->policy->pool_fini(cache, &pool->large);
    private_pool_destroy(pool);
}

void pools_end_locked(acre_cache *cache, acre_pool_id id)
{
    bool is_all = pool_id_equal(id, (acre_pool_id){0});

    LIST_FOR_EACH_SAFE(link, after, &cache->private_pools) {
        struct private_pool *pool = CONTAINER_OF(link, struct private_pool, link);
        if ((is_all || pool_id_equal(pool->id, id)) && private_pool_is_over(pool))
            destroy_locked(cache, pool);
    }
}

void pools_fini(acre_cache *cache)
{
    LIST_FOR_EACH_SAFE(link, after, &cache->scopes) {
        struct scope *scope = CONTAINER_OF(link, struct scope, link);
        scope->pool->has_scope = false;
        scope_destroy(scope);
    }
    LIST_FOR_EACH_SAFE(link, after, &cache->private_pools)
        destroy_locked(cache, CONTAINER_OF(link, struct private_pool, link));
    pool_accounts_fini(&cache->accounts);
}

static acre_status create_locked(acre_cache *cache, acre_pool_id id, const acre_pool_config *config,
                                 struct private_pool **out)
{
    struct private_pool *pool = private_pool_create(&cache->accounts, id);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!pool)
        return status;
    status = cache->policy->pool_init(cache, &pool->small);
    if (status != ACRE_OK)
        goto destroy;
    status = cache->policy->pool_init(cache, &pool->large);
    if (status != ACRE_OK)
        goto fini_small;
    if ((config->flags & ACRE_POOL_STITCHED) && cache->facts.can_stitch && !config->allocator &&
        !config->alloc)
        status = stitch_create(cache, &pool->small, &pool->large);
    if (status != ACRE_OK)
        goto fini_large;
    pool->source = (struct pool_source){.allocator = config->allocator,
                                        .alloc = config->alloc,
                                        .free = config->free,
                                        .arg = config->arg};
    pool->helps_on_oom = config->flags & ACRE_POOL_USE_ON_OOM;
    pool->gives_back = config->flags & ACRE_POOL_GIVES_BACK;
    pool->small.is_unsplit = pool->large.is_unsplit = config->flags & ACRE_POOL_NO_SPLIT;
    list_push_back(&cache->private_pools, &pool->link);
    *out = pool;
    return ACRE_OK;

fini_large:
    cache->policy->pool_fini(cache, &pool->large);
fini_small:
    cache->policy->pool_fini(cache, &pool->small);
destroy:
    private_pool_destroy(pool);
    return status;
}

acre_status pools_use_locked(acre_cache *cache, acre_pool_id id, const acre_pool_config *config,
                             struct private_pool **out)
{
    static const acre_pool_config defaults = {.struct_size = sizeof defaults};
    struct private_pool *pool = private_pool_find(&cache->private_pools, id);

    if (!pool)
        return create_locked(cache, id, config ? config : &defaults, out);
    if (config)
        return status_fail(ACRE_ERR_INVALID,
                           "pool " ID_FORMAT " exists: what it is cannot be "
                           "said again; leave config NULL",
                           ID_ARGS(id));
    if (!pool->use_count)
        return status_fail(ACRE_ERR_STATE,
                           "pool " ID_FORMAT " was released by all and is about "
                           "to end; empty the cache, or take a new id",
                           ID_ARGS(id));
    pool->use_count++;
    *out = pool;
    return ACRE_OK;
}

void pools_unuse_locked(acre_cache *cache, struct private_pool *pool)
{
    CHECK(pool->use_count > 0);
    /* What was made for a call that failed leaves no trace. */
    if (--pool->use_count == 0 && !pool->account->is_shown && private_pool_is_over(pool))
        destroy_locked(cache, pool);
}

/* Copies a configuration of any size and checks it. */
static acre_status copy_config(acre_pool_config *out, const acre_pool_config *config)
{
    acre_status status = STRUCT_TAKE("acre_pool_create", acre_pool_config, config, out);

    if (status != ACRE_OK)
        return status;
    if (!out->alloc != !out->free || (out->alloc && out->allocator))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_pool_create: memory comes from an allocator, "
                           "or from alloc and goes to free, both of which are needed");
    if (out->allocator && !acre_allocator_raw_deleter(out->allocator))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_pool_create: allocator %s has no raw "
                           "deleter, so bare pointers cannot be had from it",
                           acre_allocator_name(out->allocator));
    if (out->flags & ~(uint32_t)(ACRE_POOL_NO_SPLIT | ACRE_POOL_USE_ON_OOM | ACRE_POOL_STITCHED |
                                 ACRE_POOL_GIVES_BACK))
        return status_fail(ACRE_ERR_INVALID, "acre_pool_create: flags 0x%x are not known",
                           out->flags);
    return ACRE_OK;
}

static acre_status pools_check(acre_cache *cache, acre_pool_id id, const char *call)
{
    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "%s: a cache is needed", call);
    if (!id.graph == !id.user)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: " ID_FORMAT " is not the id of a private pool; "
                           "acre_pool_id_next() gives one",
                           call, ID_ARGS(id));
    return cache_check_fork(cache);
}

acre_status acre_pool_create(acre_cache *cache, acre_pool_id id, const acre_pool_config *config)
{
    acre_pool_config copy;
    struct private_pool *pool;
    acre_status status = pools_check(cache, id, "acre_pool_create");

    if (status == ACRE_OK && config)
        status = copy_config(&copy, config);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    status = pools_use_locked(cache, id, config ? &copy : NULL, &pool);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_pool_release(acre_cache *cache, acre_pool_id id)
{
    acre_status status = pools_check(cache, id, "acre_pool_release");

    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    if (!pool)
        status = refuse_id(id);
    else if (pool->use_count <= pool->kept_count)
        status = status_fail(ACRE_ERR_STATE,
                             "pool " ID_FORMAT " was released already; the %llu "
                             "uses left are those of a scope, which ends, and of recordings, "
                             "which are destroyed",
                             ID_ARGS(id), (unsigned long long)pool->use_count);
    else
        pool->use_count--;
    quick_lock_drop(&cache->lock);
    return status;
}

/* ---- Scopes ----------------------------------------------------------------------- */

/* Counts the scopes and lets the threads concerned know. */
static void scopes_changed_locked(acre_cache *cache, int change)
{
    atomic_fetch_add_explicit(&cache->scope_count, (unsigned)change, memory_order_relaxed);
    if (cache->facts.has_lanes)
        front_divert_locked(cache);
}

acre_status scope_open_locked(acre_cache *cache, struct private_pool *pool,
                              const acre_pool_filter *filter)
{
    if (pool->has_scope)
        return status_fail(ACRE_ERR_STATE,
                           "already recording to mempool_id " ID_FORMAT ": end that scope first",
                           ID_ARGS(pool->id));
    struct scope *scope = scope_create(pool, filter);
    if (!scope)
        return ACRE_ERR_HOST_MEMORY;
    list_push_front(&cache->scopes, &scope->link);
    pool->has_scope = true;
    pool->kept_count++;
    scopes_changed_locked(cache, 1);
    return ACRE_OK;
}

void scope_close_locked(acre_cache *cache, struct private_pool *pool)
{
    struct status_saved before;

    /* What cannot be settled now is tried again by the next allocation. */
    status_save(&before);
    capture_sweep_locked(cache);
    if (cache->deferred.capture_waiting_count && capture_flush_locked(cache, pool) != ACRE_OK)
        status_restore(&before);
    pool->has_scope = false;
    pool->kept_count--;
    pool->use_count--;
    scope_destroy(scope_find(&cache->scopes, pool));
    scopes_changed_locked(cache, -1);
}

acre_status acre_pool_begin(acre_cache *cache, acre_pool_id id, const acre_pool_filter *filter)
{
    static const acre_pool_filter this_thread = {.kind = ACRE_POOL_THIS_THREAD};
    struct private_pool *pool;
    acre_status status = pools_check(cache, id, "acre_pool_begin");

    if (status != ACRE_OK)
        return status;
    if (!filter)
        filter = &this_thread;
    if ((unsigned)filter->kind > ACRE_POOL_CAPTURE ||
        (filter->kind == ACRE_POOL_CALLBACK && !filter->fn))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_pool_begin: filter %d does not exist, or needs "
                           "a function",
                           (int)filter->kind);
    quick_lock_take(&cache->lock);
    status = pools_use_locked(cache, id, NULL, &pool);
    if (status == ACRE_OK) {
        status = scope_open_locked(cache, pool, filter);
        if (status != ACRE_OK)
            pools_unuse_locked(cache, pool);
    }
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_pool_end(acre_cache *cache, acre_pool_id id)
{
    acre_status status = pools_check(cache, id, "acre_pool_end");

    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    if (pool && pool->has_scope)
        scope_close_locked(cache, pool);
    else
        status = status_fail(ACRE_ERR_STATE,
                             "not currently recording to mempool_id " ID_FORMAT
                             ": begin comes before end",
                             ID_ARGS(id));
    quick_lock_drop(&cache->lock);
    return status;
}

/* ---- Which pool serves ------------------------------------------------------------ */

/* Asks the filter of a scope with the lock dropped. Whether it says yes, and the
 * scope is still there. */
static bool ask_locked(acre_cache *cache, const struct scope *scope, void *stream)
{
    acre_pool_filter filter = scope->filter;
    uint64_t number = scope->number;

    quick_lock_drop(&cache->lock);
    bool passes = filter.fn(filter.arg, stream);
    quick_lock_take(&cache->lock);
    scope = scope_older(&cache->scopes, number + 1);
    return passes && scope && scope->number == number;
}

acre_status pools_route_locked(acre_cache *cache, struct request *request)
{
    bool is_small = cache->policy->is_small(request->rounded), passes = false;
    uint64_t number = UINT64_MAX;
    struct scope *scope;

    request->pool = is_small ? &cache->small : &cache->large;
    capture_notice_locked(cache, request->stream, true);
    while ((scope = scope_older(&cache->scopes, number))) {
        acre_status status = ACRE_OK;
        enum scope_answer answer = scope_passes(scope, request->stream);
        number = scope->number;
        passes = answer == SCOPE_YES;
        if (answer == SCOPE_ASK)
            passes = ask_locked(cache, scope, request->stream);
        else if (answer == SCOPE_CAPTURE)
            status = capture_has_locked(cache, scope->filter.capture_id, request->stream, &passes);
        if (status != ACRE_OK)
            return status;
        if (passes)
            break;
    }
    if (!passes)
        return ACRE_OK;
    /* Asking may have let go of the scope that was looked at. */
    scope = scope_older(&cache->scopes, number + 1);
    request->pool = is_small ? &scope->pool->small : &scope->pool->large;
    if (UNLIKELY(scope->pool->sleep))
        return sleep_refuse(scope->pool, "acre_cache_alloc");
    if (UNLIKELY(capture_runs_on_locked(cache, request->stream))) {
        if (request->pool->stitch)
            return status_fail(ACRE_ERR_STATE,
                               "nothing can be captured into pool (%llu, %llu): it "
                               "was made with ACRE_POOL_STITCHED",
                               (unsigned long long)scope->pool->id.graph,
                               (unsigned long long)scope->pool->id.user);
        scope->pool->is_baked = true; /* the address will be part of a graph */
    }
    return ACRE_OK;
}

struct block *pools_lend_locked(acre_cache *cache, struct request *request)
{
    struct pool *shared = request->pool;
    struct block *block = NULL;
    bool expands = cache->expands;

    if (shared->owner)
        return NULL;
    cache->expands = false; /* what may fall asleep is not lent: expandable and stitched memory */
    LIST_FOR_EACH(link, &cache->private_pools) {
        struct private_pool *pool = CONTAINER_OF(link, struct private_pool, link);
        if (!pool->helps_on_oom || pool->has_scope || pool->is_baked || !pool->use_count ||
            pool->sleep || pool->large.stitch)
            continue;
        request->pool = shared->is_small ? &pool->small : &pool->large;
        block = cache->policy->find(cache, request);
        if (block)
            break;
    }
    request->pool = shared;
    cache->expands = expands;
    return block;
}

struct pool *pools_next_locked(const acre_cache *cache, const struct pool *pool)
{
    const struct list *link = &cache->private_pools;

    if (!pool)
        return (struct pool *)&cache->small;
    if (pool == &cache->small)
        return (struct pool *)&cache->large;
    if (pool->owner && pool->is_small)
        return &pool->owner->large;
    link = pool->owner ? pool->owner->link.next : link->next;
    return link == &cache->private_pools ? NULL
                                         : &CONTAINER_OF(link, struct private_pool, link)->small;
}

uint64_t pools_free_count_locked(const acre_cache *cache, bool is_small)
{
    uint64_t count = 0;

    for (struct pool *pool = NULL; (pool = pools_next_locked(cache, pool));)
        count += pool->is_small == is_small ? pool->free_count : 0;
    return count;
}

/* ---- What a pool holds ------------------------------------------------------------- */

acre_status acre_pool_use_count(acre_cache *cache, acre_pool_id id, uint64_t *out_count)
{
    acre_status status = pools_check(cache, id, "acre_pool_use_count");

    if (status != ACRE_OK)
        return status;
    if (!out_count)
        return status_fail(ACRE_ERR_INVALID, "acre_pool_use_count: out_count is NULL");
    quick_lock_take(&cache->lock);
    const struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    if (pool)
        *out_count = pool->use_count;
    else
        status = refuse_id(id);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_pool_use_on_oom_set(acre_cache *cache, acre_pool_id id, bool enabled)
{
    acre_status status = pools_check(cache, id, "acre_pool_use_on_oom_set");

    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    if (pool)
        pool->helps_on_oom = enabled;
    else
        status = refuse_id(id);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_pool_no_split_set(acre_cache *cache, acre_pool_id id, bool enabled)
{
    acre_status status = pools_check(cache, id, "acre_pool_no_split_set");

    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    if (pool)
        pool->small.is_unsplit = pool->large.is_unsplit = enabled;
    else
        status = refuse_id(id);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_pool_empty(acre_cache *cache, acre_pool_id id)
{
    acre_status status = pools_check(cache, id, "acre_pool_empty");

    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    capture_sweep_locked(cache);
    if (pool && !pool->use_count && !capture_is_own_locked(cache))
        status = reclaim_private_locked(cache, pool);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status;
}
