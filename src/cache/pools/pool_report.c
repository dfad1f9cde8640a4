/* SPDX-License-Identifier: MIT */
/* Looking inside private pools: what is live, statistics, which there are. */
#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "cache/cache.h"
#include "cache/observe/layout.h"

#include <stdlib.h>
#include <string.h>

static int by_address(const void *a, const void *b)
{
    const char *first = *(void *const *)a, *second = *(void *const *)b;

    return first < second ? -1 : first > second;
}

/* Whether the live blocks of a pool are those of a sorted list. */
static bool is_same_locked(const acre_cache *cache, const struct private_pool *pool,
                           void *const *sorted, size_t count)
{
    size_t live = 0;

    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (segment->pool->owner != pool)
            continue;
        for (struct block *block = segment->first; block; block = block->next) {
            void *base = block->base;
            if (layout_state_of(block) != ACRE_BLOCK_LIVE)
                continue;
            live++;
            if (!count || !bsearch(&base, sorted, count, sizeof *sorted, by_address))
                return false;
        }
    }
    return live == count;
}

static acre_status fail_id(acre_pool_id id)
{
    return status_fail(ACRE_ERR_NOT_FOUND, "Could not find pool of id (%llu, %llu)",
                       (unsigned long long)id.graph, (unsigned long long)id.user);
}

acre_status acre_pool_check_live(acre_cache *cache, acre_pool_id id, void *const *pointers,
                                 size_t count, bool *out_same)
{
    acre_status status = ACRE_OK;

    if (!cache || !out_same || (count && !pointers))
        return status_fail(ACRE_ERR_INVALID, "acre_pool_check_live: an argument is NULL");
    void **sorted = heap_array(count + 1, sizeof *sorted);
    if (!sorted)
        return ACRE_ERR_HOST_MEMORY;
    if (count) {
        memcpy(sorted, pointers, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_address);
    }
    quick_lock_take(&cache->lock);
    const struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    if (pool)
        *out_same = is_same_locked(cache, pool, sorted, count);
    quick_lock_drop(&cache->lock);
    if (!pool)
        status = fail_id(id);
    heap_free(sorted);
    return status;
}

static void sum_locked(const acre_cache *cache, const struct private_pool *pool,
                       acre_pool_stats *out)
{
    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);
        if (segment->pool->owner != pool)
            continue;
        out->segment_count++;
        for (const struct block *block = segment->first; block; block = block->next) {
            acre_block_state state = layout_state_of(block);
            out->live_count += state == ACRE_BLOCK_LIVE;
            out->live_bytes += state == ACRE_BLOCK_LIVE ? block->bytes : 0;
            out->waiting_bytes += state == ACRE_BLOCK_WAITING ? block->bytes : 0;
            out->free_bytes += state == ACRE_BLOCK_FREE ? block->bytes : 0;
        }
    }
}

acre_status acre_pool_stats_get(acre_cache *cache, acre_pool_id id, acre_pool_stats *stats)
{
    acre_pool_stats full = {.struct_size = sizeof full};

    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_pool_stats_get: cache is NULL");
    acre_status status = STRUCT_CHECK("acre_pool_stats_get", acre_pool_stats, stats);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    const struct private_pool *pool = private_pool_find(&cache->private_pools, id);
    const struct pool_account *account = pool_account_find(&cache->accounts, id);
    if (pool) {
        full.use_count = pool->use_count;
        full.flags = (pool->small.is_unsplit ? ACRE_POOL_NO_SPLIT : 0u) |
                     (pool->helps_on_oom ? ACRE_POOL_USE_ON_OOM : 0u) |
                     (pool->gives_back ? ACRE_POOL_GIVES_BACK : 0u);
        sum_locked(cache, pool, &full);
    }
    if (account)
        full.reserved_bytes = account->reserved;
    quick_lock_drop(&cache->lock);
    if (!account)
        return fail_id(id);
    STRUCT_GIVE(acre_pool_stats, stats, &full);
    return ACRE_OK;
}

acre_status acre_pool_ids(acre_cache *cache, acre_pool_id *ids, size_t capacity, size_t *out_count)
{
    size_t count = 0;

    if (!cache || !out_count || (capacity && !ids))
        return status_fail(ACRE_ERR_INVALID, "acre_pool_ids: an argument is NULL");
    quick_lock_take(&cache->lock);
    LIST_FOR_EACH(link, &cache->accounts) {
        if (count < capacity)
            ids[count] = CONTAINER_OF(link, struct pool_account, link)->id;
        count++;
    }
    quick_lock_drop(&cache->lock);
    *out_count = count;
    return ACRE_OK;
}
