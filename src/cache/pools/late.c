/* SPDX-License-Identifier: MIT */
/* See late.h. */
#include "cache/pools/late.h"

#include "base/heap.h"
#include "base/log.h"
#include "cache/cache.h"
#include "cache/engine.h"

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

bool late_note(acre_cache *cache, void *pointer)
{
    quick_lock_take(&cache->lock);
    const struct block *block = engine_find_locked(cache, pointer);
    bool is_late = block && block->segment && pool_is_asleep(block->pool) && has_room(&cache->late);
    if (is_late)
        cache->late.pointers[cache->late.count++] = pointer;
    quick_lock_drop(&cache->lock);
    return is_late;
}

void late_settle(acre_cache *cache)
{
    quick_lock_take(&cache->lock);
    struct late late = cache->late;
    cache->late = (struct late){0};
    quick_lock_drop(&cache->lock);
    for (size_t i = 0; i < late.count; i++) {
        acre_status status = acre_cache_free(cache, late.pointers[i]);
        bool is_later = status == ACRE_ERR_STATE && late_note(cache, late.pointers[i]);
        if (status != ACRE_OK && !is_later)
            log_line(ACRE_LOG_ERROR, "free of %p failed: %s", late.pointers[i], acre_last_error());
    }
    heap_free(late.pointers);
}

void late_fini(acre_cache *cache)
{
    heap_free(cache->late.pointers);
}
