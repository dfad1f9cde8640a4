/* SPDX-License-Identifier: MIT */
#include "cache/pool.h"

#include "base/check.h"

struct pool_key {
    uintptr_t stream;
    size_t bytes;
};

static inline bool free_less(const struct block *a, const struct block *b)
{
    if (a->bytes != b->bytes && a->stream == b->stream)
        return a->bytes < b->bytes;
    if (a->stream != b->stream)
        return (uintptr_t)a->stream < (uintptr_t)b->stream;
    if (a->order != b->order)
        return a->order < b->order;
    return (uintptr_t)a->base < (uintptr_t)b->base;
}

static inline bool free_before(const struct block *block, const struct pool_key *key)
{
    if ((uintptr_t)block->stream != key->stream)
        return (uintptr_t)block->stream < key->stream;
    return block->bytes < key->bytes;
}

RBTREE_DEFINE(free_set, struct block, node, struct pool_key, free_less, free_before);

void pool_init(struct pool *pool, bool is_small)
{
    *pool = (struct pool){.is_small = is_small};
    rbtree_init(&pool->free);
}

void pool_insert(struct pool *pool, struct block *block)
{
    CHECK(block->state == BLOCK_FREE && block->pool == pool);
    block->gc_base = pool->find_count;
    free_set_insert(&pool->free, block);
    pool->free_count++;
    pool->free_bytes += block->bytes;
}

void pool_remove(struct pool *pool, struct block *block)
{
    CHECK(block->state == BLOCK_FREE && block->pool == pool);
    free_set_remove(&pool->free, block);
    pool->free_count--;
    pool->free_bytes -= block->bytes;
}

struct block *pool_find(const struct pool *pool, const void *stream, size_t bytes)
{
    struct pool_key key = {(uintptr_t)stream, bytes};
    struct block *block = free_set_lower_bound(&pool->free, &key);

    return block && block->stream == stream ? block : NULL;
}

struct block *pool_find_last(const struct pool *pool, const void *stream)
{
    struct pool_key key = {(uintptr_t)stream, SIZE_MAX};
    struct block *block = free_set_lower_bound(&pool->free, &key);

    block = block ? free_set_prev(block) : free_set_last(&pool->free);
    return block && block->stream == stream ? block : NULL;
}

struct block *pool_first(const struct pool *pool)
{
    return free_set_first(&pool->free);
}

struct block *pool_last(const struct pool *pool)
{
    return free_set_last(&pool->free);
}

struct block *pool_next(const struct block *block)
{
    return free_set_next(block);
}

struct block *pool_prev(const struct block *block)
{
    return free_set_prev(block);
}

bool pool_check(const struct pool *pool, const char **fact)
{
    uint64_t count = 0, bytes = 0;

    *fact = "pool: the tree is balanced and in order";
    if (!free_set_check(&pool->free))
        return false;
    for (const struct block *block = pool_first(pool); block; block = pool_next(block)) {
        *fact = "pool: every member is free and belongs to the pool";
        if (block->state != BLOCK_FREE || block->pool != pool)
            return false;
        *fact = "pool: no block is older than the clock";
        if (block->gc_base > pool->find_count)
            return false;
        count++;
        bytes += block->bytes;
    }
    *fact = "pool: the sums are those of its members";
    return count == pool->free_count && bytes == pool->free_bytes;
}
