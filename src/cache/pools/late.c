/* SPDX-License-Identifier: MIT */
/* See late.h. */
#include "cache/pools/late.h"

#include "backend/backend.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/engine.h"
#include "cache/observe/record.h"

void late_init(struct late *late)
{
    *late = (struct late){0};
    list_init(&late->blocks);
}

/* Whether a free that was refused so may succeed later: drivers have many reasons, such as memory
 * of the device for an event. */
static bool may_succeed(acre_status refusal)
{
    return refusal != ACRE_OK && refusal != ACRE_ERR_INVALID && refusal != ACRE_ERR_FORKED;
}

/* Notes a live block. Its tag, if it has one, says that it is nobody's to free. */
static void late_note_locked(acre_cache *cache, struct block *block)
{
    block->is_late = true;
    if (block->state == BLOCK_DIRECT) {
        cache->late.direct_count++;
        return;
    }
    if (block_is_tagged(block))
        atomic_store_explicit(&block->tag, 0, memory_order_release);
    list_push_back(&cache->late.blocks, &block->link);
}

void late_return_locked(acre_cache *cache, struct block *block, void *base, size_t bytes)
{
    struct acre_device *device = cache->device;
    struct status_saved before;

    status_save(&before);
    if (device->ops->free(device->self, device->index, base) == ACRE_OK) {
        block_destroy(&cache->blocks, block);
    } else {
        block->base = base;
        block->bytes = bytes;
        block->state = BLOCK_DIRECT;
        list_push_back(&cache->direct, &block->link);
        late_note_locked(cache, block);
    }
    status_restore(&before);
}

void late_withdraw_locked(acre_cache *cache, struct block *block)
{
    block->is_late = false;
    if (block->state == BLOCK_DIRECT) {
        cache->late.direct_count--;
        return;
    }
    list_remove(&block->link);
    if (block_is_tagged(block)) /* used, so that only a thread with the lock can claim it */
        atomic_store_explicit(&block->tag, (uintptr_t)block->base | BLOCK_TAG_USED,
                              memory_order_release);
}

/* Frees a live block, or notes it when that may succeed later. */
static acre_status late_try_locked(acre_cache *cache, struct block *block)
{
    acre_status status = cache_free_block_locked(cache, block);

    if (!may_succeed(status))
        return status;
    late_note_locked(cache, block);
    return ACRE_OK;
}

acre_status late_free(acre_cache *cache, void *pointer, acre_status refusal)
{
    acre_status status = refusal;

    if (!may_succeed(refusal))
        return refusal;
    record_gather(cache, ACRE_CONTEXT_ALL);
    quick_lock_take(&cache->lock);
    struct block *block = engine_find_locked(cache, pointer);
    if (block && refusal == ACRE_ERR_STATE) { /* the pool may have woken in between */
        status = late_try_locked(cache, block);
    } else if (block) {
        late_note_locked(cache, block);
        status = ACRE_OK;
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    record_gather_end(cache);
    return status;
}

void late_settle_locked(acre_cache *cache)
{
    struct list *noted = &cache->late.blocks;
    struct status_saved before;

    if (list_empty(noted) && !cache->late.direct_count)
        return;
    status_save(&before);            /* some may still be refused */
    struct list *last = noted->prev; /* what is refused again comes behind it, in order */
    for (bool is_last = list_empty(noted); !is_last;) {
        struct list *first = noted->next;
        is_last = first == last;
        late_try_locked(cache, CONTAINER_OF(first, struct block, link));
    }
    LIST_FOR_EACH_SAFE(link, after, &cache->direct) {
        struct block *block = CONTAINER_OF(link, struct block, link);
        if (block->is_late)
            late_try_locked(cache, block);
    }
    status_restore(&before);
}
