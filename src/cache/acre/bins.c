/* SPDX-License-Identifier: MIT */
#include "cache/acre/bins.h"

void bins_init(struct bins *bins)
{
    *bins = (struct bins){0};
    for (unsigned i = 0; i < BINS_COUNT; i++)
        list_init(&bins->heads[i]);
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
    return CONTAINER_OF(bins->heads[index].next, struct block, link);
}

/* The best block of a bin, or NULL. */
static struct block *best_of(const struct bins *bins, size_t index, size_t bytes)
{
    const struct list *head = &bins->heads[index];
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
    if (!first || first->link.next == &bins->heads[first->bin]) /* the only one */
        return first;
    return best_of(bins, first->bin, bytes);
}

struct block *bins_first(const struct bins *bins)
{
    return first_from(bins, 0);
}

struct block *bins_next(const struct bins *bins, const struct block *block)
{
    if (block->link.next != &bins->heads[block->bin])
        return CONTAINER_OF(block->link.next, struct block, link);
    return first_from(bins, block->bin + 1);
}

size_t bins_largest(const struct bins *bins)
{
    size_t largest = 0;

    if (!bins->summary)
        return 0;
    unsigned word = bit_high(bins->summary);
    const struct list *head = &bins->heads[word * 64 + bit_high(bins->words[word])];
    for (const struct list *link = head->next; link != head; link = link->next) {
        size_t bytes = CONTAINER_OF(link, struct block, link)->bytes;
        if (bytes > largest)
            largest = bytes;
    }
    return largest;
}

bool bins_check(const struct bins *bins, const char **fact)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < BINS_COUNT; i++) {
        const struct list *head = &bins->heads[i];
        *fact = "bins: a bin is marked when it holds a block";
        if ((bins->words[i / 64] >> i % 64 & 1) == (uint64_t)list_empty(head))
            return false;
        *fact = "bins: a word is marked when one of its bins is";
        if ((bins->summary >> i / 64 & 1) != (bins->words[i / 64] != 0))
            return false;
        for (const struct list *link = head->next; link != head; link = link->next) {
            const struct block *block = CONTAINER_OF(link, struct block, link);
            *fact = "bins: a block lies in the bin of its size, and knows it";
            if (bins_index(block->bytes) != i || block->bin != i)
                return false;
            count++;
        }
    }
    *fact = "bins: the count is that of the bins";
    return count == bins->count;
}
