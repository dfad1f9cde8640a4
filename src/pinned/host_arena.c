/* SPDX-License-Identifier: MIT */
#include "pinned/host_arena.h"

#include "base/heap.h"

struct host_block host_arena_end = {.bytes = SIZE_MAX};
struct host_block *host_arena_nothing[HOST_ARENA_STACKS] = {[0 ... HOST_ARENA_STACKS - 1] =
                                                                &host_arena_end};

struct fit {
    size_t bytes;
};

static inline bool free_less(const struct host_block *a, const struct host_block *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    if (a->extent != b->extent)
        return a->extent->order < b->extent->order;
    return a->base < b->base;
}

static inline bool free_before(const struct host_block *a, const struct fit *fit)
{
    return a->bytes < fit->bytes;
}

RBTREE_DEFINE(free_set, struct host_block, node, struct fit, free_less, free_before);

void host_arena_init(struct host_pool *pool, struct map *map, bool in_one_order)
{
    *pool = (struct host_pool){.map = map};
    for (int i = 0; i < HOST_ARENA_STACKS; i++)
        pool->at_hand[i] = &host_arena_end;
    for (int i = 0; i < HOST_ARENA_SLAB_CLASSES; i++)
        list_init(&pool->slabs[i]);
    for (int i = 0; i < ACRE_PINNED_BUCKETS; i++)
        list_init(&pool->buckets[i]);
    list_init(&pool->extents);
    list_init(&pool->idle);
    list_init(&pool->captured);
    list_init(&pool->postponed);
    list_init(&pool->link);
    events_init(&pool->events, in_one_order);
}

/* ---- The map -------------------------------------------------------------------------- */

/* Enters a piece, or NULL, where an address is. */
static void map_enter_at(struct map *map, const char *address, struct host_block *value)
{
    uintptr_t unit = round_down((uintptr_t)address, (size_t)1 << MAP_UNIT_SHIFT);

    map_set(map, (const void *)unit, (struct block *)(void *)value);
}

static void map_enter(struct host_block *host_block, struct host_block *value)
{
    map_enter_at(host_block->pool->map, host_block->base, value);
}

/* Enters a slab: slots that are alone in their unit are entered themselves, for
 * others the body is. */
static void map_enter_slab(struct pinned_slab *slab, bool is_there)
{
    bool is_alone = slab->slot_bytes >= (size_t)1 << MAP_UNIT_SHIFT;
    struct host_block *body = slab->body;

    map_enter(body, is_there ? body : NULL);
    for (uint32_t i = 0; i < slab->slot_count; i++) {
        struct host_block *slot = &slab->slots[i];
        map_enter_at(body->pool->map, slot->base, !is_there ? NULL : is_alone ? slot : body);
    }
}

/* ---- Extents -------------------------------------------------------------------------- */

static struct host_block *host_block_create(void)
{
    struct host_block *host_block = heap_zalloc(sizeof *host_block);

    if (host_block)
        list_init(&host_block->link);
    return host_block;
}

struct extent *host_extent_create(void)
{
    struct extent *extent = heap_zalloc(sizeof *extent);

    if (!extent)
        return NULL;
    extent->first = host_block_create();
    if (!extent->first) {
        heap_free(extent);
        return NULL;
    }
    list_init(&extent->link);
    list_init(&extent->idle_link);
    return extent;
}

void host_extent_destroy(struct extent *extent)
{
    if (!extent)
        return;
    for (struct host_block *host_block = extent->first, *next; host_block; host_block = next) {
        next = host_block->next;
        heap_free(host_block->slab);
        heap_free(host_block);
    }
    heap_free(extent);
}

acre_status host_arena_add(struct host_pool *pool, struct extent *extent, void *base, size_t bytes)
{
    acre_status status = map_reserve(pool->map, base, bytes);
    struct host_block *host_block = extent->first;

    if (status != ACRE_OK)
        return status;
    extent->base = host_block->base = base;
    extent->bytes = host_block->bytes = bytes;
    extent->pool = host_block->pool = pool;
    host_block->extent = extent;
    extent->order = ++pool->last_order;
    list_push_back(&pool->extents, &extent->link);
    pool->held_bytes += bytes;
    return ACRE_OK;
}

void host_arena_remove(struct extent *extent)
{
    CHECK(extent->first->state == PIECE_FREE && !extent->first->next);
    extent->pool->held_bytes -= extent->bytes;
    list_remove(&extent->link);
    list_remove(&extent->idle_link);
}

/* ---- Free blocks of whole pages ------------------------------------------------------- */

/* Indexes a FREE piece; its extent is idle when there is no other. */
static void free_insert(struct host_block *host_block)
{
    struct extent *extent = host_block->extent;

    host_block->state = PIECE_FREE;
    free_set_insert(&host_block->pool->free, host_block);
    if (!host_block->prev && !host_block->next)
        list_push_back(&host_block->pool->idle, &extent->idle_link);
}

