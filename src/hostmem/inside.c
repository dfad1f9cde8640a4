/* SPDX-License-Identifier: MIT */
/* See inside.h.
 *
 * The locks around a fork are taken without their marks: a process may have several caches,
 * and marks allow one lock of a rank. */
#include "hostmem/inside.h"

#include "cache/acre/arena.h"
#include "cache/cache.h"
#include "cache/threads/front.h"

size_t inside_block_bytes(const acre_cache *cache, const void *pointer)
{
    const struct block *block = map_find(&cache->map, pointer);

    /* The tag is read last: while it is live, the block belongs to the caller. */
    if (!block || (atomic_load_explicit(&block->tag, memory_order_acquire) & ~BLOCK_TAG_USED) !=
                      (uintptr_t)pointer)
        return 0;
    return block->units * BLOCK_UNIT;
}

uint64_t inside_held_bytes(const acre_cache *cache)
{
    return __atomic_load_n(&cache->held_bytes, __ATOMIC_RELAXED);
}

void inside_fit_best(acre_cache *cache)
{
    /* Every request is below, so that blocks are cut at their beginning as always. */
    cache->large.care_bytes = SIZE_MAX - 1;
}

void inside_walk_free(acre_cache *cache, inside_free_fn fn, void *arg)
{
    const struct pool *pool = &cache->large;
    bool goes_on = true;

    quick_lock_take(&cache->lock);
    front_drain_locked(cache, true);
    for (struct block *block = arena_first(pool); block && goes_on; block = arena_next(pool, block))
        goes_on = fn(arg, block->base, block->bytes, !block_is_split(block));
    quick_lock_drop(&cache->lock);
}
