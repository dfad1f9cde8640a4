/* SPDX-License-Identifier: MIT */
/* Pools that can sleep, with something in them, for tests. */
#ifndef TESTS_SUPPORT_NEST_H
#define TESTS_SUPPORT_NEST_H

#include "base/bits.h"
#include "tests/support/share_bed.h"

/* Both kinds of memory that can sleep. Every test is run on each. */
__attribute__((unused)) static bool is_stitched;

#define TEST_BOTH(name)                                                        \
    static void run_##name(void);                                              \
    TEST(expandable_##name)                                                    \
    {                                                                          \
        is_stitched = false;                                                   \
        run_##name();                                                          \
    }                                                                          \
    TEST(stitched_##name)                                                      \
    {                                                                          \
        is_stitched = true;                                                    \
        run_##name();                                                          \
    }                                                                          \
    static void run_##name(void)

/* A pool with blocks of several sizes, one of them freed in between. */
struct nest {
    acre_pool_id id;
    char *blocks[5];
    size_t bytes[5];
};

#define NEST_FREED 2 /* the block that is freed */

__attribute__((unused)) static struct share_bed bed_make(void)
{
    return is_stitched
               ? share_bed_open("devices:2,memory:512MiB", ACRE_POLICY_ACRE, NULL)
               : share_bed_open("devices:2,memory:512MiB", ACRE_POLICY_TORCH,
                                "expandable_segments:True");
}

/* The largest block of a nest: more than one page. */
__attribute__((unused)) static size_t nest_large = 21 * MIB;

__attribute__((unused)) static struct nest nest_make(struct share_bed *bed, const char *tag)
{
    const size_t sizes[5] = {4096, 70000, 3 * MIB / 2, nest_large, 1000};
    struct nest nest = {.id = acre_pool_id_next()};
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};

    REQUIRE_OK(acre_pool_create(bed->cache, nest.id, &config));
    REQUIRE_OK(acre_pool_tag_set(bed->cache, nest.id, tag));
    REQUIRE_OK(acre_pool_begin(bed->cache, nest.id, NULL));
    for (int i = 0; i < 5; i++) {
        nest.bytes[i] = sizes[i];
        nest.blocks[i] = share_bed_alloc(bed, sizes[i], 'a' + i);
    }
    REQUIRE_OK(acre_pool_end(bed->cache, nest.id));
    REQUIRE_OK(acre_cache_free(bed->cache, nest.blocks[NEST_FREED]));
    return nest;
}

__attribute__((unused)) static void nest_expect(struct share_bed *bed, const struct nest *nest)
{
    for (int i = 0; i < 5; i++)
        if (i != NEST_FREED)
            EXPECT(share_bed_has(bed, nest->blocks[i], 'a' + i, nest->bytes[i]));
}

__attribute__((unused)) static void nest_free(struct share_bed *bed, const struct nest *nest)
{
    for (int i = 0; i < 5; i++)
        if (i != NEST_FREED)
            REQUIRE_OK(acre_cache_free(bed->cache, nest->blocks[i]));
    REQUIRE_OK(acre_pool_release(bed->cache, nest->id));
    REQUIRE_OK(acre_cache_empty(bed->cache));
}

__attribute__((unused)) static acre_cache_stats stats_of(struct share_bed *bed)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(bed->cache, &stats));
    return stats;
}

#endif
