/* SPDX-License-Identifier: MIT */
/* Every device call and every host allocation fails in turn, over several
 * scenarios. A call that meets the failure either goes on without what failed or
 * gives one clean error and leaves live blocks, statistics and memory as they
 * were; the same call then succeeds. At the end nothing is left anywhere. */
#include "base/bits.h"
#include "base/heap.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/cache.h>

#define BLOCKS 32
#define DEVICE_BYTES (256 * MIB)

static struct fake *fake;
static acre_cache *cache;
static void *blocks[BLOCKS];
static acre_status injected; /* what the failing call answers; the heap: HOST_MEMORY */
static acre_policy policy;
static const char *conf;    /* options, or NULL                                  */
static uint64_t page_bytes; /* of virtual memory; 0: none                        */
static uint64_t bytes_direct; /* held beside the cache */

static acre_cache_stats read_stats(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    return stats;
}

/* What must be the same after a failed call, whatever was tried on the way. */
static void expect_unharmed(const acre_cache_stats *before)
{
    acre_cache_stats after = read_stats();

    EXPECT(memcmp(&before->allocation, &after.allocation, sizeof after.allocation) == 0);
    EXPECT(memcmp(&before->allocated_bytes, &after.allocated_bytes,
                  sizeof after.allocated_bytes) == 0);
    EXPECT_EQ(after.active.all.allocated, before->active.all.allocated);
    EXPECT_EQ(after.requested_bytes.all.allocated, before->requested_bytes.all.allocated);
    EXPECT_EQ(after.reserved_bytes.all.current, fake_bytes(fake) - bytes_direct);
    EXPECT_EQ(acre_cache_check(cache), ACRE_OK);
    /* Nothing was released or waited for: then nothing at all may differ. */
    if (after.num_device_free == before->num_device_free &&
        after.num_sync_all_streams == before->num_sync_all_streams &&
        after.num_device_alloc == before->num_device_alloc && /* holes were filled */
        after.num_ooms == before->num_ooms &&
        after.active.all.freed == before->active.all.freed)
        EXPECT(memcmp(before, &after, sizeof after) == 0);
}

/* The status of a first attempt, judged; true when the call is to be repeated. */
static bool is_to_repeat(acre_status status, const acre_cache_stats *before)
{
    if (status == ACRE_OK)
        return false;
    if (status != injected && status != ACRE_ERR_DEVICE_MEMORY)
        t_fail(__FILE__, __LINE__, "%s: %s", acre_status_name(status), acre_last_error());
    expect_unharmed(before);
    return true;
}

#define TWICE(call)                                                            \
    do {                                                                       \
        acre_cache_stats t_before = read_stats();                              \
        if (is_to_repeat(call, &t_before))                                     \
            REQUIRE_OK(call);                                                  \
    } while (0)

static void take(int i, size_t bytes, int stream)
{
    TWICE(acre_cache_alloc(cache, bytes, fake_stream(stream), &blocks[i]));
}

static void give(int i)
{
    TWICE(acre_cache_free(cache, blocks[i]));
    blocks[i] = NULL;
}

static void use(int i, int stream)
{
    TWICE(acre_cache_record_stream(cache, blocks[i], fake_stream(stream)));
}

/* ---- Scenarios -------------------------------------------------------------------- */

static void scenario_split_and_merge(void)
{
    for (int i = 0; i < 8; i++)
        take(i, (size_t)(i + 1) * 1000, 0);
    for (int i = 8; i < 16; i++)
        take(i, (size_t)(i - 7) * MIB, 0);
    for (int i = 1; i < 16; i += 2)
        give(i);
    for (int i = 1; i < 16; i += 2)
        take(i, (size_t)i * 700, 0);
    for (int i = 0; i < 16; i++)
        give(i);
}

static void scenario_streams(void)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 6; i++)
            take(i, 3 * MIB, i % 2);
        for (int i = 0; i < 6; i++) {
            use(i, 2);
            use(i, 3 + i % 2);
        }
        for (int i = 0; i < 6; i++)
            give(i);
        take(6, 3 * MIB, 0);
        fake_finish(fake, fake_stream(2));
        fake_finish(fake, fake_stream(3));
        take(7, 3 * MIB, 0);
        fake_finish(fake, fake_stream(4));
        take(8, 3 * MIB, 1);
        for (int i = 6; i < 9; i++)
            give(i);
        TWICE(acre_cache_empty(cache));
    }
}

/* The device is full: idle and pending memory has to go before a request fits. */
static void scenario_pressure(void)
{
    for (int i = 0; i < 4; i++)
        take(i, 60 * MIB, 0);
    use(3, 1);
    for (int i = 0; i < 4; i++)
        give(i);
    take(4, 120 * MIB, 0);
    take(5, 110 * MIB, 1);
    give(4);
    give(5);
    take(6, 200 * MIB, 2);
    give(6);
}

static void scenario_oversize(void)
{
    TWICE(acre_cache_conf_set(cache, "max_split_size_mb:20"));
    for (int i = 0; i < 4; i++)
        take(i, 60 * MIB, 0);
    for (int i = 0; i < 4; i++)
        give(i);
    take(4, 100 * MIB, 0);
    give(4);
}

static void scenario_exact_address(void)
{
    char *base;

    take(0, 1000, 0);
    base = blocks[0];
    give(0);
    TWICE(acre_cache_alloc_at(cache, 1000, NULL, base + 8192));
    blocks[0] = base + 8192;
    give(0);
}

