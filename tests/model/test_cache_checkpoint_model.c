/* SPDX-License-Identifier: MIT */
/* Random work in a private pool, saved and restored at random: after a restore
 * exactly the blocks of the save are live, with their sizes, and the two lists of
 * the delta say what happened; all facts of the cache hold throughout. */
#include "base/bits.h"
#include "tests/support/dice.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/pool.h>

#define STREAMS 3
#define LIVE_MAX 96
#define STATES 4

struct piece {
    void *base;
    uint64_t bytes;
};

/* What is live, as a set; and saved with a state. */
struct picture {
    acre_pool_state *state;
    struct piece live[LIVE_MAX];
    int count;
};

static struct fake *fake;
static acre_cache *cache;
static acre_pool_id pool;
static struct picture now, saved[STATES];

static int find(const struct picture *picture, const void *base)
{
    for (int i = 0; i < picture->count; i++)
        if (picture->live[i].base == base)
            return i;
    return -1;
}

static void run_alloc(void)
{
    static const size_t largest[] = {3000, 100 * KIB, MIB, 4 * MIB, 25 * MIB};
    void *base = NULL;

    if (now.count == LIVE_MAX)
        return;
    size_t bytes = 1 + below(largest[below(5)]);
    REQUIRE_OK(acre_pool_begin(cache, pool, NULL));
    acre_status status = acre_cache_alloc(cache, bytes, fake_stream((int)below(STREAMS)), &base);
    REQUIRE_OK(acre_pool_end(cache, pool));
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return;
    REQUIRE_EQ(status, ACRE_OK);
    struct piece piece = {.base = base};
    REQUIRE_OK(acre_cache_block_bytes(cache, base, &piece.bytes));
    now.live[now.count++] = piece;
}

static void run_free(void)
{
    if (!now.count)
        return;
    int index = (int)below((uint64_t)now.count);
    REQUIRE_OK(acre_cache_free(cache, now.live[index].base));
    now.live[index] = now.live[--now.count];
}

static void run_save(void)
{
    struct picture *picture = &saved[below(STATES)];

    acre_pool_state_destroy(picture->state);
    *picture = now;
    REQUIRE_OK(acre_pool_save(cache, pool, &picture->state));
}

static void run_restore(void)
{
    const struct picture *picture = &saved[below(STATES)];
    acre_pool_delta *delta = NULL;

    if (!picture->state)
        return;
    REQUIRE_OK(acre_pool_restore(cache, picture->state, &delta));
    EXPECT_EQ(delta->freed_count, now.count);
    for (uint64_t i = 0; i < delta->freed_count; i++)
        EXPECT_GE(find(&now, delta->freed[i]), 0);
    EXPECT_EQ(delta->allocated_count, picture->count);
    for (uint64_t i = 0; i < delta->allocated_count; i++) {
        int index = find(picture, delta->allocated[i]);
        uint64_t bytes = 0;
        REQUIRE(index >= 0);
        REQUIRE_OK(acre_cache_block_bytes(cache, delta->allocated[i], &bytes));
        EXPECT_EQ(bytes, picture->live[index].bytes);
    }
    acre_pool_delta_destroy(delta);
    now = *picture;
}

static void check(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    int64_t bytes = 0;

    REQUIRE_OK(acre_cache_check(cache));
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    for (int i = 0; i < now.count; i++)
        bytes += (int64_t)now.live[i].bytes;
    EXPECT_EQ(stats.allocation.all.current, now.count);
    EXPECT_EQ(stats.allocated_bytes.all.current, bytes);
    EXPECT_EQ(stats.active_bytes.all.current, bytes);
}

static void run_model(acre_policy policy, const char *conf, uint64_t page_bytes)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    uint64_t steps = t_count(20000, 1000000 / t_slowness());

    dice_begin();
    memset(&now, 0, sizeof now);
    memset(saved, 0, sizeof saved);
    fake = fake_create(&(struct fake_config){.bytes = 700 * MIB, .page_bytes = page_bytes});
    REQUIRE_OK(acre_cache_create(fake_device(fake, 0), &config, &cache));
    pool = acre_pool_id_next();
    REQUIRE_OK(acre_pool_create(cache, pool, NULL));
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t dice = below(100);
        if (dice < 52)
            run_alloc();
        else if (dice < 92)
            run_free();
        else if (dice < 95)
            run_save();
        else if (dice < 98)
            run_restore();
        else
            REQUIRE_OK(acre_cache_empty(cache));
        if (step % 16 == 0)
            check();
    }
    for (int i = 0; i < STATES; i++)
        acre_pool_state_destroy(saved[i].state);
    while (now.count)
        REQUIRE_OK(acre_cache_free(cache, now.live[--now.count].base));
    REQUIRE_OK(acre_pool_release(cache, pool));
    REQUIRE_OK(acre_cache_empty(cache));
    EXPECT_EQ(fake_bytes(fake), 0);
    acre_cache_destroy(cache);
    EXPECT_EQ(fake_alloc_count(fake), 0);
    fake_destroy(fake);
}

TEST(torch)
{
    run_model(ACRE_POLICY_TORCH, "", 0);
}

TEST(torch_with_expandable_segments)
{
    run_model(ACRE_POLICY_TORCH, "expandable_segments:True", 2 * MIB);
}

TEST(acre)
{
    run_model(ACRE_POLICY_ACRE, "", 0);
}

T_MAIN()
