/* SPDX-License-Identifier: MIT */
/* The placement decisions of a cache, as a table chosen at creation.
 *
 * The engine finds, cuts, joins and accounts for blocks; a policy says how
 * large a block is, which pool and segment size serve it, which free block to
 * take and whether to cut it, and keeps the index of free blocks.
 *
 * Every entry is called with the cache's lock held and, acquire aside, must not drop it.
 */
#ifndef SRC_CACHE_POLICY_H
#define SRC_CACHE_POLICY_H

#include <acre/cache.h>

struct attempt;
struct block;
struct pool;
struct request;

/* What else depends on the policy. Nothing outside a policy asks for its id, or infers it
 * from what it sees; it asks for the fact that it needs. */
struct policy_facts {
    bool has_lanes;       /* threads keep free blocks: cache->front is there, and live blocks
                           * have a tag (block.h) and an arena                              */
    bool counts_late;     /* statistics are brought up to date by settle; the policy counts
                           * split blocks, and there are no oversize ones                   */
    bool can_stitch;      /* memory may be stitched (stitch.h)                              */
    bool can_expand;      /* segments may be expandable (grow.c)                            */
    bool splits_to_limit; /* blocks beyond max_split_size are released before all others    */
};

struct policy {
    acre_policy id;
    const char *name;
    struct policy_facts facts;

    /* Block size for a request; 0 when it cannot be represented. */
    size_t (*round)(const acre_cache *cache, size_t bytes);
    /* Whether the small pool serves a block of that size. */
    bool (*is_small)(size_t rounded);
    /* What to ask of the device for a request whose rounded size and pool are
     * known; 0 as above. */
    size_t (*segment_bytes)(const acre_cache *cache, const struct request *request);

    /* Prepares what the policy keeps of a cache, and ends it. NULL: nothing.
     * Errors: ACRE_ERR_HOST_MEMORY. */
    acre_status (*init)(acre_cache *cache);
    void (*fini)(acre_cache *cache);
    /* Prepares the index of a pool, and ends it. Errors: ACRE_ERR_HOST_MEMORY. */
    acre_status (*pool_init)(acre_cache *cache, struct pool *pool);
    void (*pool_fini)(acre_cache *cache, struct pool *pool);
    /* Puts a FREE block into the index of its pool, and takes one out. */
    void (*insert)(struct pool *pool, struct block *block);
    void (*remove)(struct pool *pool, struct block *block);
    /* Walks the index in an order of the policy's choice; NULL at the end. The
     * current block may be removed once the next one is known. */
    struct block *(*first)(const struct pool *pool);
    struct block *(*next)(const struct pool *pool, const struct block *block);
    /* Bytes of the largest block in the index; 0: there is none. */
    size_t (*largest)(const struct pool *pool);
    /* Called before a segment is obtained for a request, so that inserting blocks
     * of it cannot fail. NULL: nothing to do. Errors: ACRE_ERR_HOST_MEMORY. */
    acre_status (*prepare)(acre_cache *cache, const struct request *request);
    /* A block that serves the request, taken out of the index; NULL: none. */
    struct block *(*find)(acre_cache *cache, const struct request *request);
    /* From a miss of find to a FREE block that is in no index, large enough. May drop and
     * retake the lock. On failure, attempt_failed is to be called. */
    acre_status (*acquire)(acre_cache *cache, struct attempt *attempt, struct block **out);
    /* Whether to cut the request off that block, which is larger. */
    bool (*may_split)(const acre_cache *cache, const struct block *block, size_t rounded);

    /* Live statistics (stats.h): a block was handed out; */
    void (*admit)(acre_cache *cache, struct block *block);
    /* its free was asked for, and it waits for streams or is free already; */
    void (*dismiss)(acre_cache *cache, bool is_small, size_t bytes, size_t requested,
                    bool is_waiting);
    /* nobody uses it any more and it goes back to its pool next. */
    void (*retire)(acre_cache *cache, struct block *block);
    /* Gives back free blocks held outside the pools; whether there were any. */
    bool (*relieve)(acre_cache *cache);
    /* Caching was switched on or off. */
    void (*enable)(acre_cache *cache, bool enabled);
    /* Brings cache->stats up to date before they are read or reset, and goes on
     * from what is in there afterwards. */
    void (*settle)(acre_cache *cache);
    void (*resume)(acre_cache *cache);
    /* Whether the index of a pool is sound; names the fact that does not hold. */
    bool (*pool_check)(const struct pool *pool, const char **fact);
};

/* The table of a policy; never NULL. */
const struct policy *policy_get(acre_policy id);

extern const struct policy policy_torch;
extern const struct policy policy_acre;

#endif
