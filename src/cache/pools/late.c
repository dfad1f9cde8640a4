/* SPDX-License-Identifier: MIT */
/* See late.h. */
#include "cache/pools/late.h"

#include "base/heap.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/engine.h"

enum {
    LATE_TRIES = 8, /* so often a pool may wake and fall asleep again right then */
};

static bool has_room(struct late *late)
{
    if (late->count < late->capacity)
        return true;
    size_t capacity = 2 * late->capacity + 16;
    void **pointers = heap_realloc(late->pointers, capacity * sizeof *pointers);
    if (!pointers)
        return false;
    late->pointers = pointers;
    late->capacity = capacity;
    return true;
}

/* Notes a live block, of a sleeping pool or of any. False: it is none, or host memory is short. */
static bool late_note(acre_cache *cache, void *pointer, bool is_any)
{
    quick_lock_take(&cache->lock);
    const struct block *block = engine_find_locked(cache, pointer);
    bool is_late = block && (is_any || (block->segment && pool_is_asleep(block->pool))) &&
                   has_room(&cache->late);
    if (is_late)
        cache->late.pointers[cache->late.count++] = pointer;
    quick_lock_drop(&cache->lock);
    return is_late;
}

/* Whether a free that was refused so may succeed later. */
static bool may_succeed(acre_status refusal)
{
    return refusal == ACRE_ERR_STATE || refusal == ACRE_ERR_DEVICE ||
           refusal == ACRE_ERR_HOST_MEMORY;
}

acre_status late_free(acre_cache *cache, void *pointer, acre_status refusal)
{
    acre_status status = refusal;

    for (int i = 0; i < LATE_TRIES && status == ACRE_ERR_STATE; i++)
        status = late_note(cache, pointer, false) ? ACRE_OK : acre_cache_free(cache, pointer);
    return may_succeed(status) && late_note(cache, pointer, true) ? ACRE_OK : status;
}

void late_settle_locked(acre_cache *cache)
{
    struct late *late = &cache->late;
    struct status_saved before;
    size_t kept = 0;

    if (!late->count)
        return;
    status_save(&before); /* some may still be refused */
    for (size_t i = 0; i < late->count; i++) {
        struct block *block = engine_find_locked(cache, late->pointers[i]);
        if (block && may_succeed(cache_free_block_locked(cache, block)))
            late->pointers[kept++] = late->pointers[i];
    }
    late->count = kept;
    status_restore(&before);
}

void late_fini(acre_cache *cache)
{
    heap_free(cache->late.pointers);
}
