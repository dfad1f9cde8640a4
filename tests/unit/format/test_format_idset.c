/* SPDX-License-Identifier: MIT */
#include "format/idset.h"

#include "base/heap.h"
#include "tests/support/t.h"

TEST(numbers_in_a_row_are_one_range)
{
    struct idset set;
    uint32_t slot;

    idset_init(&set);
    for (uint64_t id = 5; id < 10000; id++) {
        REQUIRE_OK(idset_begin(&set, id, &slot));
        EXPECT_EQ(slot, 0);
        EXPECT(idset_end(&set, id, &slot));
    }
    EXPECT_EQ(idset_range_count(&set), 1);
    EXPECT_EQ(set.slot_count, 1);
    EXPECT(!idset_was_used(&set, 4));
    EXPECT(idset_was_used(&set, 5));
    EXPECT(idset_was_used(&set, 9999));
    EXPECT(!idset_was_used(&set, 10000));
    EXPECT_EQ(idset_begin(&set, 77, &slot), ACRE_ERR_EXISTS);
    idset_fini(&set);
}

TEST(ranges_grow_both_ways_and_join)
{
    struct idset set;
    uint32_t slot;
    const uint64_t order[] = {10, 12, 11, 9, 14, 0, UINT64_MAX, UINT64_MAX - 1, 13, 1};
    const size_t ranges[] = {1, 2, 1, 1, 2, 3, 4, 4, 3, 3};

    idset_init(&set);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        REQUIRE_OK(idset_begin(&set, order[i], &slot));
        EXPECT_EQ(idset_range_count(&set), ranges[i]);
        EXPECT_EQ(idset_begin(&set, order[i], &slot), ACRE_ERR_EXISTS);
    }
    idset_fini(&set);
}

/* Zero does not follow the highest number there is. */
TEST(numbers_do_not_wrap)
{
    struct idset set;
    uint32_t slot;

    idset_init(&set);
    REQUIRE_OK(idset_begin(&set, UINT64_MAX, &slot));
    REQUIRE_OK(idset_begin(&set, 0, &slot));
    EXPECT_EQ(idset_range_count(&set), 2);
    EXPECT(idset_was_used(&set, UINT64_MAX));
    EXPECT(!idset_was_used(&set, 1));
    EXPECT_EQ(idset_begin(&set, UINT64_MAX, &slot), ACRE_ERR_EXISTS);
    EXPECT_EQ(idset_begin(&set, 0, &slot), ACRE_ERR_EXISTS);
    REQUIRE_OK(idset_begin(&set, 1, &slot));
    idset_fini(&set);
}

TEST(slots_are_reused)
{
    struct idset set;
    uint32_t a, b, c;

    idset_init(&set);
    REQUIRE_OK(idset_begin(&set, 1, &a));
    REQUIRE_OK(idset_begin(&set, 2, &b));
    EXPECT(a == 0 && b == 1);
    EXPECT(idset_end(&set, 1, &c));
    EXPECT_EQ(c, 0);
    EXPECT(!idset_end(&set, 1, &c));
    EXPECT(!idset_find(&set, 1, &c));
    EXPECT(idset_find(&set, 2, &c));
    EXPECT_EQ(c, 1);
    REQUIRE_OK(idset_begin(&set, 3, &c));
    EXPECT_EQ(c, 0);
    EXPECT_EQ(set.live_count, 2);
    idset_fini(&set);
    idset_fini(&set);
}

/* Against arrays: every number has been used or not, is live in a slot or not. */
TEST(agrees_with_arrays)
{
    enum { NUMBERS = 3000 };
    static int slots[NUMBERS]; /* -1 unused, -2 ended, else the slot */
    uint64_t state = t_seed();
    struct idset set;
    uint32_t slot;

    idset_init(&set);
    for (int i = 0; i < NUMBERS; i++)
        slots[i] = -1;
    for (uint64_t step = 0; step < t_count(30000, 300000); step++) {
        uint64_t r = t_random(&state), id = r % NUMBERS;
        EXPECT_EQ(idset_was_used(&set, id), slots[id] != -1);
        EXPECT_EQ(idset_find(&set, id, &slot), slots[id] >= 0);
        if (slots[id] >= 0)
            EXPECT_EQ(slot, slots[id]);
        if ((r >> 40) % 2 == 0) {
            acre_status status = idset_begin(&set, id, &slot);
            EXPECT_EQ(status, slots[id] == -1 ? ACRE_OK : ACRE_ERR_EXISTS);
            if (status == ACRE_OK)
                slots[id] = (int)slot;
        } else {
            EXPECT_EQ(idset_end(&set, id, &slot), slots[id] >= 0);
            if (slots[id] >= 0)
                slots[id] = -2;
        }
    }
    size_t live = 0, ranges = 0;
    for (int i = 0; i < NUMBERS; i++) {
        live += slots[i] >= 0;
        ranges += slots[i] != -1 && (i == 0 || slots[i - 1] == -1);
    }
    EXPECT_EQ(set.live_count, live);
    EXPECT_EQ(idset_range_count(&set), ranges);
    idset_fini(&set);
}

TEST(every_host_allocation_may_fail)
{
    for (unsigned nth = 1;; nth++) {
        uint64_t before = heap_live_count();
        struct idset set;
        uint32_t slot;
        acre_status status = ACRE_OK;

        idset_init(&set);
        heap_fail_nth(nth);
        for (uint64_t i = 0; i < 300 && status == ACRE_OK; i++) {
            status = idset_begin(&set, i * 3, &slot);
            if (status != ACRE_OK) { /* nothing changed: it works the next time */
                EXPECT(!idset_was_used(&set, i * 3));
                EXPECT_EQ(set.live_count, i);
                EXPECT_EQ(idset_begin(&set, i * 3, &slot), ACRE_OK);
            }
        }
        int failed = heap_fail_disarm();
        idset_fini(&set);
        EXPECT_EQ(heap_live_count(), before);
        EXPECT_EQ(status, failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (!failed)
            return;
    }
}

T_MAIN()
