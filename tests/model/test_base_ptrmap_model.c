/* SPDX-License-Identifier: MIT */
/* Random puts and takes against an array indexed by key. */
#include "base/ptrmap.h"

#include "tests/support/t.h"

#define KEYS 4096

static void *values[KEYS]; /* NULL: not in the map */

static void *key_of(uint64_t index, int shift)
{
    return (void *)(uintptr_t)((index + 1) << shift);
}

static void compare_all(const struct ptrmap *map, uint64_t key_count, int shift)
{
    size_t present = 0;

    EXPECT(ptrmap_check(map));
    for (uint64_t i = 0; i < key_count; i++) {
        EXPECT_PTR_EQ(ptrmap_get(map, key_of(i, shift)), values[i]);
        present += values[i] != NULL;
    }
    EXPECT_EQ(map->count, present);
}

static void run(uint64_t *state, uint64_t steps, uint64_t key_count, int shift)
{
    struct ptrmap map = PTRMAP_INITIALIZER;

    memset(values, 0, sizeof values);
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t r = t_random(state), i = r % key_count;
        void *key = key_of(i, shift), *value = (void *)(uintptr_t)((r >> 32) | 1);

        if ((r >> 16) % 5 < 2) {
            EXPECT_PTR_EQ(ptrmap_take(&map, key), values[i]);
            values[i] = NULL;
        } else {
            REQUIRE_OK(ptrmap_put(&map, key, value));
            values[i] = value;
        }
        EXPECT_PTR_EQ(ptrmap_get(&map, key), values[i]);
        if (step % 1024 == 0)
            compare_all(&map, key_count, shift);
    }
    compare_all(&map, key_count, shift);
    ptrmap_fini(&map);
}

TEST(agrees_with_an_array)
{
    uint64_t state = t_seed();

    run(&state, t_count(20000, 1000000), 11, 0);
    run(&state, t_count(20000, 1000000), 300, 9);
    run(&state, t_count(40000, 2000000), KEYS, 21);
    run(&state, t_count(40000, 2000000), KEYS, 40);
}

T_MAIN()