static void free_remove(struct host_block *host_block)
{
    free_set_remove(&host_block->pool->free, host_block);
    list_remove(&host_block->extent->idle_link);
}

void host_arena_open(struct extent *extent)
{
    free_insert(extent->first);
}

/* Joins a piece with the next one, whose object goes. */
static void absorb_next(struct host_block *host_block)
{
    struct host_block *next = host_block->next;

    host_block->bytes += next->bytes;
    host_block->next = next->next;
    if (next->next)
        next->next->prev = host_block;
    heap_free(next);
}

/* Joins a piece that is in no index and not in the map with its free neighbours. */
static void host_arena_join(struct host_block *host_block)
{
    if (host_block->next && host_block->next->state == PIECE_FREE) {
        free_remove(host_block->next);
        absorb_next(host_block);
    }
    if (host_block->prev && host_block->prev->state == PIECE_FREE) {
        host_block = host_block->prev;
        free_remove(host_block);
        absorb_next(host_block);
    }
    free_insert(host_block);
}

/* Takes whole pages, cut off the best fit; they are LIVE and not in the map yet. */
static acre_status pages_take(struct host_pool *pool, size_t bytes, struct host_block **out)
{
    struct fit fit = {bytes};
    struct host_block *host_block = free_set_lower_bound(&pool->free, &fit), *rest = NULL;

    if (!host_block)
        return ACRE_ERR_NOT_FOUND;
    if (host_block->bytes > bytes) {
        rest = host_block_create();
        if (!rest)
            return ACRE_ERR_HOST_MEMORY;
    }
    free_remove(host_block);
    host_block->state = PIECE_LIVE;
    if (rest) {
        rest->base = host_block->base + bytes;
        rest->bytes = host_block->bytes - bytes;
        rest->pool = pool;
        rest->extent = host_block->extent;
        rest->prev = host_block;
        rest->next = host_block->next;
        if (rest->next)
            rest->next->prev = rest;
        host_block->next = rest;
        host_block->bytes = bytes;
        free_insert(rest);
    }
    *out = host_block;
    return ACRE_OK;
}

/* ---- Slots ---------------------------------------------------------------------------- */

/* Makes a slab of a class from free pages. */
static acre_status slab_make(struct host_pool *pool, size_t rounded, struct pinned_slab **out)
{
    struct pinned_slab *slab = slab_create(rounded);
    struct host_block *body;

    if (!slab)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = pages_take(pool, slab_bytes(rounded), &body);
    if (status != ACRE_OK) {
        heap_free(slab);
        return status;
    }
    slab_place(slab, body);
    for (uint32_t i = 0; i < slab->slot_count; i++)
        slab->slots[i].stack = &pool->at_hand[host_arena_stack(rounded)];
    map_enter_slab(slab, true);
    list_push_front(&pool->slabs[host_arena_stack(rounded)], &slab->link);
    *out = slab;
    return ACRE_OK;
}

static acre_status slot_take(struct host_pool *pool, size_t rounded, struct host_block **out)
{
    struct list *slabs = &pool->slabs[host_arena_stack(rounded)];
    struct pinned_slab *slab;

    if (list_empty(slabs)) {
        acre_status status = slab_make(pool, rounded, &slab);
        if (status != ACRE_OK)
            return status;
    } else {
        slab = CONTAINER_OF(slabs->next, struct pinned_slab, link);
    }
    unsigned index = bit_low(slab->free_mask);
    slab->free_mask &= slab->free_mask - 1;
    if (!slab->free_mask)
        list_remove(&slab->link);
    *out = &slab->slots[index];
    (*out)->state = PIECE_LIVE;
    return ACRE_OK;
}

static void slot_put(struct host_block *slot)
{
    struct pinned_slab *slab = slot->slab;
    struct host_block *body = slab->body;

    slot->state = PIECE_FREE;
    if (!slab->free_mask)
        list_push_front(&slot->pool->slabs[host_arena_stack(slot->bytes)], &slab->link);
    slab->free_mask |= (uint64_t)1 << (slot - slab->slots);
    if (slab->free_mask != slab_full_mask(slab))
        return;
    list_remove(&slab->link);
    map_enter_slab(slab, false);
    body->slab = NULL;
    heap_free(slab);
    host_arena_join(body);
}

/* ---- Policy acre ---------------------------------------------------------------------- */

acre_status host_arena_take(struct host_pool *pool, size_t rounded, struct host_block **out,
                            size_t *out_need)
{
    acre_status status;

    if (rounded < HOST_ARENA_SLAB_END) {
        *out_need = slab_bytes(rounded);
        return slot_take(pool, rounded, out);
    }
    *out_need = rounded;
    status = pages_take(pool, rounded, out);
    if (status != ACRE_OK)
        return status;
    (*out)->stack = &pool->at_hand[host_arena_stack(rounded)];
    map_enter(*out, *out);
    return ACRE_OK;
}