static void scenario_caching_off(void)
{
    acre_cache_enable(cache, false);
    for (int i = 0; i < 4; i++) {
        bytes_direct = fake_bytes(fake);
        TWICE(acre_cache_alloc(cache, 5 * MIB, NULL, &blocks[i]));
    }
    EXPECT_EQ(read_stats().allocation.all.allocated, 0);
    for (int i = 0; i < 4; i++)
        REQUIRE(blocks[i] != NULL);
    for (int i = 0; i < 4; i++) {
        if (acre_cache_free(cache, blocks[i]) != ACRE_OK)
            REQUIRE_OK(acre_cache_free(cache, blocks[i]));
    }
    acre_cache_enable(cache, true);
    bytes_direct = 0;
}

/* ---- Running them ------------------------------------------------------------------- */

static void arm(bool is_heap, uint64_t nth)
{
    injected = is_heap ? ACRE_ERR_HOST_MEMORY : ACRE_ERR_DEVICE;
    if (is_heap)
        heap_fail_nth(nth);
    else
        fake_fail(fake, FAKE_ANY, nth, ACRE_ERR_DEVICE);
}

static bool disarm(bool is_heap)
{
    return is_heap ? heap_fail_disarm() : fake_disarm(fake);
}

/* Runs a scenario with one failure, from creation to the end; whether it hit. */
static bool run_once(void (*scenario)(void), bool is_heap, uint64_t nth)
{
    uint64_t heap_before = heap_live_count();
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    fake = fake_create(&(struct fake_config){.bytes = DEVICE_BYTES, .page_bytes = page_bytes,
                                             .has_fabric = true});
    uint64_t heap_bare = heap_live_count();
    arm(is_heap, nth);
    acre_status status = acre_cache_create(fake_device(fake, 0), &config, &cache);
    if (status != ACRE_OK) {
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(heap_live_count(), heap_bare);
        REQUIRE_OK(acre_cache_create(fake_device(fake, 0), &config, &cache));
    }
    scenario();
    bool has_failed = disarm(is_heap);
    REQUIRE_OK(acre_cache_empty(cache));
    acre_cache_stats stats = read_stats();
    EXPECT_EQ(stats.active.all.current, 0);
    EXPECT_EQ(stats.reserved_bytes.all.current, 0);
    EXPECT_EQ(fake_bytes(fake), 0);
    EXPECT_EQ(fake_reserved_bytes(fake), 0);
    EXPECT_EQ(fake_handle_count(fake), 0);
    acre_cache_destroy(cache);
    EXPECT_EQ(fake_alloc_count(fake), 0);
    EXPECT_EQ(fake_event_count(fake), 0);
    fake_destroy(fake);
    EXPECT_EQ(heap_live_count(), heap_before);
    return has_failed;
}

static void run_all(void (*scenario)(void))
{
    for (int is_heap = 0; is_heap < 2; is_heap++) {
        uint64_t nth = 1;
        while (run_once(scenario, is_heap, nth))
            nth++;
        EXPECT_GT(nth, 1);
    }
}

#define FAULT_TESTS(name, which)                                               \
    TEST(name##_split_and_merge)                                               \
    {                                                                          \
        policy = which;                                                        \
        run_all(scenario_split_and_merge);                                     \
    }                                                                          \
    TEST(name##_streams)                                                       \
    {                                                                          \
        policy = which;                                                        \
        run_all(scenario_streams);                                             \
    }                                                                          \
    TEST(name##_pressure)                                                      \
    {                                                                          \
        policy = which;                                                        \
        run_all(scenario_pressure);                                            \
    }                                                                          \
    TEST(name##_caching_off)                                                   \
    {                                                                          \
        policy = which;                                                        \
        run_all(scenario_caching_off);                                         \
    }

FAULT_TESTS(torch, ACRE_POLICY_TORCH)
FAULT_TESTS(acre, ACRE_POLICY_ACRE)

TEST(torch_oversize)
{
    policy = ACRE_POLICY_TORCH;
    run_all(scenario_oversize);
}

TEST(torch_exact_address)
{
    policy = ACRE_POLICY_TORCH;
    run_all(scenario_exact_address);
}

/* Growing, holes, filling them, the option switched off and on between. */
static void scenario_pages(void)
{
    for (int i = 0; i < 5; i++)
        take(i, (size_t)(i % 2 ? 10 : 30) * MIB, 0);
    for (int i = 5; i < 9; i++)
        take(i, MIB, i % 2);
    give(0);
    give(2);
    give(6);
    TWICE(acre_cache_empty(cache));
    TWICE(acre_cache_conf_set(cache, "expandable_segments:False"));
    take(0, 3 * MIB, 0);
    TWICE(acre_cache_conf_set(cache, "expandable_segments:True"));
    give(1);
    take(1, 62 * MIB, 0); /* fills two holes */
    take(2, 20 * MIB, 1);
    give(1);
    take(6, 130 * MIB, 1); /* does not fit before the rest goes */
    for (int i = 0; i < 9; i++)
        if (blocks[i])
            give(i);
}

static void run_expandable(void (*scenario)(void))
{
    policy = ACRE_POLICY_TORCH;
    conf = "expandable_segments:True";
    page_bytes = 2 * MIB;
    run_all(scenario);
    conf = NULL;
    page_bytes = 0;
}

TEST(B66_W10_expandable_pages)
{
    run_expandable(scenario_pages);
}

TEST(expandable_split_and_merge)
{
    run_expandable(scenario_split_and_merge);
}

TEST(expandable_streams)
{
    run_expandable(scenario_streams);
}

TEST(expandable_pressure)
{
    run_expandable(scenario_pressure);
}

TEST(expandable_exact_address)
{
    run_expandable(scenario_exact_address);
}

T_MAIN()
