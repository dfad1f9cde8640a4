/* SPDX-License-Identifier: MIT */
/* Free blocks by size, found in constant time.
 *
 * Sizes are counted in units of 512 bytes. Up to 63 units every size has a bin of
 * its own, above every doubling has 32:
 *
 *   bin     0 .. 63     sizes 0 .. 63
 *   bin    64 .. 95     [64, 128) in steps of 2
 *   bin    96 .. 127    [128, 256) in steps of 4, and so on
 *
 *   words[w]   bit b set: bin 64 w + b holds a block
 *   summary    bit w set: words[w] is not 0
 *   parts[w]   heads of the bins 64 w to 64 w + 63, made when the first block comes; kept
 *              is where bin 0 would be if all parts lay in one array, so that looking up needs
 *              no remainder
 *
 * Putting a block in never fails: without host memory for a part it goes to the misfits, which
 * are looked at one by one when no bin has what is asked for.
 *
 * A request looks for a block in the bin of its own size first, where some may be
 * too small, and then takes the first of the next bin up that is not empty, so
 * that, when such a bin exists, the rest left over is at most 1/16 of the request.
 *
 * Not thread-safe: the owner's lock is held around every call.
 * Blocks are linked through block->link, know their bin in block->bin, and are
 * not owned.
 */
#ifndef SRC_CACHE_BINS_H
#define SRC_CACHE_BINS_H

#include "base/bits.h"
#include "base/check.h"
#include "base/list.h"
#include "cache/block.h"

enum {
    BINS_STEP_SHIFT = 5,                              /* bins of a doubling (log2)  */
    BINS_COUNT = (64 - 9 - BINS_STEP_SHIFT + 1) << BINS_STEP_SHIFT, /* any size fits */
    BINS_WORDS = (BINS_COUNT + 63) / 64,
    BINS_MISFIT = BINS_WORDS * 64, /* where blocks are that found no bin               */
    BINS_LOOK_COUNT = 4, /* blocks looked at in the bin of a request's own size      */
    BINS_BEST_COUNT = 64, /* and in each bin when the best is wanted                 */
};

struct bins {
    uint64_t summary;           /* words that are not 0     */
    uint64_t words[BINS_WORDS + 1]; /* bins that hold a block; the last is always 0 */
    uint64_t count;             /* blocks held              */
    uint64_t change_count;      /* so often anything changed */
    uintptr_t parts[BINS_WORDS]; /* see above; 0: not made  */
    struct list misfits;        /* blocks without a bin     */
};

/* The bin of a size. */
static inline size_t bins_index(size_t bytes)
{
    uint64_t units = bytes / BLOCK_UNIT;
    unsigned shift = bit_high(units | (1 << BINS_STEP_SHIFT)) - BINS_STEP_SHIFT;

    return ((size_t)shift << BINS_STEP_SHIFT) + (units >> shift);
}

void bins_init(struct bins *bins);
/* Frees the parts; the blocks in them are not touched. */
void bins_fini(struct bins *bins);

/* The head of a bin whose part is made. */
static inline struct list *bins_head(const struct bins *bins, size_t index)
{
    return (struct list *)(bins->parts[index / 64] + index * sizeof(struct list));
}

/* Links a block into a bin whose part is not made yet, or among the misfits. */
void bins_link_new(struct bins *bins, struct block *block, size_t index);

/* Links a block into a bin, whatever its size says; see bins_insert. */
static inline void bins_link(struct bins *bins, struct block *block, size_t index)
{
    if (UNLIKELY(!bins->parts[index / 64])) {
        bins_link_new(bins, block, index);
        return;
    }
    struct list *head = bins_head(bins, index), *first = head->next;

    block->bin = (uint16_t)index;
    if (first == head) {
        bins->words[index / 64] |= (uint64_t)1 << index % 64;
        bins->summary |= (uint64_t)1 << index / 64;
    }
    block->link.prev = head;
    block->link.next = first;
    first->prev = &block->link;
    head->next = &block->link;
}

static inline void bins_unlink(struct bins *bins, struct block *block)
{
    struct list *next = block->link.next, *prev = block->link.prev;
    size_t index = block->bin;

    next->prev = prev;
    prev->next = next;
    if (next != prev)
        return;
    /* Both neighbours are the head: the bin is empty now. */
    bins->words[index / 64] &= ~((uint64_t)1 << index % 64);
    if (!bins->words[index / 64])
        bins->summary &= ~((uint64_t)1 << index / 64);
}

static inline void bins_insert(struct bins *bins, struct block *block)
{
    bins->count++;
    bins->change_count++;
    bins_link(bins, block, bins_index(block->bytes));
}

static inline void bins_remove(struct bins *bins, struct block *block)
{
    bins->count--;
    bins->change_count++;
    bins_unlink(bins, block);
}

/* Gives a block that is in a bin another size; it stays where it is when its bin
 * serves that too. */
static inline void bins_resize(struct bins *bins, struct block *block, size_t bytes)
{
    size_t index = bins_index(bytes);

    bins->change_count++;
    block->bytes = bytes;
    if (index == block->bin)
        return;
    bins_unlink(bins, block);
    bins_link(bins, block, index);
}

/* A block among the misfits of at least bytes; NULL when there is none. */
struct block *bins_find_misfit(const struct bins *bins, size_t bytes);

/* A block of at least bytes, left where it is; NULL when there is none. */
static inline struct block *bins_find(const struct bins *bins, size_t bytes)
{
    size_t index = bins_index(bytes);
    uint64_t word = bins->words[index / 64] >> index % 64;

    if (word & 1) {
        const struct list *head = bins_head(bins, index);
        int left = BINS_LOOK_COUNT;
        for (struct list *link = head->next; link != head && left; link = link->next, left--)
            if (CONTAINER_OF(link, struct block, link)->bytes >= bytes)
                return CONTAINER_OF(link, struct block, link);
        word &= ~(uint64_t)1;
    }
    if (word) {
        index += bit_low(word);
    } else {
        uint64_t summary = bins->summary & (~(uint64_t)0 << index / 64 << 1);
        if (UNLIKELY(!summary))
            return bins_find_misfit(bins, bytes);
        index = bit_low(summary);
        index = index * 64 + bit_low(bins->words[index]);
    }
    return CONTAINER_OF(bins_head(bins, index)->next, struct block, link);
}

/* The smallest block of at least bytes, of these the one with the lowest address, left
 * where it is; NULL when there is none. What it gives does not depend on the order
 * in which blocks came. */
struct block *bins_find_best(const struct bins *bins, size_t bytes);

/* As bins_find, but takes the block out. */
struct block *bins_take(struct bins *bins, size_t bytes);

/* Walks all blocks, smaller bins first; NULL at the end. The current block may
 * be removed once the next one is known. */
struct block *bins_first(const struct bins *bins);
struct block *bins_next(const struct bins *bins, const struct block *block);

/* Bytes of the largest block; 0 when there is none. */
size_t bins_largest(const struct bins *bins);

/* Whether maps, places and sums hold; names the fact that does not. */
bool bins_check(const struct bins *bins, const char **fact);

#endif
