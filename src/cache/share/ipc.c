/* SPDX-License-Identifier: MIT */
/* Exporting blocks of a cache to other processes. */
#include "backend/backend.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/engine.h"
#include "cache/fork.h"
#include "cache/pools/sleep.h"
#include "cache/torch/expand.h"
#include "cache/acre/stitch.h"

#include <acre/share.h>

#include <string.h>

static acre_status fail_pointer(const void *pointer)
{
    return status_fail(ACRE_ERR_INVALID,
                       "invalid device pointer: %p does not lie in a live allocation of this "
                       "cache",
                       pointer);
}

/* The live block that begins at or contains an address, or NULL. */
static struct block *find_around_locked(const acre_cache *cache, const char *address)
{
    struct block *block = engine_find_locked(cache, address);

    if (block)
        return block;
    LIST_FOR_EACH(link, &cache->segments) {
        const struct segment *segment = CONTAINER_OF(link, struct segment, link);

        if (address < segment->base || address >= segment->base + segment->bytes)
            continue;
        block = segment->first;
        while (address >= block->base + block->bytes)
            block = block->next;
        if (block->state != BLOCK_LENT) /* then another segment has it */
            return engine_find_locked(cache, block->base);
    }
    return NULL;
}

/* Shares the pages around a block of an expandable segment, or of stitched memory. */
static acre_status share_pages_locked(acre_cache *cache, const struct block *block,
                                      struct share **out)
{
    struct stitch_span span = stitch_span_of(block);
    void **pages = heap_array(span.count, sizeof *pages);
    acre_status status = ACRE_OK;

    if (!pages)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < span.count; i++) {
        size_t index = span.pages ? span.pages[i] : span.first + i;
        const struct expand_page *at = &span.page_space->pages[index];
        pages[i] = at->handle;
        if (!at->has_handle)
            status = status_fail(ACRE_ERR_UNSUPPORTED,
                                 "a page of the block at %p has no handle "
                                 "any more, because the device once failed to unmap it",
                                 (void *)block->base);
    }
    struct share_pages shared = {span.base, pages, span.count, span.page_space->page_bytes};
    if (status == ACRE_OK)
        status = share_create_pages(&cache->shares, cache->device, &shared, out);
    heap_free(pages);
    return status;
}

/* Makes a share of whatever kind of memory a block lies in. */
static acre_status share_make_locked(acre_cache *cache, const struct block *block,
                                     struct share **out)
{
    if (!segment_is_plain(block->segment))
        return share_pages_locked(cache, block, out);
    return share_create_plain(&cache->shares, cache->device, block->segment->base, out);
}

/* Shares a live block that is not shared yet. */
static acre_status share_block_locked(acre_cache *cache, struct block *block, struct share **out)
{
    struct share *share = NULL;
    bool is_tagged = block_is_tagged(block);
    acre_status status;

    status = share_make_locked(cache, block, &share);
    if (status != ACRE_OK)
        return status;
    /* From here on only a thread with the lock can free it (front.c). */
    if (is_tagged && !block_tag_use(block)) {
        share_destroy(share);
        return fail_pointer(block->base); /* freed meanwhile */
    }
    status = deferred_hold(&cache->deferred, block, &share->hold);
    if (status != ACRE_OK) {
        if (is_tagged && !block->uses)
            block_tag_live(block);
        share_destroy(share);
        return status;
    }
    *out = share;
    return ACRE_OK;
}

static acre_status export_locked(acre_cache *cache, const char *pointer, struct share **out)
{
    struct block *block = find_around_locked(cache, pointer);

    if (!block)
        return fail_pointer(pointer);
    if (block->state == BLOCK_DIRECT)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "the memory at %p was allocated while caching "
                           "was switched off; only cached memory can be exported",
                           (const void *)pointer);
    if (pool_is_asleep(block->pool))
        return sleep_refuse(block->pool->owner, "acre_share_export");
    *out = share_of(block);
    return *out ? ACRE_OK : share_block_locked(cache, block, out);
}

acre_status acre_share_export(acre_cache *cache, const void *pointer, void *handle, size_t capacity,
                              size_t *out_bytes, uint64_t *out_offset)
{
    struct share *share = NULL;

    if (!cache || !handle || !out_bytes || !out_offset)
        return status_fail(ACRE_ERR_INVALID, "acre_share_export: an argument is NULL");
    if (capacity < SHARE_HANDLE_BYTES)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_share_export: room for %zu bytes; a handle "
                           "needs %d",
                           capacity, ACRE_SHARE_HANDLE_MAX);
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    acre_status status = export_locked(cache, pointer, &share);
    if (status == ACRE_OK && share) {
        memcpy(handle, share->handle, SHARE_HANDLE_BYTES);
        *out_bytes = SHARE_HANDLE_BYTES;
        *out_offset = (uint64_t)((const char *)pointer - share->first);
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_share_users(acre_cache *cache, const void *pointer, uint64_t *out_count)
{
    acre_status status = ACRE_OK;

    if (!cache || !out_count)
        return status_fail(ACRE_ERR_INVALID, "acre_share_users: an argument is NULL");
    quick_lock_take(&cache->lock);
    const struct block *block = find_around_locked(cache, pointer);
    const struct share *share = block ? share_of(block) : NULL;
    if (!block)
        status = fail_pointer(pointer);
    else if (share)
        status = share_users(share, out_count);
    else
        *out_count = 0;
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_share_revoke(acre_cache *cache, const void *pointer, uint64_t *out_count)
{
    acre_status status = ACRE_OK;

    if (!cache || !out_count)
        return status_fail(ACRE_ERR_INVALID, "acre_share_revoke: an argument is NULL");
    quick_lock_take(&cache->lock);
    struct block *block = find_around_locked(cache, pointer);
    const struct share *share = block ? share_of(block) : NULL;
    *out_count = 0;
    if (!block)
        status = fail_pointer(pointer);
    else
        deferred_settle_holds(&cache->deferred, block);
    if (block && block_is_tagged(block) && share && !block->uses)
        block_tag_live(block); /* it can be freed without the lock again */
    share = block ? share_of(block) : NULL;
    if (share)
        status = share_users(share, out_count);
    quick_lock_drop(&cache->lock);
    return status;
}
