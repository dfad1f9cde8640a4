/* SPDX-License-Identifier: MIT */
/* Public calls of the cache: creation, zero sizes, wrong pointers, exact
 * addresses, caching off (B15, B17, B129, B130, B132, B133). */
#include "base/heap.h"
#include "tests/support/rig.h"

TEST(B15_zero_bytes)
{
    struct rig rig;
    void *pointer = &rig;

    rig_open(&rig, NULL);
    REQUIRE_OK(acre_cache_alloc(rig.cache, 0, NULL, &pointer));
    EXPECT(!pointer);
    EXPECT_EQ(CURRENT(&rig, allocation), 0);
    EXPECT_EQ(rig.stats.allocation.all.allocated, 0);
    EXPECT_EQ(COUNT(&rig, num_device_alloc), 0);
    acre_cache_enable(rig.cache, false);
    REQUIRE_OK(acre_cache_alloc(rig.cache, 0, NULL, &pointer));
    EXPECT(!pointer);
    rig_close(&rig);
}

TEST(B17_wrong_pointers)
{
    struct rig rig;
    acre_cache_stats before;

    rig_open(&rig, NULL);
    REQUIRE_OK(acre_cache_free(rig.cache, NULL));
    char *a = rig_alloc(&rig, 4096), *b = rig_alloc(&rig, 4096);
    rig_free(&rig, b);
    before = *rig_stats(&rig);
    void *bad[] = {&rig, a + 1, a + 512, a + 4095, b, (void *)1, (void *)UINTPTR_MAX,
                   (void *)((uintptr_t)a | (uintptr_t)1 << 60), a - 512};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_EQ(acre_cache_free(rig.cache, bad[i]), ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "invalid device pointer");
    }
    EXPECT(memcmp(&before, rig_stats(&rig), sizeof before) == 0);
    rig_free(&rig, a);
    EXPECT_EQ(acre_cache_free(rig.cache, a), ACRE_ERR_INVALID);
    rig_close(&rig);
}

TEST(B33_peaks_and_totals)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *a = rig_alloc(&rig, 3 * MIB), *b = rig_alloc(&rig, 1000);
    rig_free(&rig, a);
    EXPECT_EQ(rig_stats(&rig)->allocated_bytes.all.peak, 3 * MIB + 1024);
    acre_cache_stats_reset_peak(rig.cache);
    EXPECT_EQ(rig_stats(&rig)->allocated_bytes.all.peak, 1024);
    EXPECT_EQ(rig.stats.allocated_bytes.large_pool.peak, 0);
    EXPECT_EQ(rig.stats.allocated_bytes.all.allocated, 3 * MIB + 1024);
    acre_cache_stats_reset_accumulated(rig.cache);
    EXPECT_EQ(rig_stats(&rig)->allocated_bytes.all.allocated, 0);
    EXPECT_EQ(rig.stats.num_device_alloc, 0);
    rig_free(&rig, b);
    EXPECT_EQ(rig_stats(&rig)->allocated_bytes.all.freed, 1024);
    EXPECT_EQ(rig.stats.allocation.small_pool.freed, 1);
    rig_close(&rig);
}

TEST(B129_an_exact_address)
{
    struct rig rig;

    rig_open(&rig, NULL);
    char *base = rig_alloc(&rig, 1000);
    rig_free(&rig, base);
    acre_cache_stats_reset_accumulated(rig.cache);
    REQUIRE_OK(acre_cache_alloc_at(rig.cache, 1000, NULL, base + 4096));
    EXPECT_STR_EQ(rig_layout(&rig), "4096,1024*,2092032");
    EXPECT_EQ(rig_stats(&rig)->allocation.all.allocated, 2);
    EXPECT_EQ(rig.stats.allocation.all.freed, 1);
    EXPECT_EQ(CURRENT(&rig, requested_bytes), 1000);
    rig_free(&rig, base + 4096);
    EXPECT_STR_EQ(rig_layout(&rig), "2097152");
    /* At the first byte there is no prefix. */
    REQUIRE_OK(acre_cache_alloc_at(rig.cache, 1000, NULL, base));
    EXPECT_STR_EQ(rig_layout(&rig), "1024*,2096128");
    EXPECT_EQ(rig_stats(&rig)->allocation.all.allocated, 3);
    rig_close(&rig);
}

