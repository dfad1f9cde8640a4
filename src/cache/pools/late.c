/* SPDX-License-Identifier: MIT */
/* See late.h. */
#include "cache/pools/late.h"

#include "base/heap.h"
#include "base/log.h"
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

/* Notes a live block of a sleeping pool. False: it is none, or there is no host memory. */
static bool late_note(acre_cache *cache, void *pointer)
{
    quick_lock_take(&cache->lock);
    const struct block *block = engine_find_locked(cache, pointer);
    bool is_late = block && block->segment && pool_is_asleep(block->pool) && has_room(&cache->late);
    if (is_late)
        cache->late.pointers[cache->late.count++] = pointer;
    quick_lock_drop(&cache->lock);
    return is_late;
}

acre_status late_free(acre_cache *cache, void *pointer, acre_status refusal)
{
    acre_status status = refusal;

    for (int i = 0; i < LATE_TRIES && status == ACRE_ERR_STATE; i++)
        status = late_note(cache, pointer) ? ACRE_OK : acre_cache_free(cache, pointer);
    return status;
}

void late_settle(acre_cache *cache)
{
    struct status_saved before;

    status_save(&before); /* other pools may still refuse */
    quick_lock_take(&cache->lock);
    struct late late = cache->late;
    cache->late = (struct late){0};
    quick_lock_drop(&cache->lock);
    for (size_t i = 0; i < late.count; i++) {
        acre_status status = acre_cache_free(cache, late.pointers[i]);
        if (status != ACRE_OK && late_free(cache, late.pointers[i], status) != ACRE_OK)
            log_line(ACRE_LOG_ERROR, "free of %p failed: %s", late.pointers[i], acre_last_error());
    }
    heap_free(late.pointers);
    status_restore(&before);
}

void late_fini(acre_cache *cache)
{
    heap_free(cache->late.pointers);
}
