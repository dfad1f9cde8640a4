/* SPDX-License-Identifier: MIT */
/* The ordinary path of policy torch beside the engine: the same calls on two caches, one of
 * which records a history and so never takes it. */
#include "cache/torch/quick.h"

#include "tests/support/dice.h"
#include "tests/support/lab.h"

#include <string.h>

enum { SLOTS = 48, STREAMS = 3 };

/* Two caches that are asked for the same. */
struct twins {
    struct lab quick, slow;
    void *pointers[2][SLOTS];
};

static void twins_open(struct twins *twins, const char *conf)
{
    const acre_history_config config = {.struct_size = sizeof config, .max_entries = 1};

    memset(twins, 0, sizeof *twins);
    lab_open(&twins->quick, conf);
    lab_open(&twins->slow, conf);
    REQUIRE_OK(acre_cache_history_start(twins->slow.cache, &config));
}

static void twins_close(struct twins *twins)
{
    for (int i = 0; i < SLOTS; i++) {
        REQUIRE_OK(acre_cache_free(twins->quick.cache, twins->pointers[0][i]));
        REQUIRE_OK(acre_cache_free(twins->slow.cache, twins->pointers[1][i]));
    }
    acre_cache_destroy(twins->slow.cache);
    fake_destroy(twins->slow.fake);
    lab_close(&twins->quick); /* nothing is left of either */
}

/* A size of any kind: tiny, small, large, or with a segment of its own. */
static size_t random_bytes(void)
{
    static const size_t ends[] = {600, 64 * KIB, MIB, 9 * MIB, 40 * MIB};

    return 1 + below(ends[below(5)]);
}

static void twins_step(struct twins *twins)
{
    acre_cache *caches[] = {twins->quick.cache, twins->slow.cache};
    struct fake *fakes[] = {twins->quick.fake, twins->slow.fake};
    uint64_t slot = below(SLOTS), use = below(8);
    size_t bytes = random_bytes();
    int stream = (int)(below(8) ? 0 : below(STREAMS)), other = (int)below(STREAMS);

    for (int i = 0; i < 2; i++) {
        void **pointer = &twins->pointers[i][slot];
        if (!*pointer) {
            REQUIRE_OK(acre_cache_alloc(caches[i], bytes, fake_stream(stream), pointer));
            continue;
        }
        if (use == 0)
            REQUIRE_OK(acre_cache_record_stream(caches[i], *pointer, fake_stream(other)));
        REQUIRE_OK(acre_cache_free(caches[i], *pointer));
        *pointer = NULL;
        if (use == 1)
            fake_finish(fakes[i], fake_stream(other));
    }
}

static void twins_compare(struct twins *twins)
{
    static char layout[8192];

    snprintf(layout, sizeof layout, "%s", lab_layout(&twins->quick));
    EXPECT_STR_EQ(layout, lab_layout(&twins->slow));
    REQUIRE(memcmp(lab_stats(&twins->quick), lab_stats(&twins->slow), sizeof twins->quick.stats) ==
            0);
}

static void twins_run(const char *conf)
{
    static struct twins twins;

    dice_begin();
    twins_open(&twins, conf);
    for (int step = 0; step < 3000; step++) {
        twins_step(&twins);
        if (below(16) == 0)
            twins_compare(&twins);
        if (below(500) == 0) {
            REQUIRE_OK(acre_cache_empty(twins.quick.cache));
            REQUIRE_OK(acre_cache_empty(twins.slow.cache));
        }
        if (below(300) == 0) {
            acre_cache_stats_reset_peak(twins.quick.cache);
            acre_cache_stats_reset_peak(twins.slow.cache);
        }
    }
    twins_compare(&twins);
    twins_close(&twins);
}

TEST(decides_as_the_engine_does)
{
    twins_run(NULL);
}

TEST(decides_as_the_engine_does_with_oversize_blocks)
{
    twins_run("max_split_size_mb:21");
}

TEST(decides_as_the_engine_does_with_steps_between_powers_of_two)
{
    twins_run("roundup_power2_divisions:4");
}

/* What is not ordinary is refused as ever. */
TEST(refuses_what_is_not_live)
{
    struct lab lab;

    lab_open(&lab, NULL);
    char *a = lab_alloc(&lab, 1000), *b = lab_alloc(&lab, 1000);
    EXPECT_EQ(acre_cache_free(lab.cache, a + 512), ACRE_ERR_INVALID);
    lab_free(&lab, a);
    EXPECT_EQ(acre_cache_free(lab.cache, a), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_free(lab.cache, (void *)(uintptr_t)-512), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_alloc(lab.cache, 512, NULL, NULL), ACRE_ERR_INVALID);
    lab_free(&lab, b);
    lab_close(&lab);
}

T_MAIN()
