/* SPDX-License-Identifier: MIT */
/* Red-black tree: small cases by hand, and a walk through every shape that six
 * elements can take on insertion and removal. */
#include "base/rbtree.h"

#include "tests/support/t.h"

#include <acre/base.h>

struct item {
    int key;
    int serial;
    struct rbnode node;
};

static inline bool item_less(const struct item *a, const struct item *b)
{
    return a->key < b->key;
}

static inline bool item_before(const struct item *a, const int *key)
{
    return a->key < *key;
}

RBTREE_DEFINE(items, struct item, node, int, item_less, item_before);

TEST(an_empty_tree_has_no_ends)
{
    struct rbtree tree = RBTREE_INITIALIZER;
    int key = 3;

    EXPECT(rbtree_empty(&tree));
    EXPECT(!items_first(&tree));
    EXPECT(!items_last(&tree));
    EXPECT(!items_lower_bound(&tree, &key));
    EXPECT(items_check(&tree));
}

TEST(finds_the_first_not_before_a_key)
{
    struct rbtree tree;
    struct item items[] = {{.key = 10}, {.key = 20}, {.key = 30}};

    rbtree_init(&tree);
    for (int i = 0; i < 3; i++)
        items_insert(&tree, &items[i]);
    for (int key = 5; key <= 35; key++) {
        struct item *want = key <= 10 ? &items[0] : key <= 20 ? &items[1]
                          : key <= 30 ? &items[2] : NULL;
        EXPECT_PTR_EQ(items_lower_bound(&tree, &key), want);
    }
    EXPECT_PTR_EQ(items_first(&tree), &items[0]);
    EXPECT_PTR_EQ(items_last(&tree), &items[2]);
    EXPECT_PTR_EQ(items_next(&items[0]), &items[1]);
    EXPECT_PTR_EQ(items_prev(&items[1]), &items[0]);
    EXPECT(!items_next(&items[2]));
    EXPECT(!items_prev(&items[0]));
}

TEST(equal_elements_keep_the_order_of_insertion)
{
    struct rbtree tree = RBTREE_INITIALIZER;
    struct item items[20];
    int key = 7, serial = 0;

    for (int i = 0; i < 20; i++) {
        items[i] = (struct item){.key = i % 2 ? 7 : 9, .serial = i};
        items_insert(&tree, &items[i]);
    }
    for (struct item *at = items_lower_bound(&tree, &key); at && at->key == 7;
         at = items_next(at), serial++)
        EXPECT_EQ(at->serial, 2 * serial + 1);
    EXPECT_EQ(serial, 10);
}

/* The n-th order of the first six numbers. */
static void permutation(int n, int out[6])
{
    int left[6] = {0, 1, 2, 3, 4, 5};

    for (int i = 0; i < 6; i++) {
        int pick = n % (6 - i);
        n /= 6 - i;
        out[i] = left[pick];
        for (int j = pick; j < 5; j++)
            left[j] = left[j + 1];
    }
}

static void insert_and_remove(const int in[6], const int out[6])
{
    struct rbtree tree = RBTREE_INITIALIZER;
    struct item items[6];
    bool is_in[6] = {false};

    for (int i = 0; i < 6; i++) {
        items[in[i]].key = in[i];
        items_insert(&tree, &items[in[i]]);
        is_in[in[i]] = true;
        EXPECT(items_check(&tree));
    }
    for (int i = 0; i < 6; i++) {
        items_remove(&tree, &items[out[i]]);
        is_in[out[i]] = false;
        EXPECT(items_check(&tree));
        struct item *at = items_first(&tree);
        for (int k = 0; k < 6; k++)
            if (is_in[k]) {
                EXPECT_PTR_EQ(at, &items[k]);
                at = items_next(at);
            }
        EXPECT(!at);
    }
    EXPECT(rbtree_empty(&tree));
}

TEST(every_order_of_six_insertions_and_removals_stays_sound)
{
    int in[6], out[6];

    for (int i = 0; i < 720; i++)
        for (int j = 0; j < 720; j += 7) {
            permutation(i, in);
            permutation(j, out);
            insert_and_remove(in, out);
        }
}

TEST(check_notices_broken_trees)
{
    struct rbtree tree = RBTREE_INITIALIZER;
    struct item items[8];

    for (int i = 0; i < 8; i++) {
        items[i].key = i;
        items_insert(&tree, &items[i]);
    }
    EXPECT(items_check(&tree));
    items[3].key = 100;
    EXPECT(!items_check(&tree));
    items[3].key = 3;
    for (int i = 0; i < 8; i++) {
        items[i].node.parent_colour ^= 1;
        EXPECT(!items_check(&tree));
        items[i].node.parent_colour ^= 1;
    }
    uintptr_t kept = items[7].node.parent_colour;
    items[7].node.parent_colour = (uintptr_t)&items[0].node | (kept & 1);
    EXPECT(!rbtree_is_sound(&tree));
    items[7].node.parent_colour = kept;
    EXPECT(items_check(&tree));
}

T_MAIN()
