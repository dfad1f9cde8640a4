/* SPDX-License-Identifier: MIT */
/* Address ranges that do not overlap, findable by any address inside.
 *
 * Nodes are embedded in what they describe and not owned. Not thread-safe: the
 * lock of the simulated memory is held around every call.
 */
#ifndef SRC_BACKEND_SIM_INDEX_H
#define SRC_BACKEND_SIM_INDEX_H

#include "base/rbtree.h"

struct sim_node {
    struct rbnode link;
    uintptr_t base; /* first address; the key                    */
    size_t bytes;   /* extent, not 0; base + bytes does not wrap */
};

struct sim_index {
    struct rbtree tree;
};

static inline uintptr_t node_end(const struct sim_node *node)
{
    return node->base + node->bytes;
}

/* Adds a node that overlaps none. */
void index_insert(struct sim_index *index, struct sim_node *node);
/* Takes out a node that is in. */
void index_remove(struct sim_index *index, struct sim_node *node);
/* The node that contains address, or NULL. */
struct sim_node *index_find(const struct sim_index *index, uintptr_t address);
/* The lowest node with a base of at least address, or NULL. */
struct sim_node *index_above(const struct sim_index *index, uintptr_t address);
/* The node after this one, or NULL. */
struct sim_node *index_next(const struct sim_node *node);
/* The lowest node that shares an address with [base, base + bytes), or NULL. */
struct sim_node *index_overlap(const struct sim_index *index, uintptr_t base, size_t bytes);

#endif
