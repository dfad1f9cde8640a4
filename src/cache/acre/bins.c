/* SPDX-License-Identifier: MIT */
#include "cache/acre/bins.h"

#include "base/heap.h"

void bins_init(struct bins *bins)
{
    *bins = (struct bins){0};
    list_init(&bins->misfits);
}

void bins_fini(struct bins *bins)
{
    for (size_t word = 0; word < BINS_WORDS; word++)
        if (bins->parts[word])
            heap_free(bins_head(bins, word * 64));
    bins_init(bins);
}

void bins_link_new(struct bins *bins, struct block *block, size_t index)
{
    size_t first = index / 64 * 64;
    struct list *heads = heap_alloc(64 * sizeof *heads);

    if (!heads) {
        block->bin = BINS_MISFIT;
        list_push_front(&bins->misfits, &block->link);
        return;
    }
    for (int i = 0; i < 64; i++)
        list_init(&heads[i]);
    bins->parts[index / 64] = (uintptr_t)heads - first * sizeof *heads;
    bins_link(bins, block, index);
}

struct block *bins_find_misfit(const struct bins *bins, size_t bytes)
{
    LIST_FOR_EACH(link, &bins->misfits)
        if (CONTAINER_OF(link, struct block, link)->bytes >= bytes)
            return CONTAINER_OF(link, struct block, link);
    return NULL;
}

struct block *bins_take(struct bins *bins, size_t bytes)
{
    struct block *block = bins_find(bins, bytes);

    if (block)
        bins_remove(bins, block);
    return block;
}

/* The first block of the bins from index on; NULL when there is none. */
static struct block *first_from(const struct bins *bins, size_t index)
{
    uint64_t word = index < BINS_COUNT ? bins->words[index / 64] >> index % 64 : 0;

    if (word) {
        index += bit_low(word);
    } else {
        uint64_t summary = bins->summary & (~(uint64_t)0 << index / 64 << 1);
        if (!summary)
            return NULL;
        index = bit_low(summary) * 64 + bit_low(bins->words[bit_low(summary)]);
    }
    return CONTAINER_OF(bins_head(bins, index)->next, struct block, link);
}

/* The best block of a bin, or NULL. */
static struct block *best_of(const struct bins *bins, size_t index, size_t bytes)
{
    const struct list *head = bins_head(bins, index);
    struct block *best = NULL;
    int left = BINS_BEST_COUNT;

    for (struct list *link = head->next; link != head && left; link = link->next, left--) {
        struct block *block = CONTAINER_OF(link, struct block, link);
        if (block->bytes >= bytes && (!best || block->bytes < best->bytes ||
                                      (block->bytes == best->bytes && block->base < best->base)))
            best = block;
    }
    return best;
}

struct block *bins_find_best(const struct bins *bins, size_t bytes)
{
    size_t index = bins_index(bytes);

    if (bins->words[index / 64] >> index % 64 & 1) {
        struct block *best = best_of(bins, index, bytes);
        if (best)
            return best;
    }
    struct block *first = first_from(bins, index + 1);
    if (UNLIKELY(!first))
        return bins_find_misfit(bins, bytes);
    if (first->link.next == bins_head(bins, first->bin)) /* the only one */
        return first;
    return best_of(bins, first->bin, bytes);
}

struct block *bins_first(const struct bins *bins)
{
    struct block *block = first_from(bins, 0);

    return block ? block : bins_find_misfit(bins, 0);
}

struct block *bins_next(const struct bins *bins, const struct block *block)
{
    const struct list *next = block->link.next;
    bool is_misfit = block->bin == BINS_MISFIT;

    if (next != (is_misfit ? &bins->misfits : bins_head(bins, block->bin)))
        return CONTAINER_OF(next, struct block, link);
    if (is_misfit)
        return NULL;
    struct block *first = first_from(bins, block->bin + 1);
    return first ? first : bins_find_misfit(bins, 0);
}

/* Bytes of the largest block of a list. */
static size_t largest_of(const struct list *head)
{
    size_t largest = 0;

    for (const struct list *link = head->next; link != head; link = link->next) {
        size_t bytes = CONTAINER_OF(link, struct block, link)->bytes;
        if (bytes > largest)
            largest = bytes;
    }
    return largest;
}

size_t bins_largest(const struct bins *bins)
{
    size_t misfit = largest_of(&bins->misfits), largest = 0;

    if (bins->summary) {
        unsigned word = bit_high(bins->summary);
        largest = largest_of(bins_head(bins, word * 64 + bit_high(bins->words[word])));
    }
    return misfit > largest ? misfit : largest;
}

/* Whether the blocks of a bin are of its size and know it; counts them. */
static bool bin_check(const struct bins *bins, unsigned index, uint64_t *count)
{
    const struct list *head = bins_head(bins, index);

    for (const struct list *link = head->next; link != head; link = link->next) {
        const struct block *block = CONTAINER_OF(link, struct block, link);
        if (bins_index(block->bytes) != index || block->bin != index)
            return false;
        ++*count;
    }
    return true;
}

bool bins_check(const struct bins *bins, const char **fact)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < BINS_COUNT; i++) {
        bool is_made = bins->parts[i / 64];
        *fact = "bins: a bin is marked when it holds a block";
        if ((bins->words[i / 64] >> i % 64 & 1) != (is_made && !list_empty(bins_head(bins, i))))
            return false;
        *fact = "bins: a word is marked when one of its bins is";
        if ((bins->summary >> i / 64 & 1) != (bins->words[i / 64] != 0))
            return false;
        *fact = "bins: a block lies in the bin of its size, and knows it";
        if (is_made && !bin_check(bins, i, &count))
            return false;
    }
    LIST_FOR_EACH(link, &bins->misfits) {
        *fact = "bins: a block without a bin knows it";
        if (CONTAINER_OF(link, struct block, link)->bin != BINS_MISFIT)
            return false;
        count++;
    }
    *fact = "bins: the count is that of the bins";
    return count == bins->count;
}
