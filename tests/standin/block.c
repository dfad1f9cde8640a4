/* SPDX-License-Identifier: MIT */
/* Ranges of addresses: allocations, reservations, and mappings inside those. */
#include "tests/standin/core.h"

#include <stdlib.h>

static inline bool block_less(const struct block *a, const struct block *b)
{
    return a->base < b->base;
}

static inline bool block_before(const struct block *block, const uintptr_t *end)
{
    return block->base < *end;
}

RBTREE_DEFINE(block_set, struct block, node, uintptr_t, block_less, block_before);

static struct rbtree blocks = RBTREE_INITIALIZER, mappings = RBTREE_INITIALIZER;
static uint64_t number_last;

static struct rbtree *tree_of(enum block_kind kind)
{
    return kind == BLOCK_MAPPING ? &mappings : &blocks;
}

struct block *block_add(enum block_kind kind, uintptr_t base, size_t bytes, int device)
{
    struct block *block = calloc(1, sizeof *block);

    if (!block)
        return NULL;
    block->kind = kind;
    block->base = base;
    block->bytes = bytes;
    block->device = device;
    block->number = ++number_last;
    block_set_insert(tree_of(kind), block);
    return block;
}

void block_remove(struct block *block)
{
    block_set_remove(tree_of(block->kind), block);
    free(block);
}

/* The last block that begins at or below an address. */
static struct block *below(const struct rbtree *tree, uintptr_t pointer)
{
    uintptr_t end = pointer + 1;
    struct block *above = block_set_lower_bound(tree, &end);

    return above ? block_set_prev(above) : block_set_last(tree);
}

static struct block *exactly(const struct rbtree *tree, uintptr_t base)
{
    struct block *block = below(tree, base);

    return block && block->base == base ? block : NULL;
}

static struct block *around(const struct rbtree *tree, uintptr_t pointer)
{
    struct block *block = below(tree, pointer);

    return block && pointer - block->base < block->bytes ? block : NULL;
}

struct block *block_at(uintptr_t base)
{
    return exactly(&blocks, base);
}

struct block *mapping_at(uintptr_t base)
{
    return exactly(&mappings, base);
}

struct block *block_around(uintptr_t pointer)
{
    struct block *mapping = around(&mappings, pointer);

    return mapping ? mapping : around(&blocks, pointer);
}

struct block *mapping_next(struct block *mapping)
{
    return block_set_next(mapping);
}

struct block *mapping_overlap(uintptr_t base, size_t bytes)
{
    struct block *block = below(&mappings, base + bytes - 1);

    return block && block->base + block->bytes > base ? block : NULL;
}

static void count_one(const struct block *block, struct standin_live *live)
{
    switch (block->kind) {
    case BLOCK_PLAIN:
        live->allocations++;
        break;
    case BLOCK_HOST:
        live->host++;
        break;
    case BLOCK_REGISTERED:
        live->registered++;
        break;
    case BLOCK_POOL:
        live->pool_blocks++;
        break;
    case BLOCK_OPENED:
        live->opened++;
        break;
    case BLOCK_RESERVED:
        live->reservations++;
        break;
    case BLOCK_MAPPING:
        live->mappings++;
        break;
    }
}

void block_count(struct standin_live *live)
{
    for (struct block *it = block_set_first(&blocks); it; it = block_set_next(it))
        count_one(it, live);
    for (struct block *it = block_set_first(&mappings); it; it = block_set_next(it))
        count_one(it, live);
}