void host_arena_put(struct host_block *host_block)
{
    CHECK(!host_block->uses && !host_block->event_count);
    if (host_block->is_slot) {
        slot_put(host_block);
        return;
    }
    map_enter(host_block, NULL);
    host_arena_join(host_block);
}

void host_arena_drain(struct host_pool *pool)
{
    for (int i = 0; i < HOST_ARENA_STACKS; i++)
        while (pool->at_hand[i] != &host_arena_end) {
            struct host_block *host_block = pool->at_hand[i];
            pool->at_hand[i] = host_block->below;
            host_arena_put(host_block);
        }
}

void host_arena_withdraw(struct extent *extent)
{
    struct host_block *host_block = extent->first;

    CHECK(host_block->state == PIECE_FREE && !host_block->next);
    if (list_empty(&host_block->link))
        free_remove(host_block);
    else
        list_remove(&host_block->link);
    host_arena_remove(extent);
}

/* ---- Policy torch --------------------------------------------------------------------- */

struct host_block *bucket_take(struct host_pool *pool, size_t rounded)
{
    struct list *bucket = &pool->buckets[bucket_of(rounded)];

    LIST_FOR_EACH(link, bucket) {
        struct host_block *host_block = CONTAINER_OF(link, struct host_block, link);
        if (host_block->bytes < rounded)
            continue;
        list_remove(&host_block->link);
        list_remove(&host_block->extent->idle_link);
        host_block->state = PIECE_LIVE;
        map_enter(host_block, host_block);
        return host_block;
    }
    return NULL;
}

void bucket_put(struct host_block *host_block)
{
    map_enter(host_block, NULL);
    host_block->state = PIECE_FREE;
    list_push_front(&host_block->pool->buckets[bucket_of(host_block->bytes)], &host_block->link);
    list_push_back(&host_block->pool->idle, &host_block->extent->idle_link);
}

/* ---- Checking ------------------------------------------------------------------------- */

static bool slab_check(const struct pinned_slab *slab, const char **fact)
{
    *fact = "host_arena: a slot is free exactly when its slab says so";
    for (uint32_t i = 0; i < slab->slot_count; i++)
        if ((slab->slots[i].state == PIECE_FREE) != (slab->free_mask >> i & 1))
            return false;
    *fact = "host_arena: a slab is in a list while a slot is free, and gone when all are";
    return list_empty(&slab->link) == !slab->free_mask && slab->free_mask != slab_full_mask(slab);
}

static bool host_block_check(const struct host_block *host_block, const char **fact)
{
    const void *entry = map_find(host_block->pool->map, host_block->base);
    const struct pinned_slab *slab = host_block->slab;
    bool is_mapped = entry == host_block || (slab && entry == &slab->slots[0]);

    *fact = "host_arena: free neighbours are joined";
    if (host_block->state == PIECE_FREE && host_block->next &&
        host_block->next->state == PIECE_FREE)
        return false;
    *fact = "host_arena: what is not free is in the map, and nothing else";
    if (is_mapped == (host_block->state == PIECE_FREE))
        return false;
    *fact = "host_arena: only WAITING blocks wait for events";
    if (host_block->event_count && host_block->state != PIECE_WAITING)
        return false;
    *fact = "host_arena: bodies, and nothing else in the row, have slabs";
    if ((host_block->state == PIECE_BODY) != (host_block->slab != NULL))
        return false;
    return !host_block->slab || slab_check(host_block->slab, fact);
}

static bool extent_check(const struct extent *extent, const char **fact)
{
    const char *at = extent->base;

    for (const struct host_block *host_block = extent->first; host_block;
         host_block = host_block->next) {
        *fact = "host_arena: the blocks of an extent tile it";
        if (host_block->base != at || host_block->extent != extent)
            return false;
        if (!host_block_check(host_block, fact))
            return false;
        at += host_block->bytes;
    }
    *fact = "host_arena: an extent is among the idle ones while nothing of it is used";
    bool is_idle = extent->first->state == PIECE_FREE && !extent->first->next;
    if (is_idle == list_empty(&extent->idle_link))
        return false;
    *fact = "host_arena: the blocks of an extent add up";
    return at == extent->base + extent->bytes;
}

bool host_arena_check(const struct host_pool *pool, const char **fact)
{
    uint64_t held = 0;

    *fact = "host_arena: free blocks are in order";
    if (!free_set_check(&pool->free))
        return false;
    LIST_FOR_EACH(link, &pool->extents) {
        const struct extent *extent = CONTAINER_OF(link, struct extent, link);
        held += extent->bytes;
        if (!extent_check(extent, fact))
            return false;
    }
    for (int i = 0; i < HOST_ARENA_STACKS; i++)
        for (const struct host_block *p = pool->at_hand[i]; p != &host_arena_end; p = p->below)
            if (p->state != PIECE_AT_HAND || p->stack != &pool->at_hand[i]) {
                *fact = "host_arena: what is at hand knows it";
                return false;
            }
    *fact = "host_arena: the sums are those of its members";
    return held == pool->held_bytes;
}
