/* SPDX-License-Identifier: MIT */
/* Blocks of one stream in one pool: the free ones in order of (size, order,
 * address), and the unmapped ones of expandable segments by address.
 *
 *   bins[c]     tree of the blocks of size class c
 *   map[w]      bit b set: bins[64 w + b] is not empty
 *   summary     bit w set: map[w] is not 0
 *
 * There are 32 classes per doubling, so a tree holds blocks whose sizes differ by
 * less than a thirty-second: mostly one or two of them, and two bit scans find
 * the next class that has any. Classes increase with size, so walking them walks
 * the order.
 *
 * Not thread-safe: the owner's lock is held around every call.
 * Blocks are linked through block->node and are not owned.
 */
#ifndef SRC_CACHE_SHELF_H
#define SRC_CACHE_SHELF_H

#include "base/bits.h"
#include "cache/block.h"

#define SHELF_CLASS_COUNT 1536 /* up to 2^60 bytes */
#define SHELF_NO_ORDER UINT64_MAX

struct shelf {
    void *stream;
    uint64_t order_unused; /* of a segment that went before it had a page; else
                              SHELF_NO_ORDER                                 */
    struct rbtree unmapped;
    uint64_t summary;
    uint64_t map[SHELF_CLASS_COUNT / 64];
    struct rbtree bins[SHELF_CLASS_COUNT];
};

/* Size class of a block: its size in units of 512 bytes, cut to six digits. */
static inline unsigned shelf_class(size_t bytes)
{
    uint64_t units = bytes / BLOCK_UNIT;
    unsigned shift = units < 64 ? 0 : bit_high(units) - 5;

    return (shift << 5) + (unsigned)(units >> shift);
}

/* NULL when there is no memory. */
struct shelf *shelf_create(void *stream);
void shelf_destroy(struct shelf *shelf);

/* Notes that a class has blocks, or none any more. */
static inline void shelf_mark(struct shelf *shelf, unsigned class)
{
    shelf->map[class / 64] |= (uint64_t)1 << class % 64;
    shelf->summary |= (uint64_t)1 << class / 64;
}
static inline void shelf_unmark(struct shelf *shelf, unsigned class)
{
    if (!(shelf->map[class / 64] &= ~((uint64_t)1 << class % 64)))
        shelf->summary &= ~((uint64_t)1 << class / 64);
}

/* Adds a block to a class that has some already. */
void shelf_insert_among(struct shelf *shelf, struct block *block, unsigned class);
static inline void shelf_insert_as(struct shelf *shelf, struct block *block, unsigned class)
{
    struct rbtree *tree = &shelf->bins[class];

    CHECK(block->stream == shelf->stream);
    if (UNLIKELY(!rbtree_empty(tree))) {
        shelf_insert_among(shelf, block, class);
        return;
    }
    shelf_mark(shelf, class);
    rbtree_set_alone(tree, &block->node);
}

static inline void shelf_insert(struct shelf *shelf, struct block *block)
{
    shelf_insert_as(shelf, block, shelf_class(block->bytes));
}

static inline void shelf_remove_as(struct shelf *shelf, struct block *block, unsigned class)
{
    struct rbtree *tree = &shelf->bins[class];

    if (UNLIKELY(!rbtree_is_alone(&block->node))) {
        rbtree_unlink(tree, &block->node);
        return;
    }
    tree->root = NULL;
    shelf_unmark(shelf, class);
}

static inline void shelf_remove(struct shelf *shelf, struct block *block)
{
    shelf_remove_as(shelf, block, shelf_class(block->bytes));
}

/* Gives a block another place and size. One that is alone in its class, and stays in it, needs
 * no other place in the order. */
static inline void shelf_change(struct shelf *shelf, struct block *block, char *base, size_t bytes)
{
    unsigned class = shelf_class(block->bytes), class_new = shelf_class(bytes);
    bool is_alone = rbtree_is_alone(&block->node);

    block->base = base;
    block->bytes = bytes;
    if (LIKELY(is_alone && class == class_new))
        return;
    shelf_remove_as(shelf, block, class);
    shelf_insert_as(shelf, block, class_new);
}

/* First class from start on that has a block, or -1. */
static inline int shelf_class_from(const struct shelf *shelf, unsigned start)
{
    unsigned word = start / 64;
    uint64_t bits;

    if (UNLIKELY(start >= SHELF_CLASS_COUNT))
        return -1;
    bits = shelf->map[word] >> start % 64;
    if (bits)
        return (int)(start + bit_low(bits));
    bits = shelf->summary >> (word + 1) << (word + 1);
    if (!bits)
        return -1;
    word = bit_low(bits);
    return (int)(word * 64 + bit_low(shelf->map[word]));
}

/* First block of a class that is not empty with at least bytes, in order; NULL when none. */
struct block *shelf_find_below(const struct rbtree *tree, size_t bytes);
static inline struct block *shelf_find_among(const struct shelf *shelf, unsigned class,
                                             size_t bytes)
{
    const struct rbnode *root = shelf->bins[class].root;
    struct block *block = CONTAINER_OF(root, struct block, node);

    if (LIKELY(!root->child[0] && block->bytes >= bytes))
        return block;
    return shelf_find_below(&shelf->bins[class], bytes);
}

/* First block with at least bytes, in order; NULL when none. */
static inline struct block *shelf_find(const struct shelf *shelf, size_t bytes)
{
    unsigned class = shelf_class(bytes);
    int found = shelf_class_from(shelf, class);

    if (found == (int)class) {
        struct block *block = shelf_find_among(shelf, class, bytes);
        if (LIKELY(block != NULL))
            return block;
        found = shelf_class_from(shelf, class + 1);
    }
    return found < 0 ? NULL : shelf_find_among(shelf, (unsigned)found, 0);
}

/* Walks in order; NULL at the end. */
struct block *shelf_first(const struct shelf *shelf);
struct block *shelf_last(const struct shelf *shelf);
struct block *shelf_next(const struct shelf *shelf, const struct block *block);
struct block *shelf_prev(const struct shelf *shelf, const struct block *block);

/* The unmapped blocks; walks by increasing address. */
void shelf_unmapped_insert(struct shelf *shelf, struct block *block);
void shelf_unmapped_remove(struct shelf *shelf, struct block *block);
struct block *shelf_unmapped_first(const struct shelf *shelf);
struct block *shelf_unmapped_next(const struct block *block);

/* Whether trees, order and bits hold. */
bool shelf_check(const struct shelf *shelf, const char **fact);

#endif
