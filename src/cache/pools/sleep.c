/* SPDX-License-Identifier: MIT */
/* Sleep and wake: private pools give their pages back and keep their addresses.
 *
 * Going to sleep has three steps over all pools concerned, each undone when a
 * later one fails, except the last, which cannot fail:
 *
 *   save    host memory for what is live, and a copy of it
 *   doze    pages are taken out of their addresses, their memory is kept
 *   give    the memory goes back to the device
 *
 * and waking up as well: pages are made and mapped, contents copied back, and then
 * nothing can fail any more. What is live is remembered as runs of blocks; free
 * blocks have pages again after waking, but no contents.
 *
 * While private_pool.sleep is set nobody allocates from the pool, frees into it,
 * lends from it or reclaims it, so its segments and blocks stay as they are. */
#include "cache/pools/sleep.h"

#include "backend/backend.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/acquire.h"
#include "cache/cache.h"
#include "cache/engine.h"
#include "cache/fork.h"
#include "cache/acre/stitch.h"
#include "cache/observe/layout.h"
#include "cache/pools/capture.h"
#include "cache/reclaim.h"

#include <acre/sleep.h>

#include <string.h>

/* Live blocks that follow one another. */
struct sleep_run {
    char *base;
    size_t bytes;
};

struct sleep {
    acre_sleep_level level;
    struct sleep_run *runs; /* what was live, by address within a segment        */
    size_t run_count, run_capacity;
    char *saved; /* contents, run after run; NULL: nothing            */
    size_t saved_bytes;
};

/* Walks the pools that a call is about, then their segments. */
#define FOR_EACH_TARGET(it, targets, count)                                                        \
    for (struct private_pool **it = (targets); it < (targets) + (count); it++)
#define FOR_EACH_SEGMENT(it, cache, target)                                                        \
    LIST_FOR_EACH(it##_link, &(cache)->segments)                                                   \
        for (struct segment *it = CONTAINER_OF(it##_link, struct segment, link);                   \
             it && it->pool->owner == (target); it = NULL)

/* ---- Which pools ---------------------------------------------------------------- */

acre_status sleep_refuse(const struct private_pool *pool, const char *call)
{
    return status_fail(ACRE_ERR_STATE,
                       "%s: the pool {%llu, %llu}%s%s sleeps; wake it first (acre_cache_wake)",
                       call, (unsigned long long)pool->id.graph, (unsigned long long)pool->id.user,
                       *pool->tag ? " tagged " : "", pool->tag);
}

acre_status sleep_find_locked(const acre_cache *cache, acre_pool_id id, struct private_pool **out)
{
    if (pool_id_equal(id, (acre_pool_id){0}))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "the shared pool serves everybody and has neither "
                           "tag nor sleep; allocate what is to sleep in a private pool "
                           "(acre_pool_begin)");
    *out = private_pool_find(&cache->private_pools, id);
    if (!*out)
        return status_fail(ACRE_ERR_NOT_FOUND, "Could not find pool of id {%llu, %llu}",
                           (unsigned long long)id.graph, (unsigned long long)id.user);
    return ACRE_OK;
}

static bool is_target(const struct private_pool *candidate, const struct private_pool *pool,
                      const char *tag, bool is_asleep)
{
    return (pool ? candidate == pool : strcmp(candidate->tag, tag) == 0) &&
           (candidate->sleep != NULL) == is_asleep;
}

/* The pools that are meant and sleep, or are awake; possibly none. */
static acre_status targets_find_locked(const acre_cache *cache, const acre_pool_id *id,
                                       const char *tag, bool is_asleep, struct private_pool ***out,
                                       size_t *out_count)
{
    struct private_pool *pool = NULL;
    acre_status status = id ? sleep_find_locked(cache, *id, &pool) : ACRE_OK;
    size_t known = pool != NULL;

    if (status != ACRE_OK)
        return status;
    LIST_FOR_EACH(link, &cache->private_pools)
        known += tag && strcmp(CONTAINER_OF(link, struct private_pool, link)->tag, tag) == 0;
    if (!known)
        return status_fail(ACRE_ERR_NOT_FOUND, "no pool of this cache has the tag \"%s\"", tag);
    *out = heap_array(known, sizeof **out);
    if (!*out)
        return ACRE_ERR_HOST_MEMORY;
    *out_count = 0;
    LIST_FOR_EACH(link, &cache->private_pools) {
        struct private_pool *at = CONTAINER_OF(link, struct private_pool, link);
        if (is_target(at, pool, tag, is_asleep))
            (*out)[(*out_count)++] = at;
    }
    return ACRE_OK;
}

/* ---- May it sleep ------------------------------------------------------------------ */

static acre_status check_share(const struct block *block)
{
    if (!share_of(block))
        return ACRE_OK;
    return status_fail(ACRE_ERR_BUSY,
                       "the block at %p is exported to other processes; free it, or "
                       "end that with acre_share_revoke, before it sleeps",
                       (void *)block->base);
}

static acre_status check_segment(const struct segment *segment)
{
    acre_status status = ACRE_OK;

    if (segment_is_plain(segment))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "the pool has a plain segment of %zu bytes, whose "
                           "memory cannot leave its addresses; make the pool with "
                           "ACRE_POOL_STITCHED (policy acre), or set expandable_segments:True "
                           "(policy torch)",
                           segment->bytes);
    for (const struct block *block = segment->first; block && status == ACRE_OK;
         block = block->next) {
        if (block->state == BLOCK_WAITING)
            return status_fail(ACRE_ERR_BUSY, "the block at %p was freed, but others still use it",
                               (void *)block->base);
        if (block->state == BLOCK_LIVE)
            status = check_share(block);
    }
    return status;
}

