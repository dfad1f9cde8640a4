/* SPDX-License-Identifier: MIT */
/* An intrusive red-black tree whose order is compiled into the caller.
 *
 * Own rather than libbsd's sys/tree.h: the core needs libc alone, the order is
 * inlined here in the same way, and the rebalancing, which does not depend on
 * it, exists once (rbtree.c) instead of once per kind of tree.
 *
 * The element embeds a struct rbnode; the colour lives in the lowest bit of the
 * parent pointer. Nothing is owned and nothing is allocated, so no call fails.
 *
 *     static inline bool free_less(const struct block *a, const struct block *b);
 *     static inline bool free_before(const struct block *a, const struct key *k);
 *     RBTREE_DEFINE(free_set, struct block, free_node, struct key, free_less, free_before)
 *
 * gives free_set_insert, _remove, _lower_bound, _first, _last, _next, _prev and
 * _check. less is a strict order; before says that an element comes before the
 * key, and must agree with less. Equal elements stay in order of insertion.
 *
 * Always: the root is black, no red node has a red child, every path from the
 * root to a missing child passes the same number of black nodes.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_BASE_RBTREE_H
#define SRC_BASE_RBTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbnode {
    uintptr_t parent_colour; /* parent, with bit 0 set when this node is black */
    struct rbnode *child[2]; /* left: smaller; right: larger or equal          */
};

struct rbtree {
    struct rbnode *root; /* NULL when empty */
};

#define RBTREE_INITIALIZER {NULL}

static inline void rbtree_init(struct rbtree *tree)
{
    tree->root = NULL;
}

static inline bool rbtree_empty(const struct rbtree *tree)
{
    return !tree->root;
}

/* Whether a node is the only one of its tree: black, with neither parent nor child. */
static inline bool rbtree_is_alone(const struct rbnode *node)
{
    return node->parent_colour == 1 && !((uintptr_t)node->child[0] | (uintptr_t)node->child[1]);
}

/* Makes a node the only one of an empty tree. */
static inline void rbtree_set_alone(struct rbtree *tree, struct rbnode *node)
{
    node->parent_colour = 1;
    node->child[0] = node->child[1] = NULL;
    tree->root = node;
}

/* Links node below parent on the given side (parent NULL: as the root) and
 * restores balance. The place must be free and right for the order. */
void rbtree_link(struct rbtree *tree, struct rbnode *node, struct rbnode *parent, int side);
/* Takes a node out of its tree. */
void rbtree_unlink(struct rbtree *tree, struct rbnode *node);
/* The neighbour in order: side 1 the next, side 0 the previous; NULL at the end. */
struct rbnode *rbtree_step(const struct rbnode *node, int side);
/* The outermost node: side 0 the first, side 1 the last; NULL when empty. */
struct rbnode *rbtree_end(const struct rbtree *tree, int side);
/* Whether the facts about colours and parents hold, for CHECK_FULL and tests. */
bool rbtree_is_sound(const struct rbtree *tree);

#define RBTREE_DEFINE(prefix, type, member, key_type, less, before)                   \
    __attribute__((unused)) static inline type *prefix##_of(const struct rbnode *node) \
    {                                                                                 \
        return node ? (type *)((uintptr_t)node - offsetof(type, member)) : NULL;      \
    }                                                                                 \
    __attribute__((unused)) static inline void prefix##_insert(struct rbtree *tree,   \
                                                               type *item)            \
    {                                                                                 \
        struct rbnode *parent = NULL, *at = tree->root;                               \
        int side = 0;                                                                 \
        while (at) {                                                                  \
            parent = at;                                                              \
            side = !(less)(item, prefix##_of(at));                                    \
            at = at->child[side];                                                     \
        }                                                                             \
        rbtree_link(tree, &item->member, parent, side);                               \
    }                                                                                 \
    __attribute__((unused)) static inline void prefix##_remove(struct rbtree *tree,   \
                                                               type *item)            \
    {                                                                                 \
        rbtree_unlink(tree, &item->member);                                           \
    }                                                                                 \
    /* The first element that is not before the key, or NULL. */                      \
    __attribute__((unused)) static inline type *prefix##_lower_bound(                 \
        const struct rbtree *tree, const key_type *key)                               \
    {                                                                                 \
        struct rbnode *found = NULL, *at = tree->root;                                \
        while (at) {                                                                  \
            bool is_before = (before)(prefix##_of(at), key);                          \
            found = is_before ? found : at;                                           \
            at = at->child[is_before];                                                \
        }                                                                             \
        return prefix##_of(found);                                                    \
    }                                                                                 \
    __attribute__((unused)) static inline type *prefix##_first(const struct rbtree *tree) \
    {                                                                                 \
        return prefix##_of(rbtree_end(tree, 0));                                      \
    }                                                                                 \
    __attribute__((unused)) static inline type *prefix##_last(const struct rbtree *tree) \
    {                                                                                 \
        return prefix##_of(rbtree_end(tree, 1));                                      \
    }                                                                                 \
    __attribute__((unused)) static inline type *prefix##_next(const type *item)       \
    {                                                                                 \
        return prefix##_of(rbtree_step(&item->member, 1));                            \
    }                                                                                 \
    __attribute__((unused)) static inline type *prefix##_prev(const type *item)       \
    {                                                                                 \
        return prefix##_of(rbtree_step(&item->member, 0));                            \
    }                                                                                 \
    /* Whether colours, parents and order hold. */                                    \
    __attribute__((unused)) static inline bool prefix##_check(const struct rbtree *tree) \
    {                                                                                 \
        const type *item = prefix##_first(tree);                                      \
        for (const type *next; item && (next = prefix##_next(item)); item = next)     \
            if ((less)(next, item))                                                   \
                return false;                                                         \
        return rbtree_is_sound(tree);                                                 \
    }                                                                                 \
    struct prefix##_takes_a_semicolon

#endif
