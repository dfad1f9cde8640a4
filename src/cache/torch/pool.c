/* SPDX-License-Identifier: MIT */
#include "cache/torch/pool.h"

#include "base/check.h"
#include "base/heap.h"
#include "cache/torch/shelf.h"

#include <string.h>

void pool_init(struct pool *pool, bool is_small)
{
    *pool = (struct pool){.is_small = is_small, .page_bytes = SIZE_MAX, .care_bytes = SIZE_MAX};
}

void pool_fini(struct pool *pool)
{
    for (size_t i = 0; i < pool->shelf_count; i++)
        shelf_destroy(pool->shelves[i]);
    heap_free(pool->shelves);
    pool->shelves = NULL;
    pool->recent = NULL;
    pool->shelf_count = pool->shelf_capacity = 0;
}

/* Number of shelves whose stream comes before the given one. */
static size_t shelf_rank(const struct pool *pool, const void *stream)
{
    size_t low = 0, high = pool->shelf_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)pool->shelves[middle]->stream < (uintptr_t)stream)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct shelf *shelf_search(const struct pool *pool, const void *stream)
{
    size_t rank = shelf_rank(pool, stream);

    if (rank == pool->shelf_count || pool->shelves[rank]->stream != stream)
        return NULL;
    return pool->shelves[rank];
}

/* The shelf of a stream, or NULL. */
static inline struct shelf *shelf_of(struct pool *pool, const void *stream)
{
    struct shelf *shelf = pool->recent;

    if (LIKELY(shelf && shelf->stream == stream))
        return shelf;
    shelf = shelf_search(pool, stream);
    if (shelf)
        pool->recent = shelf;
    return shelf;
}

acre_status pool_prepare(struct pool *pool, void *stream)
{
    struct shelf *shelf;

    if (shelf_of(pool, stream))
        return ACRE_OK;
    if (pool->shelf_count == pool->shelf_capacity) {
        size_t capacity = pool->shelf_capacity ? 2 * pool->shelf_capacity : 4;
        void *grown = heap_realloc(pool->shelves, capacity * sizeof(struct shelf *));
        if (!grown)
            return ACRE_ERR_HOST_MEMORY;
        pool->shelves = grown;
        pool->shelf_capacity = capacity;
    }
    shelf = shelf_create(stream);
    if (!shelf)
        return ACRE_ERR_HOST_MEMORY;
    size_t rank = shelf_rank(pool, stream);
    memmove(pool->shelves + rank + 1, pool->shelves + rank,
            (pool->shelf_count - rank) * sizeof *pool->shelves);
    pool->shelves[rank] = shelf;
    pool->shelf_count++;
    return ACRE_OK;
}

void pool_insert(struct pool *pool, struct block *block)
{
    struct shelf *shelf = shelf_of(pool, block->stream);

    CHECK(shelf && block->state == BLOCK_FREE && block->pool == pool);
    block->gc_base = pool->find_count;
    shelf_insert(shelf, block);
    pool->free_count++;
    pool->free_bytes += block->bytes;
}

void pool_remove(struct pool *pool, struct block *block)
{
    CHECK(block->state == BLOCK_FREE && block->pool == pool);
    shelf_remove(shelf_of(pool, block->stream), block);
    pool->free_count--;
    pool->free_bytes -= block->bytes;
}

struct block *pool_find(struct pool *pool, const void *stream, size_t bytes)
{
    const struct shelf *shelf = shelf_of(pool, stream);

    return shelf ? shelf_find(shelf, bytes) : NULL;
}

struct block *pool_find_last(struct pool *pool, const void *stream)
{
    const struct shelf *shelf = shelf_of(pool, stream);

    return shelf ? shelf_last(shelf) : NULL;
}

/* The first block of the shelves from rank on. */
static struct block *first_from(const struct pool *pool, size_t rank)
{
    struct block *block = NULL;

    for (; !block && rank < pool->shelf_count; rank++)
        block = shelf_first(pool->shelves[rank]);
    return block;
}

struct block *pool_first(const struct pool *pool)
{
    return first_from(pool, 0);
}

struct block *pool_next(const struct pool *pool, const struct block *block)
{
    size_t rank = shelf_rank(pool, block->stream);
    struct block *next = shelf_next(pool->shelves[rank], block);

    return next ? next : first_from(pool, rank + 1);
}

size_t pool_largest(const struct pool *pool)
{
    size_t most = 0;

    for (size_t i = 0; i < pool->shelf_count; i++) {
        const struct block *last = shelf_last(pool->shelves[i]);
        most = last && last->bytes > most ? last->bytes : most;
    }
    return most;
}

struct block *pool_prev(struct pool *pool, const struct block *block)
{
    return shelf_prev(shelf_of(pool, block->stream), block);
}

struct block *pool_following(struct pool *pool, const struct block *block)
{
    return shelf_next(shelf_of(pool, block->stream), block);
}

struct shelf *pool_shelf(struct pool *pool, const void *stream)
{
    struct shelf *shelf = shelf_of(pool, stream);

    CHECK(shelf);
    return shelf;
}

bool pool_check(const struct pool *pool, const char **fact)
{
    uint64_t count = 0, bytes = 0;

    for (size_t i = 0; i < pool->shelf_count; i++) {
        *fact = "pool: shelves are in the order of their streams";
        if (i && (uintptr_t)pool->shelves[i - 1]->stream >= (uintptr_t)pool->shelves[i]->stream)
            return false;
        if (!shelf_check(pool->shelves[i], fact))
            return false;
    }
    for (const struct block *block = pool_first(pool); block; block = pool_next(pool, block)) {
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
