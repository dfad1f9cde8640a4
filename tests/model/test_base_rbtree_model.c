/* SPDX-License-Identifier: MIT */
/* Random insertions, removals and lookups against a sorted array. */
#include "base/rbtree.h"

#include "tests/support/t.h"

#include <acre/base.h>

#define ITEMS 2000

struct item {
    uint64_t stream, size;
    uint32_t serial;
    bool is_in;
    struct rbnode node;
};

struct key {
    uint64_t stream, size;
};

static inline bool item_less(const struct item *a, const struct item *b)
{
    if (a->stream != b->stream)
        return a->stream < b->stream;
    if (a->size != b->size)
        return a->size < b->size;
    return a->serial < b->serial;
}

static inline bool item_before(const struct item *a, const struct key *key)
{
    return a->stream != key->stream ? a->stream < key->stream : a->size < key->size;
}

RBTREE_DEFINE(items, struct item, node, struct key, item_less, item_before);

/* The oracle: pointers in order, by insertion. */
static struct item *sorted[ITEMS];
static int sorted_count;

static void oracle_insert(struct item *item)
{
    int at = sorted_count++;

    for (; at > 0 && item_less(item, sorted[at - 1]); at--)
        sorted[at] = sorted[at - 1];
    sorted[at] = item;
}

static void oracle_remove(const struct item *item)
{
    int at = 0;

    while (sorted[at] != item)
        at++;
    for (sorted_count--; at < sorted_count; at++)
        sorted[at] = sorted[at + 1];
}

static struct item *oracle_lower_bound(const struct key *key)
{
    for (int i = 0; i < sorted_count; i++)
        if (!item_before(sorted[i], key))
            return sorted[i];
    return NULL;
}

static void compare_all(const struct rbtree *tree)
{
    const struct item *up = items_first(tree), *down = items_last(tree);

    EXPECT(items_check(tree));
    for (int i = 0; i < sorted_count; i++) {
        EXPECT_PTR_EQ(up, sorted[i]);
        EXPECT_PTR_EQ(down, sorted[sorted_count - 1 - i]);
        up = up ? items_next(up) : NULL;
        down = down ? items_prev(down) : NULL;
    }
    EXPECT(!up && !down);
}

static void run(uint64_t *state, uint64_t steps, uint64_t item_count)
{
    static struct item items[ITEMS];
    struct rbtree tree = RBTREE_INITIALIZER;

    memset(items, 0, sizeof items);
    sorted_count = 0;
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t r = t_random(state);
        struct item *item = &items[r % item_count];
        struct key key = {(r >> 20) % 4, (r >> 24) % 50};

        if (item->is_in) {
            items_remove(&tree, item);
            oracle_remove(item);
        } else {
            item->stream = key.stream;
            item->size = key.size;
            item->serial = (uint32_t)(item - items);
            items_insert(&tree, item);
            oracle_insert(item);
        }
        item->is_in = !item->is_in;
        key.size = (r >> 40) % 52;
        EXPECT_PTR_EQ(items_lower_bound(&tree, &key), oracle_lower_bound(&key));
        if (step % 64 == 0 || item_count < 20)
            compare_all(&tree);
    }
}

TEST(agrees_with_a_sorted_array)
{
    uint64_t state = t_seed();

    run(&state, t_count(20000, 1000000), 10);
    run(&state, t_count(10000, 200000), 100);
    run(&state, t_count(6000, 100000), ITEMS);
}

T_MAIN()
