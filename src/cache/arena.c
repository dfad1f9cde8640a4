/* SPDX-License-Identifier: MIT */
#include "cache/arena.h"

#include "base/heap.h"
#include "cache/segment.h"

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

struct arena *arena_get(struct pool *pool, void *stream)
{
    struct arenas *arenas = pool->index;
    struct arena *arena = arena_find(pool, stream);

    if (arena)
        return arena;
    arena = heap_alloc(sizeof *arena);
    if (!arena)
        return NULL;
    arena->pool = pool;
    arena->stream = stream;
    arena->event = NULL;
    bins_init(&arena->bins);
    list_push_front(&arenas->list, &arena->link);
    return arena;
}

static inline void index_insert(struct arena *arena, struct block *block)
{
    block->gc_base = arena->pool->find_count;
    bins_insert(&arena->bins, block);
}

void arena_insert(struct pool *pool, struct block *block)
{
    if (!block_arena(block))
        block_arena_set(block, arena_find(pool, block->stream));
    CHECK(block_arena(block) && block_arena(block)->stream == block->stream);
    CHECK(block->state == BLOCK_FREE);
    index_insert(block_arena(block), block);
}

void arena_remove(struct pool *pool, struct block *block)
{
    (void)pool;
    CHECK(block->state == BLOCK_FREE);
    bins_remove(&block_arena(block)->bins, block);
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
    struct block *next = bins_next(&block_arena(block)->bins, block);

    return next ? next : first_from(pool->index, block_arena(block)->link.next);
}

/* Cuts the first bytes off a FREE block that stays in the bins. As block_split,
 * without the moves in between. */
static inline struct block *cut(struct arena *arena, struct block_store *store,
                                struct block *from, size_t bytes)
{
    struct block *block = block_spare_take(store), *prev = from->prev;

    block->base = from->base;
    block->bytes = bytes;
    block->stream = from->stream;
    block->order = from->order;
    block->segment = from->segment;
    block->pool = from->pool;
    block_arena_set(block, arena);
    block->prev = prev;
    block->next = from;
    if (prev)
        prev->next = block;
    else
        from->segment->first = block;
    from->prev = block;
    from->base += bytes;
    bins_resize(&arena->bins, from, from->bytes - bytes);
    return block;
}

struct block *arena_take(struct arena *arena, struct block_store *store, struct map *map,
                         size_t bytes)
{
    struct block *block = bins_find(&arena->bins, bytes);

    if (UNLIKELY(!block))
        return NULL;
    if (LIKELY(block->bytes > bytes))
        block = cut(arena, store, block, bytes);
    else
        bins_remove(&arena->bins, block);
    block->state = BLOCK_LIVE;
    map_set(map, block->base, block);
    return block;
}

static inline bool is_free_in(const struct block *block, const struct arena *arena)
{
    return block && block->state == BLOCK_FREE && block_arena(block) == arena;
}

/* Joins a block that is in no bin with its free neighbours and puts the whole
 * into the bins of arena. A neighbour survives, so that it can stay in its bin
 * when the size class does not change. */
static inline void join(struct block_store *store, struct arena *arena, struct block *block)
{
    struct block *prev = block->prev, *next = block->next;
    size_t bytes = block->bytes;

    if (is_free_in(prev, arena)) {
        if (is_free_in(next, arena)) {
            bins_remove(&arena->bins, next);
            bytes += next->bytes;
            block->next = next->next;
            block_destroy(store, next);
        }
        prev->next = block->next;
        if (prev->next)
            prev->next->prev = prev;
    } else if (is_free_in(next, arena)) {
        next->base = block->base;
        next->prev = prev;
        if (prev)
            prev->next = next;
        else
            block->segment->first = next;
        prev = next;
    } else {
        block->state = BLOCK_FREE;
        index_insert(arena, block);
        return;
    }
    prev->gc_base = arena->pool->find_count;
    bins_resize(&arena->bins, prev, prev->bytes + bytes);
    block_destroy(store, block);
}

void arena_put(struct block_store *store, struct map *map, struct block *block)
{
    CHECK(block->state == BLOCK_LIVE || block->state == BLOCK_WAITING);
    CHECK(!block->uses && !block->event_count);
    map_clear(map, block->base);
    join(store, block_arena(block), block);
}

void arena_move(struct block_store *store, struct block *block, struct arena *to)
{
    bins_remove(&block_arena(block)->bins, block);
    block_arena_set(block, to);
    block->stream = to->stream;
    join(store, to, block);
}

void arena_sums(const struct pool *pool, uint64_t *count, uint64_t *bytes)
{
    const struct arenas *arenas = pool->index;

    *count = *bytes = 0;
    LIST_FOR_EACH(link, &arenas->list) {
        const struct arena *arena = CONTAINER_OF(link, struct arena, link);
        *count += arena->bins.count;
        *bytes += arena->bins.bytes;
    }
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
            block->stream != block_arena(block)->stream)
            return false;
        *fact = "arena: free neighbours of one stream are joined";
        if (is_free_in(block->next, block_arena(block)))
            return false;
    }
    return true;
}
