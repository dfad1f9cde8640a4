/* SPDX-License-Identifier: MIT */
#include "sim/sim_index.h"

#include "tests/support/t.h"

#include <stdbool.h>

#define CELLS 400

/* Ranges over 400 cells against a plain table of who owns each cell. */
TEST(finds_what_a_table_of_cells_finds)
{
    static struct sim_node nodes[CELLS]; /* node i begins at cell i, while bytes > 0 */
    static int owner[CELLS];             /* 1 + first cell of the range, or 0        */
    struct sim_index index = {RBTREE_INITIALIZER};
    uint64_t state = t_seed();

    for (uint64_t step = 0; step < t_count(20000, 1000000); step++) {
        uint64_t value = t_random(&state);
        int at = (int)(value % CELLS), length = 1 + (int)((value >> 20) % 20);
        struct sim_node *found = index_find(&index, (uintptr_t)at);

        EXPECT_PTR_EQ(found, owner[at] ? &nodes[owner[at] - 1] : NULL);
        if (found) {
            index_remove(&index, found);
            for (size_t i = 0; i < found->bytes; i++)
                owner[found->base + i] = 0;
            continue;
        }
        int first = at;
        while (first < CELLS && first < at + length && !owner[first])
            first++;
        bool is_free = first == at + length;
        if (first < CELLS) {
            struct sim_node *overlap = index_overlap(&index, (uintptr_t)at, (size_t)length);
            EXPECT_PTR_EQ(overlap, is_free ? NULL : &nodes[owner[first] - 1]);
        }
        if (!is_free)
            continue;
        nodes[at] = (struct sim_node){.base = (uintptr_t)at, .bytes = (size_t)length};
        index_insert(&index, &nodes[at]);
        for (int i = 0; i < length; i++)
            owner[at + i] = at + 1;
    }
    /* In order, and each once. */
    uintptr_t end = 0;
    size_t cells = 0, owned = 0;
    for (struct sim_node *node = index_above(&index, 0); node; node = index_next(node)) {
        EXPECT(node->base >= end);
        end = node_end(node);
        cells += node->bytes;
    }
    for (int i = 0; i < CELLS; i++)
        owned += owner[i] != 0;
    EXPECT_EQ(cells, owned);
}

TEST(an_empty_index_has_nothing)
{
    struct sim_index index = {RBTREE_INITIALIZER};

    EXPECT(!index_find(&index, 0));
    EXPECT(!index_above(&index, 0));
    EXPECT(!index_overlap(&index, 0, SIZE_MAX));
}

T_MAIN()
