/* SPDX-License-Identifier: MIT */
/* Balance of red-black trees; the order is in rbtree.h.
 *
 * Sides are indices (0 left, 1 right), so each case is written once and its
 * mirror image is the same code with the other side.
 */
#include "base/rbtree.h"

#include "base/check.h"

#define BLACK ((uintptr_t)1)

static inline struct rbnode *parent_of(const struct rbnode *node)
{
    return (struct rbnode *)(node->parent_colour & ~BLACK);
}

static inline bool is_red(const struct rbnode *node)
{
    return node && !(node->parent_colour & BLACK);
}

static inline void set_parent(struct rbnode *node, const struct rbnode *parent)
{
    node->parent_colour = (uintptr_t)parent | (node->parent_colour & BLACK);
}

static inline void set_black(struct rbnode *node)
{
    node->parent_colour |= BLACK;
}

static inline void set_red(struct rbnode *node)
{
    node->parent_colour &= ~BLACK;
}

static inline int side_of(const struct rbnode *node, const struct rbnode *parent)
{
    return parent->child[1] == node;
}

/* Puts node where old was below parent; NULL parent means the root. */
static inline void replace_child(struct rbtree *tree, struct rbnode *parent,
                                 const struct rbnode *old, struct rbnode *node)
{
    if (parent)
        parent->child[side_of(old, parent)] = node;
    else
        tree->root = node;
}

/* Lets the child on the other side take the place of node, which goes down on
 * the given side:
 *
 *        node                     up
 *       /    \                   /  \
 *      a      up      ───►    node   c        (side 0)
 *            /  \             /  \
 *           b    c           a    b
 */
static void rbtree_rotate(struct rbtree *tree, struct rbnode *node, int side)
{
    struct rbnode *up = node->child[!side], *moved = up->child[side];
    struct rbnode *parent = parent_of(node);

    node->child[!side] = moved;
    if (moved)
        set_parent(moved, node);
    up->child[side] = node;
    set_parent(up, parent);
    replace_child(tree, parent, node, up);
    set_parent(node, up);
}

void rbtree_link(struct rbtree *tree, struct rbnode *node, struct rbnode *parent, int side)
{
    CHECK(parent ? !parent->child[side] : !tree->root);
    node->parent_colour = (uintptr_t)parent;
    node->child[0] = node->child[1] = NULL;
    if (!parent) {
        tree->root = node;
        set_black(node);
        return;
    }
    parent->child[side] = node;

    /* node is red; only a red parent needs work, and it has a parent then. */
    while ((parent = parent_of(node)) && is_red(parent)) {
        struct rbnode *grand = parent_of(parent);
        int at = side_of(parent, grand);
        struct rbnode *uncle = grand->child[!at];

        if (is_red(uncle)) {
            set_black(parent);
            set_black(uncle);
            set_red(grand);
            node = grand;
            continue;
        }
        if (side_of(node, parent) != at) {
            rbtree_rotate(tree, parent, at);
            parent = node;
        }
        set_black(parent);
        set_red(grand);
        rbtree_rotate(tree, grand, !at);
        break;
    }
    set_black(tree->root);
}

/* Paths through the given side of parent are one black node short. */
static void repair_short(struct rbtree *tree, struct rbnode *parent, int side)
{
    for (;;) {
        struct rbnode *sibling = parent->child[!side];

        if (is_red(sibling)) {
            set_black(sibling);
            set_red(parent);
            rbtree_rotate(tree, parent, side);
            sibling = parent->child[!side];
        }
        if (!is_red(sibling->child[0]) && !is_red(sibling->child[1])) {
            set_red(sibling);
            struct rbnode *grand = parent_of(parent);
            if (is_red(parent) || !grand) {
                set_black(parent);
                return;
            }
            side = side_of(parent, grand);
            parent = grand;
            continue;
        }
        if (!is_red(sibling->child[!side])) {
            set_black(sibling->child[side]);
            set_red(sibling);
            rbtree_rotate(tree, sibling, !side);
            sibling = parent->child[!side];
        }
        sibling->parent_colour = (uintptr_t)parent_of(sibling) | (parent->parent_colour & BLACK);
        set_black(parent);
        set_black(sibling->child[!side]);
        rbtree_rotate(tree, parent, side);
        return;
    }
}

/* Lets the next node in order, the leftmost of the right subtree, take over
 * place and colour of node. Gives where a node went missing and its colour. */
static struct rbnode *swap_with_next(struct rbtree *tree, struct rbnode *node, int *side,
                                     struct rbnode **orphan, bool *was_red)
{
    struct rbnode *next = node->child[1], *hole;

    while (next->child[0])
        next = next->child[0];
    *orphan = next->child[1];
    *was_red = is_red(next);
    hole = parent_of(next);
    *side = 0;
    if (hole == node) {
        hole = next;
        *side = 1;
    } else {
        hole->child[0] = *orphan;
        next->child[1] = node->child[1];
        set_parent(next->child[1], next);
    }
    next->child[0] = node->child[0];
    set_parent(next->child[0], next);
    next->parent_colour = node->parent_colour;
    replace_child(tree, parent_of(node), node, next);
    return hole;
}

void rbtree_unlink(struct rbtree *tree, struct rbnode *node)
{
    struct rbnode *parent, *orphan;
    bool was_red;
    int side = 0;

    if (node->child[0] && node->child[1]) {
        parent = swap_with_next(tree, node, &side, &orphan, &was_red);
    } else {
        orphan = node->child[0] ? node->child[0] : node->child[1];
        was_red = is_red(node);
        parent = parent_of(node);
        if (parent) {
            side = side_of(node, parent);
            parent->child[side] = orphan;
        } else {
            CHECK(tree->root == node);
            tree->root = orphan;
        }
    }
    if (orphan) { /* an only child is red and below it is nothing */
        orphan->parent_colour = (uintptr_t)parent | BLACK;
    } else if (!was_red && parent) {
        repair_short(tree, parent, side);
    }
}

struct rbnode *rbtree_end(const struct rbtree *tree, int side)
{
    struct rbnode *node = tree->root;

    while (node && node->child[side])
        node = node->child[side];
    return node;
}

struct rbnode *rbtree_step(const struct rbnode *node, int side)
{
    struct rbnode *parent;

    if (node->child[side]) {
        struct rbnode *at = node->child[side];
        while (at->child[!side])
            at = at->child[!side];
        return at;
    }
    while ((parent = parent_of(node)) && side_of(node, parent) == side)
        node = parent;
    return parent;
}

/* Black nodes on every path down from node, -1 when something is wrong. */
static int black_height(const struct rbnode *node)
{
    int height[2];

    if (!node)
        return 0;
    for (int side = 0; side < 2; side++) {
        const struct rbnode *child = node->child[side];
        if (child && (parent_of(child) != node || (is_red(node) && is_red(child))))
            return -1;
        height[side] = black_height(child);
    }
    if (height[0] < 0 || height[0] != height[1])
        return -1;
    return height[0] + !is_red(node);
}

bool rbtree_is_sound(const struct rbtree *tree)
{
    return !tree->root ||
           (!parent_of(tree->root) && !is_red(tree->root) && black_height(tree->root) > 0);
}
