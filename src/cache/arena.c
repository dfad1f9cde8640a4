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
    arena->page_bytes = pool->page_bytes;
    arena->care_bytes = pool->care_bytes;
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

struct block *arena_carve(struct arena *arena, struct block_store *store, struct block *from,
                          size_t offset, size_t bytes)
{
    CHECK(offset + bytes <= from->bytes);
    if (offset) {
        struct block *head = arena_cut(arena, store, from, offset);
        head->state = BLOCK_FREE;
        arena_index(arena, head);
    }
    if (from->bytes > bytes)
        return arena_cut(arena, store, from, bytes);
    bins_remove(&arena->bins, from);
    return from;
}

/* Whole pages inside [begin, end). */
static size_t pages_in(uintptr_t begin, uintptr_t end, size_t page)
{
    uintptr_t first = (begin + page - 1) / page, last = end / page;

    return last > first ? last - first : 0;
}

/* A place for a block in [begin, end): how bad it is, in tenths of a page. */
static size_t badness(uintptr_t begin, uintptr_t end, uintptr_t at, size_t bytes, size_t page,
                      bool is_about_pages)
{
    size_t lost = pages_in(begin, end, page) - pages_in(begin, at, page) -
                  pages_in(at + bytes, end, page);
    size_t shared = (at % page != 0) + ((at + bytes) % page != 0);

    return lost * 10 + (is_about_pages ? shared * 3 : 0);
}

/* Whether a size is a number of pages, or so little less that the rest of the last
 * one is worth less than pages that no other block shares. */
static bool is_about_pages(size_t bytes, size_t page)
{
    return bytes % page == 0 || page - bytes % page <= page / 8;
}

struct block *arena_carve_pages(struct arena *arena, struct block_store *store,
                                struct block *from, size_t bytes)
{
    size_t page = arena->page_bytes;
    uintptr_t begin = (uintptr_t)from->base, end = begin + from->bytes;
    uintptr_t places[] = {begin, end - bytes, (begin + page - 1) / page * page,
                          end / page * page - bytes};
    bool is_about = is_about_pages(bytes, page);
    uintptr_t best = begin;

    if (!block_store_reserve(store, 2))
        return arena_cut(arena, store, from, bytes);
    for (int i = 1; i < (is_about ? 4 : 2); i++)
        if (places[i] >= begin && places[i] <= end - bytes &&
            badness(begin, end, places[i], bytes, page, is_about) <
                badness(begin, end, best, bytes, page, is_about))
            best = places[i];
    return arena_carve(arena, store, from, best - begin, bytes);
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