/* Waits for all work, and frees what was waiting for it. */
static acre_status settle_locked(acre_cache *cache, const struct private_pool *pool)
{
    acre_status status = reclaim_quiesce(cache);

    if (status == ACRE_OK && cache->deferred.capture_waiting_count)
        status = capture_flush_locked(cache, pool);
    if (status == ACRE_OK)
        status = deferred_synchronize(&cache->deferred, pool, engine_done_locked, cache);
    return status;
}

static acre_status check_captures(acre_cache *cache, const char *call)
{
    capture_sweep_locked(cache);
    acre_status status = capture_search_locked(cache);
    if (status == ACRE_OK && cache->capture_count)
        status = status_fail(ACRE_ERR_STATE, "%s: a capture is under way; end it first", call);
    return status;
}

static acre_status may_sleep_locked(acre_cache *cache, struct private_pool *pool)
{
    acre_status status = settle_locked(cache, pool);

    if (status == ACRE_OK && pool->busy_count)
        status = status_fail(ACRE_ERR_BUSY, "another thread is obtaining memory for the pool, or "
                                            "launches a recording of it");
    if (status == ACRE_OK && !device_has(cache->device, ACRE_CAP_COPY))
        status = status_fail(ACRE_ERR_UNSUPPORTED,
                             "backend \"%s\" cannot copy contents: it lacks "
                             "the group \"copies\"",
                             cache->device->backend->name);
    FOR_EACH_SEGMENT(segment, cache, pool)
        if (status == ACRE_OK)
            status = check_segment(segment);
    return status;
}

/* ---- Contents ------------------------------------------------------------------------ */

static acre_status run_add(struct sleep *sleep, const struct block *block)
{
    struct sleep_run *last = sleep->run_count ? &sleep->runs[sleep->run_count - 1] : NULL;

    sleep->saved_bytes += block->bytes;
    if (last && last->base + last->bytes == block->base && block->prev) {
        last->bytes += block->bytes;
        return ACRE_OK;
    }
    if (sleep->run_count == sleep->run_capacity) {
        size_t capacity = sleep->run_capacity ? 2 * sleep->run_capacity : 16;
        struct sleep_run *grown = heap_realloc(sleep->runs, capacity * sizeof *grown);
        if (!grown)
            return ACRE_ERR_HOST_MEMORY;
        sleep->runs = grown;
        sleep->run_capacity = capacity;
    }
    sleep->runs[sleep->run_count++] = (struct sleep_run){block->base, block->bytes};
    return ACRE_OK;
}

static acre_status runs_find(acre_cache *cache, const struct private_pool *pool,
                             struct sleep *sleep)
{
    acre_status status = ACRE_OK;

    FOR_EACH_SEGMENT(segment, cache, pool)
        for (const struct block *block = segment->first; block && status == ACRE_OK;
             block = block->next)
            if (layout_state_of(block) == ACRE_BLOCK_LIVE)
                status = run_add(sleep, block);
    return status;
}

