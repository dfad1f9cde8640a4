/* SPDX-License-Identifier: MIT */
#include "cache/arena.h"

#include "base/heap.h"

acre_status arenas_init(struct pool *pool)
{
    struct arenas *arenas = heap_zalloc(sizeof *arenas);

    if (!arenas)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&arenas->list);
    pool->index = arenas;
    return ACRE_OK;
}

void arenas_fini(struct pool *pool)
{
    struct arenas *arenas = pool->index;

    if (!arenas)
        return;
    LIST_FOR_EACH_SAFE(link, after, &arenas->list) {
        list_remove(link);
        heap_free(CONTAINER_OF(link, struct arena, link));
    }
    heap_free(arenas);
    pool->index = NULL;
}

struct arena *arena_find(const struct pool *pool, const void *stream)
{
    const struct arenas *arenas = pool->index;

    LIST_FOR_EACH(link, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        if (arena->stream == stream)
            return arena;
    }
    return NULL;
}

struct arena *arena_get(struct pool *pool, void *stream, struct arena *key)
{
    struct arenas *arenas = pool->index;
    struct arena *arena = arena_find(pool, stream);

    if (arena)
        return arena;
    arena = heap_alloc(sizeof *arena);
    if (!arena)
        return NULL;
    arena->pool = pool;
    arena->key = key ? key : arena;
    arena->commons = arenas->commons;
    arena->stream = stream;
    arena->event = NULL;
    bins_init(&arena->bins);
    list_push_front(&arenas->list, &arena->link);
    return arena;
}

struct arena *arena_commons(struct pool *pool)
{
    struct arenas *arenas = pool->index;

    if (!arenas->commons) {
        /* A stream that is none: the address of the list. */
        arenas->commons = arena_get(pool, arenas, NULL);
        LIST_FOR_EACH(link, &arenas->list)
            CONTAINER_OF(link, struct arena, link)->commons = arenas->commons;
    }
    return arenas->commons;
}

void arena_insert(struct pool *pool, struct block *block)
{
    if (!block->arena)
        block->arena = arena_find(pool, block->stream);
    CHECK(block->arena && block->arena->stream == block->stream);
    CHECK(block->state == BLOCK_FREE);
    arena_index(block->arena, block);
}

void arena_remove(struct pool *pool, struct block *block)
{
    (void)pool;
    CHECK(block->state == BLOCK_FREE);
    bins_remove(&block->arena->bins, block);
}

/* The first block of the arenas from link on. */
static struct block *first_from(const struct arenas *arenas, const struct list *link)
{
    for (; link != &arenas->list; link = link->next) {
        struct block *block = bins_first(&CONTAINER_OF(link, struct arena, link)->bins);
        if (block)
            return block;
    }
    return NULL;
}

struct block *arena_first(const struct pool *pool)
{
    const struct arenas *arenas = pool->index;

    return first_from(arenas, arenas->list.next);
}

struct block *arena_next(const struct pool *pool, const struct block *block)
{
    struct block *next = bins_next(&block->arena->bins, block);

    return next ? next : first_from(pool->index, block->arena->link.next);
}

void arena_move(struct block_store *store, struct block *block, struct arena *to)
{
    bins_remove(&block->arena->bins, block);
    block->arena = to;
    block->stream = to->stream;
    arena_join(store, to, block);
}

uint64_t arena_count(const struct pool *pool)
{
    const struct arenas *arenas = pool->index;
    uint64_t count = 0;

    LIST_FOR_EACH(link, &arenas->list)
        count += CONTAINER_OF(link, struct arena, link)->bins.count;
    return count;
}

bool arena_check(const struct pool *pool, const char **fact)
{
    const struct arenas *arenas = pool->index;

    LIST_FOR_EACH(link, &arenas->list)
        if (!bins_check(&CONTAINER_OF(link, struct arena, link)->bins, fact))
            return false;
    for (const struct block *block = arena_first(pool); block; block = arena_next(pool, block)) {
        *fact = "arena: every member is free and belongs to the pool and stream";
        if (block->state != BLOCK_FREE || block->pool != pool ||
            block->stream != block->arena->stream)
            return false;
        *fact = "arena: free neighbours of one stream are joined";
        if (arena_has(block->next, block->arena))
            return false;
    }
    return true;
}
