/* SPDX-License-Identifier: MIT */
#include "cache/pools/private_pool.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/observe/stats.h"

/* ---- Accounts ------------------------------------------------------------------- */

struct pool_account *pool_account_find(const struct list *accounts, acre_pool_id id)
{
    LIST_FOR_EACH(link, accounts) {
        struct pool_account *account = CONTAINER_OF(link, struct pool_account, link);
        if (pool_id_equal(account->id, id))
            return account;
    }
    return NULL;
}

/* The account of an id, made if need be; NULL: no host memory. */
static struct pool_account *account_get(struct list *accounts, acre_pool_id id)
{
    struct pool_account *account = pool_account_find(accounts, id);

    if (account)
        return account;
    account = heap_zalloc(sizeof *account);
    if (!account)
        return NULL;
    account->id = id;
    list_push_back(accounts, &account->link);
    return account;
}

static void account_destroy(struct pool_account *account)
{
    list_remove(&account->link);
    heap_free(account);
}

void pool_accounts_fini(struct list *accounts)
{
    LIST_FOR_EACH_SAFE(link, after, accounts)
        account_destroy(CONTAINER_OF(link, struct pool_account, link));
}

/* ---- Pools -------------------------------------------------------------------------- */

static void init_part(struct private_pool *owner, struct pool *pool, bool is_small)
{
    pool_init(pool, is_small);
    pool->id[0] = owner->id.graph;
    pool->id[1] = owner->id.user;
    pool->owner = owner;
}

struct private_pool *private_pool_create(struct list *accounts, acre_pool_id id)
{
    struct private_pool *pool = heap_zalloc(sizeof *pool);

    if (!pool)
        return NULL;
    pool->account = account_get(accounts, id);
    if (!pool->account) {
        heap_free(pool);
        return NULL;
    }
    list_init(&pool->link);
    pool->id = id;
    pool->use_count = 1;
    init_part(pool, &pool->small, true);
    init_part(pool, &pool->large, false);
    return pool;
}

void private_pool_destroy(struct private_pool *pool)
{
    CHECK(!pool->has_scope && !pool->busy_count);
    list_remove(&pool->link);
    if (!pool->account->is_shown)
        account_destroy(pool->account);
    heap_free(pool);
}

bool private_pool_is_over(const struct private_pool *pool)
{
    return !pool->use_count && !pool->has_scope && !pool->busy_count &&
           !pool->small.segment_count && !pool->large.segment_count && !pool->small.held_bytes &&
           !pool->large.held_bytes;
}

struct private_pool *private_pool_find(const struct list *pools, acre_pool_id id)
{
    LIST_FOR_EACH(link, pools) {
        struct private_pool *pool = CONTAINER_OF(link, struct private_pool, link);
        if (pool_id_equal(pool->id, id))
            return pool;
    }
    return NULL;
}

/* ---- What a pool holds ---------------------------------------------------------------- */

void pool_gain(struct pool *pool, acre_cache_stats *stats, size_t bytes)
{
    pool->held_bytes += bytes;
    stats_up(&stats->reserved_bytes, pool->is_small, bytes);
    if (!pool->owner)
        return;
    pool->owner->account->is_shown = true;
    stats_up(&pool->owner->account->reserved, pool->is_small, bytes);
}

void pool_lose(struct pool *pool, acre_cache_stats *stats, size_t bytes)
{
    CHECK(pool->held_bytes >= bytes);
    pool->held_bytes -= bytes;
    stats_down(&stats->reserved_bytes, pool->is_small, bytes);
    if (pool->owner)
        stats_down(&pool->owner->account->reserved, pool->is_small, bytes);
}

/* ---- Sources ------------------------------------------------------------------------------ */

/* The allocator works on what is current: makes that the block's device and stream, where
 * the device can be named by its type. *out tells whether there is something to end, also after
 * ACRE_ERR_HOST_MEMORY, when the stream stayed what it was: no memory may be had for that one. */
static acre_status guard_begin(acre_guard *guard, acre_device *device, void *stream, bool *out)
{
    acre_device *registered = NULL;
    acre_stream value;

    *out = false;
    if (acre_device_get(device->type, device->index, &registered) != ACRE_OK ||
        registered != device)
        return ACRE_OK;
    acre_status status = acre_stream_external(device->type, device->index, stream, &value);
    if (status == ACRE_OK)
        status = acre_guard_stream(guard, value);
    *out = status == ACRE_OK ||
           acre_guard_device(
               guard, (acre_device_id){.type = device->type, .index = device->index}) == ACRE_OK;
    return status == ACRE_ERR_HOST_MEMORY ? status : ACRE_OK;
}

acre_status pool_source_alloc(const struct pool_source *source, struct acre_device *device,
                              size_t bytes, void *stream, void **out)
{
    acre_guard guard;
    acre_status status = ACRE_OK;

    if (source->alloc) {
        *out = source->alloc(source->arg, bytes, device->index, stream);
    } else {
        bool is_guarded;
        status = guard_begin(&guard, device, stream, &is_guarded);
        if (status == ACRE_OK)
            status = acre_allocator_raw_allocate(source->allocator, bytes, out);
        if (is_guarded)
            acre_guard_end(&guard);
    }
    return status == ACRE_OK && !*out ? ACRE_ERR_DEVICE_MEMORY : status;
}

void pool_source_free(const struct pool_source *source, struct acre_device *device, void *base,
                      size_t bytes, void *stream)
{
    acre_guard guard;

    if (source->free) {
        source->free(source->arg, base, bytes, device->index, stream);
        return;
    }
    bool is_guarded;
    guard_begin(&guard, device, stream, &is_guarded); /* what is freed knows its stream */
    acre_status status = acre_allocator_raw_deallocate(source->allocator, base);
    if (status != ACRE_OK)
        log_line(ACRE_LOG_ERROR, "a segment of %zu bytes could not be returned to %s: %s", bytes,
                 acre_allocator_name(source->allocator), acre_last_error());
    if (is_guarded)
        acre_guard_end(&guard);
}
