/* SPDX-License-Identifier: MIT */
#include "cache/acre/arena.h"

#include "base/heap.h"

acre_status arenas_init(struct pool *pool)
{
    struct arenas *arenas = heap_zalloc(sizeof *arenas);

    if (!arenas)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&arenas->list);
    ptrmap_init(&arenas->by_stream);
    pool->index = arenas;
    return ACRE_OK;
}

void arenas_fini(struct pool *pool)
{
    struct arenas *arenas = pool->index;

    if (!arenas)
        return;
    LIST_FOR_EACH_SAFE(link, after, &arenas->list) {
        struct arena *arena = CONTAINER_OF(link, struct arena, link);
        list_remove(link);
        bins_fini(&arena->bins);
        heap_free(arena);
    }
    ptrmap_fini(&arenas->by_stream);
    heap_free(arenas);
    pool->index = NULL;
}

void arenas_relax(struct pool *pool)
{
    const struct arenas *arenas = pool->index;

    pool->care_bytes = SIZE_MAX;
    LIST_FOR_EACH(link, &arenas->list)
        CONTAINER_OF(link, struct arena, link)->care_bytes = SIZE_MAX;
}

struct arena *arena_find(const struct pool *pool, const void *stream)
{
    const struct arenas *arenas = pool->index;

    return stream ? ptrmap_get(&arenas->by_stream, stream) : arenas->of_null;
}

struct arena *arena_get(struct pool *pool, void *stream, struct arena *key)
{
    struct arenas *arenas = pool->index;
    struct arena *arena = arena_find(pool, stream);

    if (arena)
        return arena;
    if (stream && ptrmap_reserve(&arenas->by_stream, 1) != ACRE_OK)
        return NULL;
    arena = heap_alloc(sizeof *arena);
    if (!arena)
        return NULL;
    if (!stream)
        arenas->of_null = arena;
    else
        (void)ptrmap_put(&arenas->by_stream, stream, arena); /* has room */
    arena->pool = pool;
    arena->key = key ? key : arena;
    arena->shared_arena = arenas->shared_arena;
    arena->stream = stream;
    arena->event = NULL;
    arena->is_marked = false;
    arena->is_first = false;
    arena->page_bytes = pool->page_bytes;
    arena->care_bytes = pool->care_bytes;
    bins_init(&arena->bins);
    list_push_front(&arenas->list, &arena->link);
    return arena;
}

struct arena *arena_shared(struct pool *pool)
{
    struct arenas *arenas = pool->index;

    if (!arenas->shared_arena) {
        /* A stream that is none: the address of the list. */
        arenas->shared_arena = arena_get(pool, arenas, NULL);
        LIST_FOR_EACH(link, &arenas->list)
            CONTAINER_OF(link, struct arena, link)->shared_arena = arenas->shared_arena;
    }
    return arenas->shared_arena;
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

/* Cuts the last bytes off a FREE block that stays in the bins. */
static struct block *cut_tail(struct arena *arena, struct block_store *store, struct block *from,
                              size_t bytes)
{
    struct block *block = block_spare_take(store), *next = from->next;

    block->base = from->base + (from->bytes - bytes);
    block->bytes = bytes;
    block->origin = from->origin;
    block->arena = arena;
    block->prev = from;
    block->next = next;
    if (next)
        next->prev = block;
    from->next = block;
    bins_resize(&arena->bins, from, from->bytes - bytes);
    return block;
}

struct block *arena_carve(struct arena *arena, struct block_store *store, struct block *from,
                          size_t offset, size_t bytes)
{
    CHECK(offset + bytes <= from->bytes);
    if (from->bytes == bytes) {
        bins_remove(&arena->bins, from);
        return from;
    }
    if (offset + bytes == from->bytes)
        return cut_tail(arena, store, from, bytes);
    if (offset) {
        struct block *head = arena_cut(arena, store, from, offset);
        head->state = BLOCK_FREE;
        arena_index(arena, head);
    }
    return arena_cut(arena, store, from, bytes);
}

/* A FREE block in which a place is sought. */
struct arena_space {
    uintptr_t begin, end;
    size_t page; /* a power of two */
    unsigned shift;
};

/* Whole pages inside [begin, end). */
static inline size_t pages_in(const struct arena_space *space, uintptr_t begin, uintptr_t end)
{
    uintptr_t first = (begin + space->page - 1) >> space->shift, last = end >> space->shift;

    return last > first ? last - first : 0;
}

/* How good it is to have a block that is about a number of pages at that place, in
 * tenths of a page: pages that stay free, less for each page that it shares. */
static inline intptr_t arena_value(const struct arena_space *space, uintptr_t at, size_t bytes)
{
    size_t left = pages_in(space, space->begin, at) + pages_in(space, at + bytes, space->end);
    size_t inside = space->page - 1;

    return (intptr_t)left * 10 - ((at & inside) != 0) * 3 - (((at + bytes) & inside) != 0) * 3;
}

/* The best of both ends and of the first and last page border. */
static uintptr_t place_about(const struct arena_space *space, size_t bytes)
{
    size_t inside = space->page - 1;
    uintptr_t places[] = {space->end - bytes, (space->begin + inside) & ~inside,
                          (space->end & ~inside) - bytes};
    uintptr_t best = space->begin;

    if (!((space->begin | bytes) & inside)) /* nothing is shared, and no page lost */
        return best;
    intptr_t most = arena_value(space, best, bytes);

    for (int i = 0; i < 3; i++) {
        if (places[i] < space->begin || places[i] > space->end - bytes)
            continue;
        intptr_t found = arena_value(space, places[i], bytes);
        if (found > most) {
            most = found;
            best = places[i];
        }
    }
    return best;
}

struct block *arena_carve_pages(struct arena *arena, struct block_store *store, struct block *from,
                                size_t bytes)
{
    uintptr_t begin = (uintptr_t)from->base;
    struct arena_space space = {begin, begin + from->bytes, arena->page_bytes,
                                bit_high(arena->page_bytes)};
    size_t missing = -bytes & (space.page - 1); /* of the last page */

    /* So little that it is worth less than pages which no other block shares. */
    if (missing <= space.page / 8 && block_store_reserve(store, 2))
        return arena_carve(arena, store, from, place_about(&space, bytes) - begin, bytes);
    if (pages_in(&space, begin, space.end - bytes) > pages_in(&space, begin + bytes, space.end))
        return cut_tail(arena, store, from, bytes);
    return arena_cut(arena, store, from, bytes);
}

void arena_move(struct block_store *store, struct block *block, struct arena *to)
{
    bins_remove(&block->arena->bins, block);
    block->arena = to;
    block->stream = to->stream;
    arena_join(store, to, block);
}

size_t arena_largest(const struct pool *pool)
{
    const struct arenas *arenas = pool->index;
    size_t most = 0;

    LIST_FOR_EACH(link, &arenas->list) {
        size_t bytes = bins_largest(&CONTAINER_OF(link, struct arena, link)->bins);
        most = bytes > most ? bytes : most;
    }
    return most;
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
