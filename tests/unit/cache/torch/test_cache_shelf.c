/* SPDX-License-Identifier: MIT */
#include "cache/torch/shelf.h"

#include "base/heap.h"
#include "tests/support/t.h"

TEST(classes_increase_with_size)
{
    unsigned last = 0;

    for (size_t units = 1; units < 100000; units++) {
        unsigned class = shelf_class(units * BLOCK_UNIT);
        EXPECT(class == last || class == last + 1);
        last = class;
    }
    EXPECT_EQ(shelf_class(BLOCK_UNIT), 1);
    EXPECT_EQ(shelf_class(63 * BLOCK_UNIT), 63);
    EXPECT_EQ(shelf_class(64 * BLOCK_UNIT), 64);
    EXPECT_EQ(shelf_class(65 * BLOCK_UNIT), 64);
    EXPECT_LT(shelf_class((size_t)1 << 60), SHELF_CLASS_COUNT);
    for (int shift = 10; shift < 60; shift++)
        EXPECT_LT(shelf_class((size_t)1 << shift), shelf_class((size_t)1 << (shift + 1)));
}

/* Sizes from 512 bytes to 2^60: found and walked in order. */
TEST(found_and_walked_over_the_whole_range)
{
    static struct block blocks[51];
    const char *fact = "";
    struct shelf *shelf = shelf_create((void *)5);

    REQUIRE(shelf != NULL);
    EXPECT(!shelf_first(shelf) && !shelf_last(shelf) && !shelf_find(shelf, 512));
    for (int i = 50; i >= 0; i--) {
        blocks[i] = (struct block){.bytes = BLOCK_UNIT << i, .stream = (void *)5,
                                   .base = (char *)0x1000, .state = BLOCK_FREE};
        shelf_insert(shelf, &blocks[i]);
    }
    EXPECT(shelf_check(shelf, &fact));
    struct block *at = shelf_first(shelf);
    for (int i = 0; i < 51; i++, at = shelf_next(shelf, at)) {
        EXPECT_PTR_EQ(at, &blocks[i]);
        EXPECT_PTR_EQ(shelf_find(shelf, BLOCK_UNIT << i), &blocks[i]);
        if (i < 50)
            EXPECT_PTR_EQ(shelf_find(shelf, (BLOCK_UNIT << i) + BLOCK_UNIT), &blocks[i + 1]);
    }
    EXPECT(!at);
    at = shelf_last(shelf);
    for (int i = 50; i >= 0; i--, at = shelf_prev(shelf, at))
        EXPECT_PTR_EQ(at, &blocks[i]);
    EXPECT(!at);
    EXPECT(!shelf_find(shelf, (BLOCK_UNIT << 50) + BLOCK_UNIT));
    for (int i = 0; i < 51; i += 2)
        shelf_remove(shelf, &blocks[i]);
    EXPECT(shelf_check(shelf, &fact));
    EXPECT_PTR_EQ(shelf_first(shelf), &blocks[1]);
    EXPECT_PTR_EQ(shelf_last(shelf), &blocks[49]);
    EXPECT_PTR_EQ(shelf_find(shelf, BLOCK_UNIT << 20), &blocks[21]);
    for (int i = 1; i < 51; i += 2)
        shelf_remove(shelf, &blocks[i]);
    EXPECT(!shelf_first(shelf) && shelf->summary == 0);
    shelf_destroy(shelf);
}

TEST(the_checker_notices)
{
    struct block block = {.bytes = 4096, .stream = NULL, .state = BLOCK_FREE};
    struct shelf *shelf = shelf_create(NULL);
    const char *fact;

    shelf_insert(shelf, &block);
    EXPECT(shelf_check(shelf, &fact));
    shelf->summary = 2;
    EXPECT(!shelf_check(shelf, &fact));
    shelf->summary = 1;
    shelf->map[0] ^= 2;
    EXPECT(!shelf_check(shelf, &fact));
    shelf->map[0] ^= 2;
    block.bytes = 8192;
    EXPECT(!shelf_check(shelf, &fact));
    block.bytes = 4096;
    block.stream = &block;
    EXPECT(!shelf_check(shelf, &fact));
    shelf_destroy(shelf);
    heap_fail_nth(1);
    EXPECT(!shelf_create(NULL));
    heap_fail_disarm();
}

/* A block that shrinks or grows is found by its new size, alone in its class or not. */
TEST(changed_blocks_are_found_anew)
{
    struct block a = {.bytes = 100 * BLOCK_UNIT, .base = (char *)0x10000, .state = BLOCK_FREE};
    struct block b = {.bytes = 101 * BLOCK_UNIT, .base = (char *)0x40000, .state = BLOCK_FREE};
    const char *fact = "";
    struct shelf *shelf = shelf_create(NULL);

    REQUIRE(shelf != NULL);
    shelf_insert(shelf, &a);
    shelf_change(shelf, &a, a.base + BLOCK_UNIT, 101 * BLOCK_UNIT); /* stays in its class */
    EXPECT_PTR_EQ(shelf_find(shelf, 101 * BLOCK_UNIT), &a);
    shelf_insert(shelf, &b);
    EXPECT_PTR_EQ(shelf_find(shelf, 100 * BLOCK_UNIT), &a);
    shelf_change(shelf, &b, b.base, 100 * BLOCK_UNIT); /* comes before the other */
    EXPECT_PTR_EQ(shelf_find(shelf, 100 * BLOCK_UNIT), &b);
    EXPECT_PTR_EQ(shelf_find(shelf, 101 * BLOCK_UNIT), &a);
    EXPECT(shelf_check(shelf, &fact));
    shelf_change(shelf, &b, b.base, 7 * BLOCK_UNIT); /* another class */
    EXPECT_PTR_EQ(shelf_find(shelf, BLOCK_UNIT), &b);
    EXPECT_PTR_EQ(shelf_find(shelf, 8 * BLOCK_UNIT), &a);
    EXPECT(shelf_check(shelf, &fact));
    shelf_destroy(shelf);
}

T_MAIN()
