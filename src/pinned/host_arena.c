/* SPDX-License-Identifier: MIT */
#include "pinned/host_arena.h"

#include "base/heap.h"

struct piece host_arena_end = {.bytes = SIZE_MAX};

struct fit {
    size_t bytes;
};

static inline bool free_less(const struct piece *a, const struct piece *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    if (a->extent != b->extent)
        return a->extent->order < b->extent->order;
    return a->base < b->base;
}

static inline bool free_before(const struct piece *a, const struct fit *fit)
{
    return a->bytes < fit->bytes;
}

RBTREE_DEFINE(free_set, struct piece, node, struct fit, free_less, free_before);

void host_arena_init(struct host_pool *pool, struct map *map, bool in_one_order)
{
    *pool = (struct host_pool){.map = map};
    for (int i = 0; i < HOARD_STACKS; i++)
        pool->at_hand[i] = &host_arena_end;
    for (int i = 0; i < HOARD_SLAB_CLASSES; i++)
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
static void map_enter_at(struct map *map, const char *address, struct piece *value)
{
    uintptr_t unit = round_down((uintptr_t)address, (size_t)1 << MAP_UNIT_SHIFT);

    map_set(map, (const void *)unit, (struct block *)(void *)value);
}

static void map_enter(struct piece *piece, struct piece *value)
{
    map_enter_at(piece->pool->map, piece->base, value);
}

/* The same for a slab: slots that are alone in their unit are entered themselves, for
 * others the body is. */
static void map_enter_slab(struct slab *slab, bool is_there)
{
    bool is_alone = slab->slot_bytes >= (size_t)1 << MAP_UNIT_SHIFT;
    struct piece *body = slab->body;

    map_enter(body, is_there ? body : NULL);
    for (uint32_t i = 0; i < slab->slot_count; i++) {
        struct piece *slot = &slab->slots[i];
        map_enter_at(body->pool->map, slot->base, !is_there ? NULL : is_alone ? slot : body);
    }
}

/* ---- Extents -------------------------------------------------------------------------- */

static struct piece *piece_create(void)
{
    struct piece *piece = heap_zalloc(sizeof *piece);

    if (piece)
        list_init(&piece->link);
    return piece;
}

struct extent *host_extent_create(void)
{
    struct extent *extent = heap_zalloc(sizeof *extent);

    if (!extent)
        return NULL;
    extent->first = piece_create();
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
    for (struct piece *piece = extent->first, *next; piece; piece = next) {
        next = piece->next;
        heap_free(piece->slab);
        heap_free(piece);
    }
    heap_free(extent);
}

acre_status host_arena_add(struct host_pool *pool, struct extent *extent, void *base, size_t bytes)
{
    acre_status status = map_reserve(pool->map, base, bytes);
    struct piece *piece = extent->first;

    if (status != ACRE_OK)
        return status;
    extent->base = piece->base = base;
    extent->bytes = piece->bytes = bytes;
    extent->pool = piece->pool = pool;
    piece->extent = extent;
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

/* ---- Free pieces of whole pages ------------------------------------------------------- */

/* Indexes a FREE piece; its extent is idle when there is no other. */
static void free_insert(struct piece *piece)
{
    struct extent *extent = piece->extent;

    piece->state = PIECE_FREE;
    free_set_insert(&piece->pool->free, piece);
    if (!piece->prev && !piece->next)
        list_push_back(&piece->pool->idle, &extent->idle_link);
}

static void free_remove(struct piece *piece)
{
    free_set_remove(&piece->pool->free, piece);
    list_remove(&piece->extent->idle_link);
}

void host_arena_open(struct extent *extent)
{
    free_insert(extent->first);
}

/* Joins a piece with the next one, whose object goes. */
static void absorb_next(struct piece *piece)
{
    struct piece *next = piece->next;

    piece->bytes += next->bytes;
    piece->next = next->next;
    if (next->next)
        next->next->prev = piece;
    heap_free(next);
}

/* Joins a piece that is in no index and not in the map with its free neighbours. */
static void host_arena_join(struct piece *piece)
{
    if (piece->next && piece->next->state == PIECE_FREE) {
        free_remove(piece->next);
        absorb_next(piece);
    }
    if (piece->prev && piece->prev->state == PIECE_FREE) {
        piece = piece->prev;
        free_remove(piece);
        absorb_next(piece);
    }
    free_insert(piece);
}

/* Takes whole pages, cut off the best fit; they are LIVE and not in the map yet. */
static acre_status pages_take(struct host_pool *pool, size_t bytes, struct piece **out)
{
    struct fit fit = {bytes};
    struct piece *piece = free_set_lower_bound(&pool->free, &fit), *rest = NULL;

    if (!piece)
        return ACRE_ERR_NOT_FOUND;
    if (piece->bytes > bytes) {
        rest = piece_create();
        if (!rest)
            return ACRE_ERR_HOST_MEMORY;
    }
    free_remove(piece);
    piece->state = PIECE_LIVE;
    if (rest) {
        rest->base = piece->base + bytes;
        rest->bytes = piece->bytes - bytes;
        rest->pool = pool;
        rest->extent = piece->extent;
        rest->prev = piece;
        rest->next = piece->next;
        if (rest->next)
            rest->next->prev = rest;
        piece->next = rest;
        piece->bytes = bytes;
        free_insert(rest);
    }
    *out = piece;
    return ACRE_OK;
}

/* ---- Slots ---------------------------------------------------------------------------- */

/* Makes a slab of a class from free pages. */
static acre_status slab_make(struct host_pool *pool, size_t rounded, struct slab **out)
{
    struct slab *slab = slab_create(rounded);
    struct piece *body;

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

static acre_status slot_take(struct host_pool *pool, size_t rounded, struct piece **out)
{
    struct list *slabs = &pool->slabs[host_arena_stack(rounded)];
    struct slab *slab;

    if (list_empty(slabs)) {
        acre_status status = slab_make(pool, rounded, &slab);
        if (status != ACRE_OK)
            return status;
    } else {
        slab = CONTAINER_OF(slabs->next, struct slab, link);
    }
    unsigned index = bit_low(slab->free_mask);
    slab->free_mask &= slab->free_mask - 1;
    if (!slab->free_mask)
        list_remove(&slab->link);
    *out = &slab->slots[index];
    (*out)->state = PIECE_LIVE;
    return ACRE_OK;
}

static void slot_put(struct piece *slot)
{
    struct slab *slab = slot->slab;
    struct piece *body = slab->body;

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

acre_status host_arena_take(struct host_pool *pool, size_t rounded, struct piece **out,
                            size_t *out_need)
{
    acre_status status;

    if (rounded < HOARD_SLAB_END) {
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

void host_arena_put(struct piece *piece)
{
    CHECK(!piece->uses && !piece->event_count);
    if (piece->is_slot) {
        slot_put(piece);
        return;
    }
    map_enter(piece, NULL);
    host_arena_join(piece);
}

void host_arena_drain(struct host_pool *pool)
{
    for (int i = 0; i < HOARD_STACKS && pool->has_at_hand; i++)
        while (pool->at_hand[i] != &host_arena_end) {
            struct piece *piece = pool->at_hand[i];
            pool->at_hand[i] = piece->below;
            host_arena_put(piece);
        }
    pool->has_at_hand = false;
}

void host_arena_withdraw(struct extent *extent)
{
    struct piece *piece = extent->first;

    CHECK(piece->state == PIECE_FREE && !piece->next);
    if (list_empty(&piece->link))
        free_remove(piece);
    else
        list_remove(&piece->link);
    host_arena_remove(extent);
}

/* ---- Policy torch --------------------------------------------------------------------- */

struct piece *bucket_take(struct host_pool *pool, size_t rounded)
{
    struct list *bucket = &pool->buckets[bucket_of(rounded)];

    LIST_FOR_EACH(link, bucket) {
        struct piece *piece = CONTAINER_OF(link, struct piece, link);
        if (piece->bytes < rounded)
            continue;
        list_remove(&piece->link);
        list_remove(&piece->extent->idle_link);
        piece->state = PIECE_LIVE;
        map_enter(piece, piece);
        return piece;
    }
    return NULL;
}

void bucket_put(struct piece *piece)
{
    map_enter(piece, NULL);
    piece->state = PIECE_FREE;
    list_push_front(&piece->pool->buckets[bucket_of(piece->bytes)], &piece->link);
    list_push_back(&piece->pool->idle, &piece->extent->idle_link);
}

/* ---- Checking ------------------------------------------------------------------------- */

static bool slab_check(const struct slab *slab, const char **fact)
{
    *fact = "hoard: a slot is free exactly when its slab says so";
    for (uint32_t i = 0; i < slab->slot_count; i++)
        if ((slab->slots[i].state == PIECE_FREE) != (slab->free_mask >> i & 1))
            return false;
    *fact = "hoard: a slab is in a list while a slot is free, and gone when all are";
    return list_empty(&slab->link) == !slab->free_mask && slab->free_mask != slab_full_mask(slab);
}

static bool piece_check(const struct piece *piece, const char **fact)
{
    const void *entry = map_find(piece->pool->map, piece->base);
    const struct slab *slab = piece->slab;
    bool is_mapped = entry == piece || (slab && entry == &slab->slots[0]);

    *fact = "hoard: free neighbours are joined";
    if (piece->state == PIECE_FREE && piece->next && piece->next->state == PIECE_FREE)
        return false;
    *fact = "hoard: what is not free is in the map, and nothing else";
    if (is_mapped == (piece->state == PIECE_FREE))
        return false;
    *fact = "hoard: only WAITING pieces wait for events";
    if (piece->event_count && piece->state != PIECE_WAITING)
        return false;
    *fact = "hoard: bodies, and nothing else in the row, have slabs";
    if ((piece->state == PIECE_BODY) != (piece->slab != NULL))
        return false;
    return !piece->slab || slab_check(piece->slab, fact);
}

static bool extent_check(const struct extent *extent, const char **fact)
{
    const char *at = extent->base;

    for (const struct piece *piece = extent->first; piece; piece = piece->next) {
        *fact = "hoard: the pieces of an extent tile it";
        if (piece->base != at || piece->extent != extent)
            return false;
        if (!piece_check(piece, fact))
            return false;
        at += piece->bytes;
    }
    *fact = "hoard: an extent is among the idle ones while nothing of it is used";
    bool is_idle = extent->first->state == PIECE_FREE && !extent->first->next;
    if (is_idle == list_empty(&extent->idle_link))
        return false;
    *fact = "hoard: the pieces of an extent add up";
    return at == extent->base + extent->bytes;
}

bool host_arena_check(const struct host_pool *pool, const char **fact)
{
    uint64_t held = 0;

    *fact = "hoard: free pieces are in order";
    if (!free_set_check(&pool->free))
        return false;
    LIST_FOR_EACH(link, &pool->extents) {
        const struct extent *extent = CONTAINER_OF(link, struct extent, link);
        held += extent->bytes;
        if (!extent_check(extent, fact))
            return false;
    }
    for (int i = 0; i < HOARD_STACKS; i++)
        for (const struct piece *p = pool->at_hand[i]; p != &host_arena_end; p = p->below)
            if (!pool->has_at_hand || p->state != PIECE_AT_HAND || p->stack != &pool->at_hand[i]) {
                *fact = "hoard: what is at hand knows it";
                return false;
            }
    *fact = "hoard: the sums are those of its members";
    return held == pool->held_bytes;
}