TEST(B130_addresses_that_cannot_be_had)
{
    struct rig rig;

    rig_open(&rig, NULL);
    char *base = rig_alloc(&rig, 4096);
    const char *said = "Could not allocate CUDA storage at exact address";
    acre_cache_stats before = *rig_stats(&rig);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, 512, NULL, base), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), said);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, 512, NULL, base + 2 * MIB), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, 512, NULL, base - 512), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, MIB, NULL, base + 2 * MIB - 1024),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, 3 * MIB, NULL, base + 8192), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, SIZE_MAX, NULL, base + 8192), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, 512, fake_stream(1), base + 8192),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, 512, NULL, base + 8192 + 256), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "kMinBlockSize");
    REQUIRE_OK(acre_cache_alloc_at(rig.cache, 0, NULL, base));
    EXPECT(memcmp(&before, rig_stats(&rig), sizeof before) == 0);
    acre_cache_enable(rig.cache, false);
    EXPECT_EQ(acre_cache_alloc_at(rig.cache, 512, NULL, base + 8192), ACRE_ERR_STATE);
    rig_close(&rig);
}

TEST(B131_cache_info)
{
    struct rig rig;
    uint64_t largest = 0;

    rig_open(&rig, NULL);
    REQUIRE_OK(acre_cache_info(rig.cache, &largest));
    EXPECT_EQ(largest, 8589934592);
    RIG_CACHE(&rig, 30);
    largest = 1;
    REQUIRE_OK(acre_cache_info(rig.cache, &largest));
    EXPECT_EQ(largest, 31457280);
    rig_close(&rig);
}

