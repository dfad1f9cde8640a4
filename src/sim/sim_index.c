/* SPDX-License-Identifier: MIT */
#include "sim/sim_index.h"

#include "base/check.h"

static inline bool node_less(const struct sim_node *a, const struct sim_node *b)
{
    return a->base < b->base;
}

static inline bool node_before(const struct sim_node *node, const uintptr_t *address)
{
    return node->base < *address;
}

RBTREE_DEFINE(nodes, struct sim_node, link, uintptr_t, node_less, node_before);

void index_insert(struct sim_index *index, struct sim_node *node)
{
    CHECK(node->bytes > 0 && node_end(node) > node->base);
    CHECK_FULL(!index_overlap(index, node->base, node->bytes));
    nodes_insert(&index->tree, node);
}

void index_remove(struct sim_index *index, struct sim_node *node)
{
    nodes_remove(&index->tree, node);
    CHECK_FULL(nodes_check(&index->tree));
}

struct sim_node *index_find(const struct sim_index *index, uintptr_t address)
{
    struct sim_node *node = nodes_of(index->tree.root);

    /* An address minus a larger base wraps and is no extent. */
    while (node && address - node->base >= node->bytes)
        node = nodes_of(node->link.child[node->base < address]);
    return node;
}

struct sim_node *index_above(const struct sim_index *index, uintptr_t address)
{
    return nodes_lower_bound(&index->tree, &address);
}

struct sim_node *index_next(const struct sim_node *node)
{
    return nodes_next(node);
}

struct sim_node *index_overlap(const struct sim_index *index, uintptr_t base, size_t bytes)
{
    struct sim_node *node = index_find(index, base);

    if (node)
        return node;
    node = index_above(index, base);
    return node && node->base - base < bytes ? node : NULL;
}
