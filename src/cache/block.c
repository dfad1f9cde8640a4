/* SPDX-License-Identifier: MIT */
/* Blocks: objects from slabs, cutting and joining. */
#include "cache/block.h"

#include "base/check.h"
#include "base/heap.h"
#include "cache/segment.h"

#include <string.h>

/* Objects per slab. */
#define SLAB_BLOCKS 64

/* A slab; slabs are only freed together, when the store ends. */
struct block_slab {
    struct block_slab *next;
    struct block blocks[SLAB_BLOCKS];
};

void block_store_init(struct block_store *store)
{
    *store = (struct block_store){0};
}

void block_store_fini(struct block_store *store)
{
    for (struct block_slab *slab = store->slabs, *next; slab; slab = next) {
        next = slab->next;
        heap_free(slab);
    }
    *store = (struct block_store){0};
}

bool block_store_reserve_slow(struct block_store *store, size_t count)
{
    while (store->spare_count < count) {
        struct block_slab *slab = heap_zalloc(sizeof *slab);

        if (!slab)
            return false;
        slab->next = store->slabs;
        store->slabs = slab;
        store->total_count += SLAB_BLOCKS;
        for (int i = SLAB_BLOCKS - 1; i >= 0; i--)
            block_destroy(store, &slab->blocks[i]);
    }
    return true;
}

struct block *block_create(struct block_store *store)
{
    struct block *block = store->spares;

    CHECK(block && block->state == BLOCK_SPARE);
    block_spare_take(store);
    block->next = NULL;
    block->prev = NULL;
    block->requested = 0;
    block->uses = NULL;
    block->arena = NULL;
    block->event_count = 0;
    block->is_oversize = false;
    block->is_stitched = false;
    block->state = BLOCK_LIVE;
    return block;
}

struct block *block_split(struct block_store *store, struct block *block, size_t bytes)
{
    struct block *front = block_create(store);

    CHECK(bytes > 0 && bytes < block->bytes && bytes % BLOCK_UNIT == 0);
    front->base = block->base;
    front->bytes = bytes;
    front->stream = block->stream;
    front->segment = block->segment;
    front->pool = block->pool;
    front->arena = block->arena;
    front->is_expandable = block->is_expandable;
    front->prev = block->prev;
    front->next = block;
    if (front->prev)
        front->prev->next = front;
    else
        front->segment->first = front;
    block->prev = front;
    block->base += bytes;
    block->bytes -= bytes;
    return front;
}

void block_merge(struct block_store *store, struct block *block, struct block *neighbour)
{
    CHECK(neighbour->segment == block->segment);
    if (block->prev == neighbour) {
        block->base = neighbour->base;
        block->prev = neighbour->prev;
        if (block->prev)
            block->prev->next = block;
        else
            block->segment->first = block;
    } else {
        CHECK(block->next == neighbour);
        block->next = neighbour->next;
        if (block->next)
            block->next->prev = block;
    }
    block->bytes += neighbour->bytes;
    block_destroy(store, neighbour);
}

#define FACT(holds)                                                                                \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            *fact = "block: " #holds;                                                              \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

bool block_check(const struct block *block, const char **fact)
{
    FACT(block->segment != NULL);
    FACT(block->pool == block->segment->pool);
    FACT(block->bytes > 0 && block->bytes % BLOCK_UNIT == 0);
    FACT(block->base >= block->segment->base);
    FACT(block->base + block->bytes <= block->segment->base + block->segment->bytes);
    FACT(block->prev || block->segment->first == block);
    FACT(block->prev || block->base == block->segment->base);
    FACT(block->next || block->base + block->bytes == block->segment->base + block->segment->bytes);
    if (block->next) {
        FACT(block->next->prev == block);
        FACT(block->base + block->bytes == block->next->base);
        FACT(block->state != BLOCK_FREE || block->next->state != BLOCK_FREE ||
             block->stream != block->next->stream);
        FACT(block->state != BLOCK_UNMAPPED || block->next->state != BLOCK_UNMAPPED);
    }
    FACT(!block->is_expandable || block->segment->expand);
    FACT(block->is_stitched == (block->segment->range != NULL));
    FACT(block->state <= BLOCK_UNMAPPED || block->state == BLOCK_LENT);
    FACT(block->state < BLOCK_UNMAPPED || block->segment->expand);
    FACT((block->state == BLOCK_WAITING) == (block->event_count > 0));
    FACT(block->state == BLOCK_LIVE || !block->uses);
    FACT(block->state == BLOCK_LIVE || !block->is_oversize);
    FACT(block->state == BLOCK_LIVE || !block->is_late);
    FACT(block->state != BLOCK_LIVE || block->requested <= block->bytes);
    return true;
}
