/* SPDX-License-Identifier: MIT */
/* Sets of decisions that explain a failure. */
#include "plan/search/conflict.h"

#include "base/heap.h"
#include "tests/support/t.h"

TEST(causes_are_followed_down_to_records)
{
    struct conflict conflict = {0};
    uint32_t depth;
    int32_t cause;

    REQUIRE_OK(conflict_init(&conflict, 100));
    for (int i = 0; i < 100; i++)
        conflict.cause[i] = CAUSE_NONE;
    conflict.depth[5] = 3;
    conflict_add_placed(&conflict, 5, conflict.found); /* a record of {3} */
    EXPECT(conflict_record(&conflict, &cause));
    conflict.cause[1] = cause; /* explains 1, which lies below 2, which lies below 4 */
    conflict.depth[1] = 10;
    conflict.cause[2] = 1;
    conflict.depth[2] = 70;
    conflict.cause[4] = 2;
    conflict_clear(&conflict);
    conflict_add_floor(&conflict, 4, conflict.found);
    conflict_add_floor(&conflict, 2, conflict.found); /* is there already */
    EXPECT(conflict_take_last(&conflict, &depth));
    EXPECT_EQ(depth, 70);
    EXPECT(conflict_take_last(&conflict, &depth));
    EXPECT_EQ(depth, 10);
    EXPECT(conflict_take_last(&conflict, &depth));
    EXPECT_EQ(depth, 3);
    EXPECT(!conflict_take_last(&conflict, &depth));
    conflict_fini(&conflict);
}

TEST(records_grow_and_are_kept)
{
    struct conflict conflict = {0};
    int32_t cause[200];
    uint32_t depth;

    REQUIRE_OK(conflict_init(&conflict, 200));
    for (uint32_t i = 0; i < 200; i++) {
        conflict.cause[i] = CAUSE_NONE;
        conflict.depth[i] = i;
        conflict_clear(&conflict);
        conflict_add_placed(&conflict, i, conflict.found);
        EXPECT(conflict_record(&conflict, &cause[i]));
    }
    for (uint32_t i = 0; i < 200; i++) {
        conflict.cause[0] = cause[i];
        conflict_clear(&conflict);
        conflict_add_floor(&conflict, 0, conflict.found);
        EXPECT(conflict_take_last(&conflict, &depth));
        EXPECT_EQ(depth, i);
    }
    heap_fail_nth(1);
    while (conflict.record_count < conflict.record_capacity)
        EXPECT(conflict_record(&conflict, &cause[0]));
    EXPECT(!conflict_record(&conflict, &cause[0]));
    EXPECT(heap_fail_disarm());
    conflict_fini(&conflict);
}

T_MAIN()
