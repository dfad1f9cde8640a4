/* SPDX-License-Identifier: MIT */
/* The address map: what was set is found, nothing else is; failing host memory
 * leaves it usable; a random walk agrees with a flat array. */
#include "base/heap.h"
#include "cache/map.h"

#include "tests/support/t.h"

#include <pthread.h>

/* Blocks are never looked into here, so any address serves as one. */
static struct block *fake(uintptr_t n)
{
    return (struct block *)(n * 64 + 64);
}

static void *at(uintptr_t address)
{
    return (void *)address;
}

TEST(empty_map_finds_nothing)
{
    struct map map;

    REQUIRE_OK(map_init(&map));
    EXPECT_PTR_EQ(map_find(&map, NULL), NULL);
    EXPECT_PTR_EQ(map_find(&map, at(0x7f0000000000)), NULL);
    EXPECT_PTR_EQ(map_find(&map, at((uintptr_t)1 << 48)), NULL);
    EXPECT_PTR_EQ(map_find(&map, at(UINTPTR_MAX)), NULL);
    EXPECT_PTR_EQ(map_find(&map, at((uintptr_t)1 << 63)), NULL);
    map_fini(&map);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(set_is_found_in_its_unit_only)
{
    static const uintptr_t bases[] = {512, 0x7f0000000000, ((uintptr_t)1 << 28) - 512,
                                      ((uintptr_t)1 << 48) - 512, (uintptr_t)1 << 48,
                                      ((uintptr_t)1 << 57) - 512};
    struct map map;

    REQUIRE_OK(map_init(&map));
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        REQUIRE_OK(map_reserve(&map, at(bases[i]), 512));
        map_set(&map, at(bases[i]), fake(i));
    }
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        EXPECT_PTR_EQ(map_find(&map, at(bases[i])), fake(i));
        EXPECT_PTR_EQ(map_find(&map, at(bases[i] + 511)), fake(i));
        EXPECT_PTR_EQ(map_find(&map, at(bases[i] - 1)), i == 4 ? fake(3) : NULL);
    }
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        map_clear(&map, at(bases[i]));
        EXPECT_PTR_EQ(map_find(&map, at(bases[i])), NULL);
    }
    map_fini(&map);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(reserve_covers_every_leaf_of_a_range)
{
    struct map map;
    uintptr_t base = ((uintptr_t)3 << 28) - 512;
    uint64_t bytes = ((uint64_t)5 << 28) + 1024;

    REQUIRE_OK(map_init(&map));
    REQUIRE_OK(map_reserve(&map, at(base), 0));
    EXPECT_EQ(map.owned_count, 0);
    REQUIRE_OK(map_reserve(&map, at(base), bytes));
    EXPECT_EQ(map.owned_count, 7);
    REQUIRE_OK(map_reserve(&map, at(base), bytes));
    EXPECT_EQ(map.owned_count, 7);
    map_set(&map, at(base + bytes - 512), fake(1));
    EXPECT_PTR_EQ(map_find(&map, at(base + bytes - 512)), fake(1));
    map_fini(&map);
}

TEST(addresses_beyond_57_bits_are_refused)
{
    struct map map;

    REQUIRE_OK(map_init(&map));
    EXPECT_EQ(map_reserve(&map, at((uintptr_t)1 << 57), 512), ACRE_ERR_RANGE);
    EXPECT_EQ(map_reserve(&map, at(((uintptr_t)1 << 57) - 512), 1024), ACRE_ERR_RANGE);
    EXPECT_EQ(map_reserve(&map, at(UINTPTR_MAX - 511), 1024), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "2^57");
    map_fini(&map);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(memory_that_is_not_aligned_is_refused)
{
    struct map map;

    REQUIRE_OK(map_init(&map));
    EXPECT_EQ(map_reserve(&map, at(0x7f0000000010), 1024), ACRE_ERR_RANGE);
    EXPECT_EQ(map_reserve(&map, at(((uintptr_t)1 << 48) + 256), 1), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "multiple of 512");
    EXPECT_EQ(map.owned_count, 0);
    map_fini(&map);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(every_host_allocation_may_fail)
{
    for (uint64_t nth = 1;; nth++) {
        struct map map;
        uintptr_t base = ((uintptr_t)1 << 48) - 512;

        heap_fail_nth(nth);
        acre_status status = map_init(&map);
        if (status == ACRE_OK)
            status = map_reserve(&map, at(base), 1024);
        int failed = heap_fail_disarm();
        EXPECT_EQ(status, failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (failed && map.root) {
            REQUIRE_OK(map_reserve(&map, at(base), 1024));
            map_set(&map, at(base + 512), fake(7));
            EXPECT_PTR_EQ(map_find(&map, at(base + 512)), fake(7));
        }
        map_fini(&map);
        EXPECT_EQ(heap_live_count(), 0);
        if (!failed)
            break;
    }
}

TEST(random_walk_agrees_with_a_flat_array)
{
    enum { UNITS = 4096 };
    static uintptr_t want[UNITS];
    uintptr_t base = ((uintptr_t)9 << 28) - UNITS / 2 * 512;
    uint64_t seed = t_seed(), count = t_count(300000, 10000000);
    struct map map;

    memset(want, 0, sizeof want);
    REQUIRE_OK(map_init(&map));
    REQUIRE_OK(map_reserve(&map, at(base), UNITS * 512));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t r = t_random(&seed);
        size_t unit = r % UNITS;
        void *address = at(base + unit * 512);

        if (r >> 60 < 8) {
            want[unit] = i + 1;
            map_set(&map, address, fake(i + 1));
        } else {
            want[unit] = 0;
            map_clear(&map, address);
        }
        unit = (r >> 20) % UNITS;
        struct block *found = map_find(&map, at(base + unit * 512 + (r >> 40) % 512));
        REQUIRE(found == (want[unit] ? fake(want[unit]) : NULL));
    }
    map_fini(&map);
    EXPECT_EQ(heap_live_count(), 0);
}

/* Readers look without a lock while one thread enters and removes blocks and
 * makes leaves; they only ever see nothing or what belongs there. */
static struct map shared_map;
static _Atomic int stop;

static void *reader(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg + 1;
    uintptr_t wrong = 0;

    while (!atomic_load(&stop)) {
        uintptr_t unit = t_random(&seed) % 65536;
        struct block *found = map_find(&shared_map, at((unit << 20) + 512));
        wrong += found && found != fake(unit);
    }
    return (void *)wrong;
}

TEST(readers_need_no_lock)
{
    pthread_t threads[2];
    uint64_t seed = t_seed();

    REQUIRE_OK(map_init(&shared_map));
    atomic_store(&stop, 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, reader, at(i)), 0);
    for (uint64_t i = 0; i < t_count(20000, 1000000); i++) {
        uintptr_t unit = t_random(&seed) % 65536;
        REQUIRE_OK(map_reserve(&shared_map, at((unit << 20) + 512), 512));
        map_set(&shared_map, at((unit << 20) + 512), fake(unit));
        if (unit & 1)
            map_clear(&shared_map, at((unit << 20) + 512));
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        EXPECT_PTR_EQ(wrong, NULL);
    }
    map_fini(&shared_map);
}

T_MAIN()
