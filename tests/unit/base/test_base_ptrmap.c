/* SPDX-License-Identifier: MIT */
#include "base/ptrmap.h"

#include "base/heap.h"
#include "tests/support/t.h"

static void *address(uintptr_t number)
{
    return (void *)number;
}

TEST(an_empty_map_holds_nothing_and_takes_no_memory)
{
    uint64_t live = heap_live_count();
    struct ptrmap map;
    size_t at = 0;

    ptrmap_init(&map);
    EXPECT(!ptrmap_get(&map, address(8)));
    EXPECT(!ptrmap_has(&map, address(8)));
    EXPECT(!ptrmap_take(&map, address(8)));
    EXPECT(!ptrmap_get(&map, NULL));
    EXPECT(!ptrmap_next(&map, &at));
    EXPECT_EQ(heap_live_count(), live);
    ptrmap_fini(&map);
}

TEST(puts_replaces_and_takes)
{
    struct ptrmap map = PTRMAP_INITIALIZER;

    REQUIRE_OK(ptrmap_put(&map, address(512), address(1)));
    REQUIRE_OK(ptrmap_put(&map, address(512), address(2)));
    REQUIRE_OK(ptrmap_put(&map, address(1024), NULL));
    EXPECT_EQ(map.count, 2);
    EXPECT_PTR_EQ(ptrmap_get(&map, address(512)), address(2));
    EXPECT(ptrmap_has(&map, address(1024)));
    EXPECT(!ptrmap_get(&map, address(1024)));
    EXPECT_PTR_EQ(ptrmap_take(&map, address(512)), address(2));
    EXPECT(!ptrmap_has(&map, address(512)));
    EXPECT_EQ(map.count, 1);
    ptrmap_fini(&map);
}

TEST(walks_every_entry_once)
{
    struct ptrmap map = PTRMAP_INITIALIZER;
    size_t at = 0;
    uintptr_t sum = 0;

    for (uintptr_t i = 1; i <= 100; i++)
        REQUIRE_OK(ptrmap_put(&map, address(i << 21), address(i)));
    for (struct ptrmap_entry *entry; (entry = ptrmap_next(&map, &at));) {
        EXPECT_PTR_EQ(entry->key, address((uintptr_t)entry->value << 21));
        sum += (uintptr_t)entry->value;
    }
    EXPECT_EQ(sum, 5050);
    EXPECT(ptrmap_check(&map));
    ptrmap_fini(&map);
}

TEST(a_failed_growth_changes_nothing)
{
    struct ptrmap map = PTRMAP_INITIALIZER;
    uintptr_t i = 1;
    acre_status status;

    for (;; i++) {
        heap_fail_nth(1);
        status = ptrmap_put(&map, address(i * 64), address(i));
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            if (i > 200)
                break;
            continue;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(map.count, i - 1);
        EXPECT(!ptrmap_has(&map, address(i * 64)));
        REQUIRE_OK(ptrmap_put(&map, address(i * 64), address(i)));
    }
    for (uintptr_t k = 1; k <= i; k++)
        EXPECT_PTR_EQ(ptrmap_get(&map, address(k * 64)), address(k));
    EXPECT(ptrmap_check(&map));
    ptrmap_fini(&map);
}

TEST(reserved_room_and_known_keys_need_no_memory)
{
    struct ptrmap map = PTRMAP_INITIALIZER;

    REQUIRE_OK(ptrmap_reserve(&map, 1000));
    heap_fail_nth(1);
    for (uintptr_t i = 1; i <= 1000; i++)
        REQUIRE_OK(ptrmap_put(&map, address(i), address(i)));
    EXPECT_EQ(heap_fail_disarm(), 0);
    while (map.count < map.slot_count / 4 * 3)
        REQUIRE_OK(ptrmap_put(&map, address(5000 + map.count), NULL));
    heap_fail_nth(1);
    EXPECT_EQ(ptrmap_put(&map, address(1), address(7)), ACRE_OK);
    EXPECT_EQ(heap_fail_disarm(), 0);
    EXPECT_EQ(ptrmap_reserve(&map, SIZE_MAX), ACRE_ERR_HOST_MEMORY);
    EXPECT_EQ(ptrmap_reserve(&map, SIZE_MAX / 4), ACRE_ERR_HOST_MEMORY);
    ptrmap_fini(&map);
}

T_MAIN()
