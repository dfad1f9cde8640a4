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

void shelf_insert(struct shelf *shelf, struct block *block);
void shelf_remove(struct shelf *shelf, struct block *block);

/* First block with at least bytes, in order; NULL when none. */
struct block *shelf_find(const struct shelf *shelf, size_t bytes);

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
