/* SPDX-License-Identifier: MIT */
/* A private pool: a small and a large pool of its own, and who needs them.
 *
 *           private_pool_create        private_pool_unuse, the last one
 *     none ─────────────────────► USED ────────────────────────────────► FREEABLE
 *      ▲                            gives nothing back                      │
 *      └─────────── private_pool_destroy: nothing is held any more ─────────┘
 *
 * What a pool holds from the device is counted in one place, pool_gain and
 * pool_lose: bytes, whether they came as a segment or as pages of one, and
 * segments as objects. A pool may end only when both are 0, so however memory
 * was obtained, cut, joined and given back, the two sides balance.
 *
 * The account of a pool outlives it, since its statistics do.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_PRIVATE_POOL_H
#define SRC_CACHE_PRIVATE_POOL_H

#include "cache/torch/pool.h"

#include <acre/sleep.h>

struct sleep;

/* Where segments of a pool come from; all NULL: the device. */
struct pool_source {
    acre_allocator *allocator;
    acre_pool_alloc_fn alloc;
    acre_pool_free_fn free;
    void *arg;
};

/* reserved_bytes_by_private_pools of one id. */
struct pool_account {
    struct list link;          /* in the cache's list                      */
    acre_pool_id id;
    acre_stat_array reserved;
    bool is_shown;             /* it has ever held memory                  */
};

struct private_pool {
    struct list link;          /* in the cache's list, oldest first        */
    acre_pool_id id;
    struct pool small, large;
    struct pool_source source;
    struct pool_account *account; /* in the cache's list                   */
    uint64_t use_count;        /* 0: freeable                              */
    uint64_t kept_count;       /* of these, those of scopes and recordings,
                                  which nobody else can drop               */
    uint32_t busy_count;       /* calls that dropped the lock and return   */
    bool has_scope;            /* one is open                              */
    bool helps_on_oom;         /* ACRE_POOL_USE_ON_OOM                     */
    bool gives_back;           /* ACRE_POOL_GIVES_BACK                     */
    struct sleep *sleep;       /* while it sleeps; else NULL. sleep.c      */
    char tag[ACRE_TAG_BYTES];  /* "" without                               */
    bool is_baked;             /* its addresses may be in graphs: what it holds
                                  is neither lent nor given back while used */
};

static inline bool pool_id_equal(acre_pool_id a, acre_pool_id b)
{
    return a.graph == b.graph && a.user == b.user;
}

static inline bool private_pool_has_source(const struct private_pool *pool)
{
    return pool->source.alloc || pool->source.allocator;
}

/* Creates a pool, used once, without indices; its account comes from accounts or
 * is added there. NULL: no host memory. */
struct private_pool *private_pool_create(struct list *accounts, acre_pool_id id);
/* Ends a pool that holds nothing; it is in no list. */
void private_pool_destroy(struct private_pool *pool);
/* Frees an account, and all. */
void pool_accounts_fini(struct list *accounts);

/* Whether it may end: nobody uses it, and it holds nothing. */
bool private_pool_is_over(const struct private_pool *pool);

/* The pool of an id in a list of them, or NULL. */
struct private_pool *private_pool_find(const struct list *pools, acre_pool_id id);
/* The account of an id, or NULL. */
struct pool_account *pool_account_find(const struct list *accounts, acre_pool_id id);

/* Asks the source of a pool for a segment, and gives one back. No lock is held.
 * Errors: ACRE_ERR_DEVICE_MEMORY, what the allocator says. */
acre_status pool_source_alloc(const struct pool_source *source, struct acre_device *device,
                              size_t bytes, void *stream, void **out);
void pool_source_free(const struct pool_source *source, struct acre_device *device, void *base,
                      size_t bytes, void *stream);

/* Any pool, shared or private, gained or lost bytes of the device. */
void pool_gain(struct pool *pool, acre_cache_stats *stats, size_t bytes);
void pool_lose(struct pool *pool, acre_cache_stats *stats, size_t bytes);

#endif
