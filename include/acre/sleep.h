/* SPDX-License-Identifier: MIT */
/** @file sleep.h
 *  @brief Memory that is lent back to the device for a while, addresses kept.
 *
 * A serving process that idles, or trains and generates in turn, can give the
 * memory of its weights or caches back without forgetting where they were:
 *
 *     acre_pool_tag_set(cache, pool, "weights");
 *     ...
 *     acre_cache_sleep(cache, NULL, "weights", ACRE_SLEEP_SAVE);
 *     ...                               others use the memory
 *     acre_cache_wake(cache, NULL, "weights");
 *
 * What sleeps is private pools (acre/pool.h), one or all with a tag. A sleeping
 * pool holds no memory of the device. Its allocations stay live and keep their
 * addresses, so graphs that were captured before work again after waking. Until
 * then, using them fails as any access to addresses without memory does; the cache
 * refuses to allocate from a sleeping pool, to free into it and to export from it with
 * ACRE_ERR_STATE. What the deleter of a data pointer (acre/allocator.h) or PyTorch frees into it
 * stays live until the pool wakes, and is freed then.
 *
 * Only mapped pages can go and come back at the same addresses: under policy acre
 * make the pool with ACRE_POOL_STITCHED, under policy torch set
 * `expandable_segments:True`.
 *
 * Both calls hold the cache's lock and wait for all work of the device first.
 * Threads: every call may come from any thread.
 *
 * Fork: as the cache of the pools (acre/cache.h).
 */
#ifndef ACRE_SLEEP_H
#define ACRE_SLEEP_H

#include <acre/pool.h>

ACRE_BEGIN_DECLS

/** Room for a tag, its terminating zero included, in bytes. */
#define ACRE_TAG_BYTES 32

/** What becomes of the contents. */
typedef enum acre_sleep_level {
    ACRE_SLEEP_SAVE = 1,    /**< Kept in host memory, there again after waking.   */
    ACRE_SLEEP_DISCARD = 2, /**< Dropped: undefined after waking.                 */
} acre_sleep_level;

/** Gives a pool a tag, by which several can sleep and wake together.
 *
 * NULL or "" takes the tag away. A pool has one.
 * Errors: ACRE_ERR_NOT_FOUND (no such pool), ACRE_ERR_INVALID (31 characters at
 *         most; the shared pool has none).
 */
ACRE_API acre_status acre_pool_tag_set(acre_cache *cache, acre_pool_id id, const char *tag);

/** The tag of a pool, "" without one, into @p buffer of ACRE_TAG_BYTES.
 *  Errors: ACRE_ERR_NOT_FOUND. */
ACRE_API acre_status acre_pool_tag_get(acre_cache *cache, acre_pool_id id,
                                       char buffer[ACRE_TAG_BYTES]);

/** Puts pools to sleep: @p pool, or all with @p tag; exactly one of them is given.
 *
 * Pools that sleep already stay as they are. Either all go to sleep, or everything
 * is as it was before.
 * Errors: ACRE_ERR_NOT_FOUND (no such pool, or none with that tag),
 *         ACRE_ERR_UNSUPPORTED (a pool has plain segments, or is the shared pool),
 *         ACRE_ERR_STATE (a capture is under way), ACRE_ERR_BUSY (a block is
 *         exported, or was freed and others still use it; another thread obtains memory
 *         for the pool, or launches a recording of it at this moment), ACRE_ERR_INVALID,
 *         ACRE_ERR_HOST_MEMORY (no room for the contents), ACRE_ERR_DEVICE.
 */
ACRE_API acre_status acre_cache_sleep(acre_cache *cache, const acre_pool_id *pool,
                                      const char *tag, acre_sleep_level level);

/** Wakes pools: memory at the same addresses again, and what was saved in it.
 *
 * Pools that are awake stay as they are. When the device has too little memory, or the
 * limits of the cache leave too little, the cache gives back what it has idle and tries
 * once more. Either all wake, or all sleep on with nothing lost.
 * Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_INVALID, ACRE_ERR_STATE (a capture is under
 *         way), ACRE_ERR_DEVICE_MEMORY, ACRE_ERR_HOST_MEMORY, ACRE_ERR_DEVICE.
 */
ACRE_API acre_status acre_cache_wake(acre_cache *cache, const acre_pool_id *pool,
                                     const char *tag);

/** How deep a pool sleeps: an @ref acre_sleep_level, 0 when it is awake; and how
 *  many bytes of host memory keep its contents. Either result may be NULL.
 *  Errors: ACRE_ERR_NOT_FOUND. */
ACRE_API acre_status acre_pool_sleep_get(acre_cache *cache, acre_pool_id id, int *out_level,
                                         uint64_t *out_saved_bytes);

ACRE_END_DECLS

#endif