/* Memory for contents: page-locked where the device has it. */
static acre_status saved_alloc(acre_cache *cache, struct sleep *sleep)
{
    struct acre_device *device = cache->device;
    void *saved;

    if (device_has(device, ACRE_CAP_HOST_MEMORY)) {
        acre_status status = device->ops->host_alloc(device->self, sleep->saved_bytes, &saved);
        if (status == ACRE_OK)
            sleep->saved = saved;
        return status;
    }
    sleep->saved = heap_map(sleep->saved_bytes);
    return sleep->saved ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

static void saved_free(acre_cache *cache, struct sleep *sleep)
{
    struct acre_device *device = cache->device;

    if (!sleep->saved)
        return;
    if (device_has(device, ACRE_CAP_HOST_MEMORY)) {
        /* A refusal is met with a second try; at worst it stays allocated. */
        if (device->ops->host_free(device->self, sleep->saved) != ACRE_OK)
            device->ops->host_free(device->self, sleep->saved);
    } else
        heap_unmap(sleep->saved, sleep->saved_bytes);
    sleep->saved = NULL;
}

/* Copies all runs to where they are saved, or back. */
static acre_status contents_copy(acre_cache *cache, const struct sleep *sleep, bool is_back)
{
    struct acre_device *device = cache->device;
    char *saved = sleep->saved;
    acre_status status = ACRE_OK;

    for (size_t i = 0; saved && i < sleep->run_count && status == ACRE_OK; i++) {
        const struct sleep_run *run = &sleep->runs[i];
        status = is_back ? device->ops->copy(device->self, run->base, saved, run->bytes,
                                             ACRE_COPY_HOST_TO_DEVICE)
                         : device->ops->copy(device->self, saved, run->base, run->bytes,
                                             ACRE_COPY_DEVICE_TO_HOST);
        saved += run->bytes;
    }
    return status;
}

void sleep_drop(acre_cache *cache, struct private_pool *pool)
{
    if (!pool->sleep)
        return;
    saved_free(cache, pool->sleep);
    heap_free(pool->sleep->runs);
    heap_free(pool->sleep);
    pool->sleep = NULL;
}

/* Step one: notes what is live, and saves it. From here on the pool is left alone. */
static acre_status save_locked(acre_cache *cache, struct private_pool *pool, acre_sleep_level level)
{
    acre_status status = may_sleep_locked(cache, pool);

    if (status != ACRE_OK)
        return status;
    pool->sleep = heap_zalloc(sizeof *pool->sleep);
    if (!pool->sleep)
        return ACRE_ERR_HOST_MEMORY;
    pool->sleep->level = level;
    status = runs_find(cache, pool, pool->sleep);
    if (status == ACRE_OK && level == ACRE_SLEEP_SAVE && pool->sleep->saved_bytes)
        status = saved_alloc(cache, pool->sleep);
    if (status == ACRE_OK)
        status = contents_copy(cache, pool->sleep, false);
    if (status != ACRE_OK)
        sleep_drop(cache, pool);
    return status;
}

/* ---- Pages --------------------------------------------------------------------------- */

uint64_t sleep_away_bytes(const acre_cache *cache, const struct pool *pool)
{
    uint64_t own = 0, lent = 0;

    if (!pool->owner || !pool->owner->sleep)
        return 0;
    FOR_EACH_SEGMENT(segment, cache, pool->owner) {
        if (segment->expand && (segment->pool == pool || pool->stitch))
            own += expand_asleep_bytes(segment->expand);
        if (segment->host && segment->pool->is_small)
            lent += segment->bytes;
    }
    /* Stitched: the page space is the large pool's, but chunks in it count as small. */
    if (!pool->stitch)
        return own;
    if (lent > own)
        lent = own;
    return pool->is_small ? lent : own - lent;
}

/* What both pools of a private one have lent back to the device. */
struct away {
    uint64_t bytes[2];
};

static struct away away_of(const acre_cache *cache, const struct private_pool *pool)
{
    return (struct away){
        {sleep_away_bytes(cache, &pool->small), sleep_away_bytes(cache, &pool->large)}};
}

/* Moves the accounts from what was away to what is. */
static void account_locked(acre_cache *cache, struct private_pool *pool, struct away before)
{
    struct pool *pools[2] = {&pool->small, &pool->large};
    struct away now = away_of(cache, pool);

    for (int i = 0; i < 2; i++) {
        if (now.bytes[i] > before.bytes[i]) {
            cache->held_bytes -= now.bytes[i] - before.bytes[i];
            cache->stats.num_device_free++;
            pool_lose(pools[i], &cache->stats, now.bytes[i] - before.bytes[i]);
        } else if (now.bytes[i] < before.bytes[i]) {
            cache->held_bytes += before.bytes[i] - now.bytes[i];
            cache->stats.num_device_alloc++;
            pool_gain(pools[i], &cache->stats, before.bytes[i] - now.bytes[i]);
        }
    }
}

/* Walks the ranges of a pool whose memory is stitched. */
#define FOR_EACH_RANGE(it, pool)                                                                   \
    for (struct list *it##_head = (pool)->large.stitch ? &(pool)->large.stitch->ranges : NULL,     \
                     *it##_link = it##_head ? it##_head->next : NULL;                              \
         it##_link != it##_head; it##_link = it##_link->next)                                      \
        for (struct range *it = CONTAINER_OF(it##_link, struct range, link); it; it = NULL)

/* Takes the pages out, of stitched ranges first. */
static acre_status doze_locked(acre_cache *cache, struct private_pool *pool)
{
    acre_status status = ACRE_OK;

    FOR_EACH_RANGE(range, pool)
        if (status == ACRE_OK)
            status = range_doze(range);
    FOR_EACH_SEGMENT(segment, cache, pool)
        if (status == ACRE_OK && segment->expand)
            status = expand_doze(segment->expand);
    return status;
}

/* Gives back the memory of pages that were taken out. */
static void give_locked(acre_cache *cache, struct private_pool *pool)
{
    struct away before = away_of(cache, pool);

    FOR_EACH_SEGMENT(segment, cache, pool)
        if (segment->expand)
            expand_sleep(segment->expand);
    account_locked(cache, pool, before);
}

/* Puts pages back into a pool; contents follow. */
static acre_status rise_locked(acre_cache *cache, struct private_pool *pool)
{
    struct away before = away_of(cache, pool);
    acre_status status = ACRE_OK;

    FOR_EACH_SEGMENT(segment, cache, pool)
        if (status == ACRE_OK && segment->expand)
            status = expand_wake(segment->expand);
    FOR_EACH_RANGE(range, pool)
        if (status == ACRE_OK)
            status = range_wake(range);
    account_locked(cache, pool, before);
    return status;
}

/* Undoes that. Pages that a range does not let go of stay where they are. */
static void lie_down_locked(acre_cache *cache, struct private_pool *pool)
{
    struct away before = away_of(cache, pool);
    bool is_held = false;

    FOR_EACH_RANGE(range, pool)
        is_held |= range_doze(range) != ACRE_OK;
    FOR_EACH_SEGMENT(segment, cache, pool)
        if (segment->expand && !is_held)
            expand_unwake(segment->expand);
    account_locked(cache, pool, before);
}

/* Ends the sleep of a pool that has its pages. */
static void awake_locked(acre_cache *cache, struct private_pool *pool)
{
    FOR_EACH_SEGMENT(segment, cache, pool)
        if (segment->expand)
            expand_awake(segment->expand);
    sleep_drop(cache, pool);
}

/* ---- All at once ------------------------------------------------------------------------ */

/* Whether the limits of the cache have room for what was given back. */
static acre_status check_limit_locked(acre_cache *cache, struct private_pool **targets,
                                      size_t count)
{
    struct attempt attempt = {.segment_bytes = 0};

    FOR_EACH_TARGET(pool, targets, count)
        attempt.segment_bytes +=
            sleep_away_bytes(cache, &(*pool)->small) + sleep_away_bytes(cache, &(*pool)->large);
    if (!attempt.segment_bytes || acquire_allows_locked(cache, &attempt) == ACRE_OK)
        return ACRE_OK;
    return status_fail(ACRE_ERR_DEVICE_MEMORY,
                       "acre_cache_wake: %zu bytes are needed, and with the %llu that are held "
                       "they are more than the limit of the cache; free memory, raise the limit "
                       "(acre_cache_limit_set), or let other pools sleep",
                       attempt.segment_bytes, (unsigned long long)cache->held_bytes);
}

/* Wakes all, or leaves all asleep. */
static acre_status wake_all_locked(acre_cache *cache, struct private_pool **targets, size_t count)
{
    acre_status status = ACRE_OK;

    FOR_EACH_TARGET(pool, targets, count)
        if (status == ACRE_OK)
            status = rise_locked(cache, *pool);
    FOR_EACH_TARGET(pool, targets, count)
        if (status == ACRE_OK)
            status = contents_copy(cache, (*pool)->sleep, true);
    if (status == ACRE_OK) {
        FOR_EACH_TARGET(pool, targets, count)
            awake_locked(cache, *pool);
        return status;
    }
    struct status_saved first;
    status_save(&first);
    FOR_EACH_TARGET(pool, targets, count)
        lie_down_locked(cache, *pool);
    status_restore(&first);
    return status;
}

static acre_status sleep_all_locked(acre_cache *cache, struct private_pool **targets, size_t count,
                                    acre_sleep_level level)
{
    acre_status status = ACRE_OK;
    struct status_saved first;
    size_t saved = 0;

    while (saved < count && status == ACRE_OK) {
        status = save_locked(cache, targets[saved], level);
        saved += status == ACRE_OK;
    }
    for (size_t i = 0; i < count && status == ACRE_OK; i++)
        status = doze_locked(cache, targets[i]);
    if (status == ACRE_OK) {
        FOR_EACH_TARGET(pool, targets, count)
            give_locked(cache, *pool);
        return status;
    }
    /* Memory that was only taken out is there with all its contents. Where not even
     * mapping it again works, the pool sleeps after all. */
    status_save(&first);
    FOR_EACH_TARGET(pool, targets, saved)
        if (rise_locked(cache, *pool) == ACRE_OK)
            awake_locked(cache, *pool);
    status_restore(&first);
    return status;
}

static acre_status check_call(const acre_cache *cache, const acre_pool_id *pool, const char *tag,
                              const char *call)
{
    if (!cache || (pool != NULL) == (tag != NULL))
        return status_fail(ACRE_ERR_INVALID, "%s: a cache is needed, and either a pool or a tag",
                           call);
    if (tag && !*tag)
        return status_fail(ACRE_ERR_INVALID, "%s: the tag is empty", call);
    return cache_check_fork(cache);
}

acre_status acre_cache_sleep(acre_cache *cache, const acre_pool_id *pool, const char *tag,
                             acre_sleep_level level)
{
    acre_status status = check_call(cache, pool, tag, "acre_cache_sleep");
    struct private_pool **targets = NULL;
    size_t count = 0;

    if (status != ACRE_OK)
        return status;
    if (level != ACRE_SLEEP_SAVE && level != ACRE_SLEEP_DISCARD)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_sleep: level %d does not exist",
                           (int)level);
    quick_lock_take(&cache->lock);
    status = targets_find_locked(cache, pool, tag, false, &targets, &count);
    if (status == ACRE_OK)
        status = check_captures(cache, "acre_cache_sleep");
    if (status == ACRE_OK)
        status = sleep_all_locked(cache, targets, count, level);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    heap_free(targets);
    return status;
}

static acre_status wake_locked(acre_cache *cache, const acre_pool_id *pool, const char *tag)
{
    struct private_pool **targets = NULL;
    size_t count;
    acre_status status = targets_find_locked(cache, pool, tag, true, &targets, &count);

    if (status == ACRE_OK)
        status = check_captures(cache, "acre_cache_wake");
    if (status == ACRE_OK)
        status = check_limit_locked(cache, targets, count);
    if (status == ACRE_OK)
        status = wake_all_locked(cache, targets, count);
    heap_free(targets);
    return status;
}

acre_status acre_cache_wake(acre_cache *cache, const acre_pool_id *pool, const char *tag)
{
    acre_status status = check_call(cache, pool, tag, "acre_cache_wake");

    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    status = wake_locked(cache, pool, tag);
    if (status == ACRE_ERR_DEVICE_MEMORY) {
        cache->policy->relieve(cache);
        reclaim_all_locked(cache); /* may drop the lock, and ends pools that are over */
        status = wake_locked(cache, pool, tag);
    }
    if (status == ACRE_OK)
        late_settle_locked(cache);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status;
}

/* ---- Facts ---------------------------------------------------------------------- */

acre_status acre_pool_sleep_get(acre_cache *cache, acre_pool_id id, int *out_level,
                                uint64_t *out_saved_bytes)
{
    struct private_pool *found = NULL;

    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_pool_sleep_get: a cache is needed");
    quick_lock_take(&cache->lock);
    acre_status status = sleep_find_locked(cache, id, &found);
    if (status == ACRE_OK) {
        const struct sleep *sleep = found->sleep;
        if (out_level)
            *out_level = sleep ? (int)sleep->level : 0;
        if (out_saved_bytes)
            *out_saved_bytes = sleep && sleep->saved ? sleep->saved_bytes : 0;
    }
    quick_lock_drop(&cache->lock);
    return status;
}
