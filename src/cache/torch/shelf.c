/* SPDX-License-Identifier: MIT */
#include "cache/torch/shelf.h"

#include "base/check.h"
#include "base/heap.h"
#include "cache/segment.h"

static inline bool bin_less(const struct block *a, const struct block *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    if (a->segment != b->segment && a->segment->order != b->segment->order)
        return a->segment->order < b->segment->order;
    return (uintptr_t)a->base < (uintptr_t)b->base;
}

static inline bool bin_before(const struct block *block, const size_t *bytes)
{
    return block->bytes < *bytes;
}

RBTREE_DEFINE(bin, struct block, node, size_t, bin_less, bin_before);

static inline bool unmapped_less(const struct block *a, const struct block *b)
{
    return (uintptr_t)a->base < (uintptr_t)b->base;
}

static inline bool unmapped_before(const struct block *block, const uintptr_t *base)
{
    return (uintptr_t)block->base < *base;
}

RBTREE_DEFINE(unmapped, struct block, node, uintptr_t, unmapped_less, unmapped_before);

struct shelf *shelf_create(void *stream)
{
    struct shelf *shelf = heap_zalloc(sizeof *shelf);

    if (!shelf)
        return NULL;
    shelf->stream = stream;
    shelf->order_unused = SHELF_NO_ORDER;
    return shelf;
}

void shelf_destroy(struct shelf *shelf)
{
    heap_free(shelf);
}

void shelf_insert_among(struct shelf *shelf, struct block *block, unsigned class)
{
    bin_insert(&shelf->bins[class], block);
}

/* Last class before end that has a block, or -1. */
static int class_before(const struct shelf *shelf, unsigned end)
{
    unsigned word = end / 64;
    uint64_t bits = 0;

    if (end < SHELF_CLASS_COUNT && end % 64)
        bits = shelf->map[word] & (((uint64_t)1 << end % 64) - 1);
    if (bits)
        return (int)(word * 64 + bit_high(bits));
    bits = shelf->summary & (((uint64_t)1 << word) - 1);
    if (!bits)
        return -1;
    word = bit_high(bits);
    return (int)(word * 64 + bit_high(shelf->map[word]));
}

struct block *shelf_find_below(const struct rbtree *tree, size_t bytes)
{
    return bin_lower_bound(tree, &bytes);
}

struct block *shelf_first(const struct shelf *shelf)
{
    int class = shelf_class_from(shelf, 0);

    return class < 0 ? NULL : bin_first(&shelf->bins[class]);
}

struct block *shelf_last(const struct shelf *shelf)
{
    int class = class_before(shelf, SHELF_CLASS_COUNT);

    return class < 0 ? NULL : bin_last(&shelf->bins[class]);
}

struct block *shelf_next(const struct shelf *shelf, const struct block *block)
{
    struct block *next = bin_next(block);

    if (next)
        return next;
    int class = shelf_class_from(shelf, shelf_class(block->bytes) + 1);
    return class < 0 ? NULL : bin_first(&shelf->bins[class]);
}

struct block *shelf_prev(const struct shelf *shelf, const struct block *block)
{
    struct block *prev = bin_prev(block);

    if (prev)
        return prev;
    int class = class_before(shelf, shelf_class(block->bytes));
    return class < 0 ? NULL : bin_last(&shelf->bins[class]);
}

void shelf_unmapped_insert(struct shelf *shelf, struct block *block)
{
    CHECK(block->stream == shelf->stream && block->state == BLOCK_UNMAPPED);
    unmapped_insert(&shelf->unmapped, block);
}

void shelf_unmapped_remove(struct shelf *shelf, struct block *block)
{
    CHECK(block->state == BLOCK_UNMAPPED);
    unmapped_remove(&shelf->unmapped, block);
}

struct block *shelf_unmapped_first(const struct shelf *shelf)
{
    return unmapped_first(&shelf->unmapped);
}

struct block *shelf_unmapped_next(const struct block *block)
{
    return unmapped_next(block);
}

bool shelf_check(const struct shelf *shelf, const char **fact)
{
    *fact = "shelf: the unmapped blocks are in order";
    if (!unmapped_check(&shelf->unmapped))
        return false;
    for (const struct block *at = unmapped_first(&shelf->unmapped); at; at = unmapped_next(at)) {
        *fact = "shelf: every unmapped block is one, and of the stream";
        if (at->state != BLOCK_UNMAPPED || at->stream != shelf->stream)
            return false;
    }
    for (unsigned class = 0; class < SHELF_CLASS_COUNT; class ++) {
        const struct rbtree *tree = &shelf->bins[class];
        bool has_bit = shelf->map[class / 64] >> class % 64 & 1;
        *fact = "shelf: a bit is set where a tree has blocks";
        if (has_bit == rbtree_empty(tree))
            return false;
        *fact = "shelf: each tree is balanced and in order";
        if (has_bit && !bin_check(tree))
            return false;
        for (const struct block *at = bin_first(tree); at; at = bin_next(at)) {
            *fact = "shelf: every block is of the class and stream";
            if (shelf_class(at->bytes) != class || at->stream != shelf->stream)
                return false;
        }
    }
    for (unsigned word = 0; word < SHELF_CLASS_COUNT / 64; word++) {
        *fact = "shelf: the summary tells which words have bits";
        if ((shelf->summary >> word & 1) != (shelf->map[word] != 0))
            return false;
    }
    return true;
}
