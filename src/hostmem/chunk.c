/* SPDX-License-Identifier: MIT */
/* See chunk.h. The bits lie in leaves of one page, each for 2 GiB of addresses. */
#include "hostmem/chunk.h"

#include "base/heap.h"
#include "hostmem/hang.h"
#include "hostmem/heap.h"
#include "hostmem/inside.h"

enum {
    CHUNK_SHIFT = 21,
    GRAIN_SHIFT = 16,
    LEAF_SHIFT = 31,
    ROOT_SHIFT = 47,
    CHUNK_LEAF_COUNT = 1 << (LEAF_SHIFT - CHUNK_SHIFT),
    CHUNK_ROOT_COUNT = 1 << (ROOT_SHIFT - LEAF_SHIFT),
    CHUNK_TAKERS = 64, /* chunks served by one walk */
};

#define CHUNK_WHOLE UINT32_MAX /* all grains of a chunk */

struct chunk_leaf {
    _Atomic uint32_t grains[CHUNK_LEAF_COUNT]; /* the lowest bit for the first grain         */
    _Atomic uint8_t nodes[CHUNK_LEAF_COUNT];   /* of their pages, plus 1; 0: it is not known */
};

static _Atomic(struct chunk_leaf *) chunk_roots[CHUNK_ROOT_COUNT];

static char *chunk_down(char *address)
{
    return (char *)round_down((uintptr_t)address, CHUNK_BYTES);
}

static char *grain_up(char *address)
{
    return (char *)round_up((uintptr_t)address, GRAIN_BYTES);
}

static char *grain_down(char *address)
{
    return (char *)round_down((uintptr_t)address, GRAIN_BYTES);
}

/* The bits of a chunk; NULL: none of its leaf was ever set. */
static _Atomic uint32_t *grains_of(const char *chunk)
{
    uintptr_t root = (uintptr_t)chunk >> LEAF_SHIFT;
    struct chunk_leaf *leaf = atomic_load_explicit(&chunk_roots[root], memory_order_acquire);

    return leaf ? &leaf->grains[((uintptr_t)chunk >> CHUNK_SHIFT) % CHUNK_LEAF_COUNT] : NULL;
}

/* As grains_of, with a leaf made where there is none; NULL: there is no memory for it. */
static _Atomic uint32_t *grains_make(const char *chunk)
{
    _Atomic uint32_t *grains = grains_of(chunk);
    struct chunk_leaf *leaf, *none = NULL;

    if (LIKELY(grains))
        return grains;
    leaf = heap_zalloc(sizeof *leaf);
    if (!leaf)
        return NULL;
    if (!atomic_compare_exchange_strong(&chunk_roots[(uintptr_t)chunk >> LEAF_SHIFT], &none, leaf))
        heap_free(leaf);
    return grains_of(chunk);
}

/* The node of the pages of a chunk whose leaf exists, plus 1. */
static _Atomic uint8_t *node_of(const char *chunk)
{
    struct chunk_leaf *leaf =
        atomic_load_explicit(&chunk_roots[(uintptr_t)chunk >> LEAF_SHIFT], memory_order_acquire);

    return &leaf->nodes[((uintptr_t)chunk >> CHUNK_SHIFT) % CHUNK_LEAF_COUNT];
}

/* The bits from grain first to below grain end. */
static uint32_t grains_run(unsigned first, unsigned end)
{
    return first >= end ? 0 : CHUNK_WHOLE >> (32 - (end - first)) << first;
}

/* Which grains of a chunk lie in [from, to), both on the border of a grain. */
static uint32_t grains_between(const char *chunk, const char *from, const char *to)
{
    unsigned first = from <= chunk ? 0 : (unsigned)((size_t)(from - chunk) >> GRAIN_SHIFT);
    unsigned end = to <= chunk                 ? 0
                   : to >= chunk + CHUNK_BYTES ? 32
                                               : (unsigned)((size_t)(to - chunk) >> GRAIN_SHIFT);

    return grains_run(first, end);
}

/* Whether addresses are below those that the table knows. */
static bool range_is_known(const char *base, size_t bytes)
{
    return (((uintptr_t)base + bytes - 1) >> ROOT_SHIFT) == 0;
}

/* ---- Moving ------------------------------------------------------------------------------ */

/* Grains of a chunk of a new block that wait for pages. */
struct taker {
    char *chunk;
    uint32_t grains;
};

/* All of them, for one walk over the free blocks. Whole chunks are served first, then the
 * others: from chunks that are free in part, so that huge pages stay whole, then from all.
 * TAKE_EXCHANGE is for whole chunks that have pages of another node. */