TEST(B132_base_of_the_second_block)
{
    struct rig rig;
    uint64_t bytes;
    void *base;

    rig_open(&rig, NULL);
    void *a = rig_alloc(&rig, 3 * MIB), *b = rig_alloc(&rig, 2 * MIB);
    REQUIRE_OK(acre_cache_base(rig.cache, b, &base, &bytes));
    EXPECT_PTR_EQ(base, a);
    EXPECT_EQ(bytes, 20 * MIB);
    EXPECT_EQ(acre_cache_base(rig.cache, (char *)b + 512, &base, &bytes), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    EXPECT_EQ(acre_cache_base(rig.cache, NULL, &base, &bytes), ACRE_ERR_INVALID);
    rig_close(&rig);
}

TEST(B133_caching_off)
{
    struct rig rig;
    void *direct;
    uint64_t bytes;

    rig_open(&rig, NULL);
    void *cached = rig_alloc(&rig, 1000);
    acre_cache_stats before = *rig_stats(&rig);
    acre_cache_enable(rig.cache, false);
    EXPECT(!acre_cache_is_enabled(rig.cache));
    REQUIRE_OK(acre_cache_alloc(rig.cache, 1000, NULL, &direct));
    EXPECT_EQ(fake_bytes(rig.fake), 2 * MIB + 1024);
    EXPECT(memcmp(&before, rig_stats(&rig), sizeof before) == 0);
    EXPECT_EQ(acre_cache_free(rig.cache, (char *)direct + 512), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_cache_base(rig.cache, direct, &direct, &bytes));
    EXPECT_EQ(bytes, 1024);
    REQUIRE_OK(acre_cache_record_stream(rig.cache, direct, fake_stream(1)));
    /* Each pointer goes the way it came, whatever the switch says now. */
    rig_free(&rig, cached);
    EXPECT_EQ(CURRENT(&rig, allocation), 0);
    EXPECT_EQ(fake_alloc_count(rig.fake), 2);
    acre_cache_enable(rig.cache, true);
    rig_free(&rig, direct);
    EXPECT_EQ(fake_alloc_count(rig.fake), 1);
    EXPECT_EQ(acre_cache_free(rig.cache, direct), ACRE_ERR_INVALID);
    acre_cache_enable(rig.cache, false);
    EXPECT_EQ(rig_try(&rig, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(acre_cache_alloc(rig.cache, 1000, NULL, &direct));
    rig_close(&rig); /* what is live goes too */
}

TEST(the_environment_can_forbid_caching)
{
    struct rig rig;

    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
    rig_open(&rig, NULL);
    EXPECT(!acre_cache_is_enabled(rig.cache));
    acre_cache_enable(rig.cache, true);
    EXPECT(!acre_cache_is_enabled(rig.cache));
    rig_close(&rig);
    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "yes", 1);
    rig_open(&rig, NULL);
    EXPECT(acre_cache_is_enabled(rig.cache));
    rig_close(&rig);
    unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
}

TEST(destroying_returns_what_is_live)
{
    struct rig rig;

    rig_open(&rig, NULL);
    void *a = rig_alloc(&rig, 3 * MIB);
    rig_alloc(&rig, 10);
    void *b = rig_alloc(&rig, 30 * MIB);
    REQUIRE_OK(acre_cache_record_stream(rig.cache, a, fake_stream(1)));
    REQUIRE_OK(acre_cache_record_stream(rig.cache, b, fake_stream(1)));
    rig_free(&rig, b);
    rig_close(&rig);
    acre_cache_destroy(NULL);
}

TEST(bad_arguments_of_creation)
{
    struct fake *fake = fake_create(NULL);
    acre_cache *cache = NULL;
    acre_cache_config config = {.struct_size = 4};

    EXPECT_EQ(acre_cache_create(NULL, NULL, &cache), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_create(fake_device(fake, 0), NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_create(fake_device(fake, 0), &config, &cache), ACRE_ERR_INVALID);
    config = (acre_cache_config){.struct_size = sizeof config, .policy = 77};
    EXPECT_EQ(acre_cache_create(fake_device(fake, 0), &config, &cache), ACRE_ERR_INVALID);
    config = (acre_cache_config){.struct_size = sizeof config, .memory_fraction = 1.5};
    EXPECT_EQ(acre_cache_create(fake_device(fake, 0), &config, &cache), ACRE_ERR_INVALID);
    config = (acre_cache_config){.struct_size = sizeof config, .large_segment_bytes = 11 * MIB + 1};
    EXPECT_EQ(acre_cache_create(fake_device(fake, 0), &config, &cache), ACRE_ERR_INVALID);
    config = (acre_cache_config){.struct_size = sizeof config, .conf = "max_split_size_mb:1"};
    EXPECT_EQ(acre_cache_create(fake_device(fake, 0), &config, &cache), ACRE_ERR_CONFIG);
    EXPECT(!cache);
    fake_destroy(fake);
}

TEST(fields_of_the_configuration)
{
    struct fake *fake = fake_create(NULL);
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT, .limit_bytes = 64 * MIB,
                                .large_segment_bytes = 32 * MIB, .max_split_bytes = 40 * MIB};
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_cache *cache;
    void *a;

    REQUIRE_OK(acre_cache_create(fake_device(fake, 0), &config, &cache));
    EXPECT_EQ(acre_cache_limit_get(cache), 64 * MIB);
    EXPECT_EQ(acre_cache_policy(cache), ACRE_POLICY_TORCH);
    EXPECT_PTR_EQ(acre_cache_device(cache), fake_device(fake, 0));
    REQUIRE_OK(acre_cache_alloc(cache, 3 * MIB, NULL, &a));
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    EXPECT_EQ(stats.reserved_bytes.all.current, 32 * MIB);
    EXPECT_EQ(stats.max_split_size, 40 * MIB);
    acre_cache_destroy(cache);
    fake_destroy(fake);
}

TEST(two_caches_of_one_device_are_independent)
{
    struct rig rig;
    acre_cache *other;
    void *a;

    rig_open(&rig, NULL);
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH};
    REQUIRE_OK(acre_cache_create(fake_device(rig.fake, 0), &config, &other));
    REQUIRE_OK(acre_cache_alloc(other, 1000, NULL, &a));
    EXPECT_EQ(acre_cache_free(rig.cache, a), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_cache_free(other, a));
    acre_cache_destroy(other);
    rig_close(&rig);
}

TEST(a_block_as_large_as_the_device_and_a_million_tiny_ones)
{
    struct rig rig;
    size_t count = t_count(100000, 1000000);
    void **blocks = heap_array(count, sizeof *blocks);

    rig_open(&rig, NULL);
    void *all = rig_alloc(&rig, 8 * GIB);
    EXPECT_EQ(rig_try(&rig, 1), ACRE_ERR_DEVICE_MEMORY);
    rig_free(&rig, all);
    for (size_t i = 0; i < count; i++)
        blocks[i] = rig_alloc(&rig, 1 + i % 512);
    EXPECT_EQ(CURRENT(&rig, allocation), count);
    EXPECT_EQ(CURRENT(&rig, allocated_bytes), count * 512);
    for (size_t i = 0; i < count; i++)
        rig_free(&rig, blocks[(i * 7919) % count]);
    REQUIRE_OK(acre_cache_empty(rig.cache));
    EXPECT_EQ(CURRENT(&rig, reserved_bytes), 0);
    heap_free(blocks);
    rig.heap_before--;
    rig_close(&rig);
}

T_MAIN()