struct takers {
    struct taker items[CHUNK_TAKERS];
    size_t count;
    enum { TAKE_CHUNKS, TAKE_FROM_PARTS, TAKE_GRAINS, TAKE_EXCHANGE } way;
    uint8_t node; /* of the calling thread, plus 1; 0: any      */
    char *aside;  /* a chunk of addresses, for TAKE_EXCHANGE    */
};

/* Moves the first run of grains that a taker lacks and a giver has; false: nothing moves. */
static bool run_move(struct taker *taker, char *chunk, uint32_t *given)
{
    unsigned from = (unsigned)__builtin_ctz(*given), to = (unsigned)__builtin_ctz(taker->grains);
    uint32_t have = *given >> from, lack = taker->grains >> to, both = have & lack;
    unsigned count = both == CHUNK_WHOLE ? 32 : (unsigned)__builtin_ctz(~both);

    if (!pages_hang(chunk + from * GRAIN_BYTES, taker->chunk + to * GRAIN_BYTES,
                    count * GRAIN_BYTES))
        return false;
    *given &= ~grains_run(from, from + count);
    taker->grains &= ~grains_run(to, to + count);
    return true;
}

/* Lets the pages of two chunks change places. */
static bool chunks_exchange(char *a, char *b, char *aside)
{
    uint8_t node = atomic_load_explicit(node_of(a), memory_order_relaxed);

    if (!pages_hang(a, aside, CHUNK_BYTES))
        return false;
    if (!pages_hang(b, a, CHUNK_BYTES)) {
        pages_hang(aside, a, CHUNK_BYTES);
        return false;
    }
    atomic_store_explicit(node_of(a), atomic_load_explicit(node_of(b), memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(node_of(b), node, memory_order_relaxed);
    return pages_hang(aside, b, CHUNK_BYTES);
}

/* Gives the pages of a chunk away, of which the grains given lie in a free block. */
static bool chunk_give(struct takers *takers, char *chunk, uint32_t given, _Atomic uint32_t *grains)
{
    uint32_t left = given;
    bool goes_on = true;

    if (takers->node && atomic_load_explicit(node_of(chunk), memory_order_relaxed) != takers->node)
        return true;
    if (takers->way == TAKE_EXCHANGE)
        return given != CHUNK_WHOLE ||
               chunks_exchange(takers->items[--takers->count].chunk, chunk, takers->aside);
    if (takers->way != TAKE_GRAINS && (given == CHUNK_WHOLE) != (takers->way == TAKE_CHUNKS))
        return true;
    while (left && takers->count && goes_on) {
        struct taker *taker = &takers->items[takers->count - 1];
        goes_on = run_move(taker, chunk, &left);
        takers->count -= taker->grains == 0;
    }
    atomic_fetch_and(grains, ~(given & ~left));
    return goes_on;
}

/* Told of a free block; false ends the walk. */
static bool block_give(void *arg, char *base, size_t bytes, bool is_whole_segment)
{
    struct takers *takers = arg;
    char *first = grain_up(base), *end = grain_down(base + bytes);

    (void)is_whole_segment;
    if (!range_is_known(base, bytes))
        return true;
    for (char *chunk = chunk_down(first); chunk < end && takers->count; chunk += CHUNK_BYTES) {
        _Atomic uint32_t *grains = grains_of(chunk);
        uint32_t given = grains ? grains_between(chunk, first, end) &
                                      atomic_load_explicit(grains, memory_order_relaxed)
                                : 0;
        if (given && !chunk_give(takers, chunk, given, grains)) {
            takers->count = 0;
            break;
        }
    }
    return takers->count > 0;
}

/* Whether other free memory may have pages; cheap, and not exact. */
static bool heap_has_spare(acre_hostmem *heap, uint64_t held)
{
    return held <= CHUNK_HELD_MAX &&
           (uint64_t)atomic_load_explicit(&heap->large_bytes, memory_order_relaxed) +
                   (held <= GRAIN_HELD_MAX ? GRAIN_BYTES : CHUNK_BYTES) <=
               held;
}

/* Puts whole chunks at the end, where serving begins; gives how many there are. */
static size_t takers_sort(struct takers *takers)
{
    size_t parts = 0;

    for (size_t i = 0; i < takers->count; i++) {
        struct taker item = takers->items[i];
        if (item.grains == CHUNK_WHOLE)
            continue;
        takers->items[i] = takers->items[parts];
        takers->items[parts++] = item;
    }
    return takers->count - parts;
}

/* Looks for pages for all that wait; afterwards none does. */
static void takers_serve(acre_hostmem *heap, struct takers *takers)
{
    uint64_t held = inside_held_bytes(heap->cache);
    size_t whole = takers_sort(takers), parts = takers->count - whole;

    if (takers->count && heap_has_spare(heap, held) && hang_has_room()) {
        if (whole) {
            struct takers some = {.count = whole, .way = TAKE_CHUNKS, .node = takers->node};
            for (size_t i = 0; i < whole; i++)
                some.items[i] = takers->items[parts + i];
            inside_walk_free(heap->cache, block_give, &some);
            takers->count = parts + some.count;
        }
        for (takers->way = TAKE_FROM_PARTS;
             takers->count && takers->way <= TAKE_GRAINS && held <= GRAIN_HELD_MAX; takers->way++)
            inside_walk_free(heap->cache, block_give, takers);
    }
    takers->count = 0;
}

/* Several nodes: looks for free pages of the thread's own for whole chunks of a block that have
 * those of another. */
static void strangers_serve(acre_hostmem *heap, char *base, size_t bytes, uint8_t node)
{
    char *first = (char *)round_up((uintptr_t)base, CHUNK_BYTES), *aside;
    struct takers takers = {.count = 0, .way = TAKE_EXCHANGE, .node = node};

    for (char *chunk = first; chunk + CHUNK_BYTES <= base + bytes && takers.count < CHUNK_TAKERS;
         chunk += CHUNK_BYTES) {
        uint8_t of = grains_of(chunk) ? atomic_load(node_of(chunk)) : 0;
        if (of && of != node)
            takers.items[takers.count++] = (struct taker){chunk, CHUNK_WHOLE};
    }
    if (!takers.count || !heap_has_spare(heap, inside_held_bytes(heap->cache)) || !hang_has_room())
        return;
    aside = heap_map(2 * CHUNK_BYTES);
    if (!aside)
        return;
    takers.aside = (char *)round_up((uintptr_t)aside, CHUNK_BYTES);
    inside_walk_free(heap->cache, block_give, &takers);
    heap_unmap(aside, 2 * CHUNK_BYTES);
}

/* The node of the calling thread, plus 1; 0 when there is one node, or pages are spread. */
static uint8_t node_own(const acre_hostmem *heap)
{
    if (LIKELY(heap->numa->count <= 1) || (heap->flags & ACRE_HOSTMEM_INTERLEAVE))
        return 0;
    return (uint8_t)(numa_choose(heap->numa, NUMA_LOCAL) + 1);
}

void chunks_admit(acre_hostmem *heap, char *base, size_t bytes, bool may_move)
{
    struct takers takers;
    bool may_take = may_move && bytes >= CHUNK_TAKE_MIN;

    takers.count = 0;
    if (!range_is_known(base, bytes))
        return;
    takers.node = may_take ? node_own(heap) : 0;
    if (UNLIKELY(takers.node))
        strangers_serve(heap, base, bytes, takers.node);
    for (char *chunk = chunk_down(base); chunk < base + bytes; chunk += CHUNK_BYTES) {
        _Atomic uint32_t *grains = grains_make(chunk);
        if (!grains)
            break;
        uint32_t has = atomic_load_explicit(grains, memory_order_relaxed),
                 touched = grains_between(chunk, grain_down(base), grain_up(base + bytes));
        if (LIKELY(!(touched & ~has)))
            continue;
        has = atomic_fetch_or(grains, touched);
        if (UNLIKELY(takers.node && !has))
            atomic_store_explicit(node_of(chunk), takers.node, memory_order_relaxed);
        touched = grains_between(chunk, grain_up(base), grain_down(base + bytes)) & ~has;
        if (!touched || !may_take)
            continue;
        takers.items[takers.count++] = (struct taker){chunk, touched};
        if (takers.count == CHUNK_TAKERS)
            takers_serve(heap, &takers);
    }
    if (takers.count)
        takers_serve(heap, &takers);
}

void chunks_forget(char *base, size_t bytes)
{
    char *first = grain_up(base), *end = grain_down(base + bytes);

    if (!range_is_known(base, bytes))
        return;
    for (char *chunk = chunk_down(first); chunk < end; chunk += CHUNK_BYTES) {
        _Atomic uint32_t *grains = grains_of(chunk);
        if (grains)
            atomic_fetch_and(grains, ~grains_between(chunk, first, end));
    }
}

size_t chunks_count(char *base, size_t bytes)
{
    char *first = grain_up(base), *end = grain_down(base + bytes);
    size_t count = 0;

    for (char *chunk = chunk_down(first); chunk < end; chunk += CHUNK_BYTES) {
        _Atomic uint32_t *grains = grains_of(chunk);
        if (grains)
            count += (size_t)__builtin_popcount(atomic_load_explicit(grains, memory_order_relaxed) &
                                                grains_between(chunk, first, end));
    }
    return count;
}
