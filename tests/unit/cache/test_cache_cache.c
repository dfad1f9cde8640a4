/* SPDX-License-Identifier: MIT */
/* Public calls of the cache: creation, zero sizes, wrong pointers, exact
 * addresses, caching off (B15, B17, B129, B130, B132, B133). */
#include "base/heap.h"
#include "tests/support/lab.h"

TEST(B15_zero_bytes)
{
    struct lab lab;
    void *pointer = &lab;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_alloc(lab.cache, 0, NULL, &pointer));
    EXPECT(!pointer);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    EXPECT_EQ(lab.stats.allocation.all.allocated, 0);
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 0);
    acre_cache_enable(lab.cache, false);
    REQUIRE_OK(acre_cache_alloc(lab.cache, 0, NULL, &pointer));
    EXPECT(!pointer);
    lab_close(&lab);
}

TEST(B17_wrong_pointers)
{
    struct lab lab;
    acre_cache_stats before;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_free(lab.cache, NULL));
    char *a = lab_alloc(&lab, 4096), *b = lab_alloc(&lab, 4096);
    lab_free(&lab, b);
    before = *lab_stats(&lab);
    void *bad[] = {&lab, a + 1, a + 512, a + 4095, b, (void *)1, (void *)UINTPTR_MAX,
                   (void *)((uintptr_t)a | (uintptr_t)1 << 60), a - 512};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_EQ(acre_cache_free(lab.cache, bad[i]), ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "invalid device pointer");
    }
    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
    lab_free(&lab, a);
    EXPECT_EQ(acre_cache_free(lab.cache, a), ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(B33_peaks_and_totals)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 3 * MIB), *b = lab_alloc(&lab, 1000);
    lab_free(&lab, a);
    EXPECT_EQ(lab_stats(&lab)->allocated_bytes.all.peak, 3 * MIB + 1024);
    acre_cache_stats_reset_peak(lab.cache);
    EXPECT_EQ(lab_stats(&lab)->allocated_bytes.all.peak, 1024);
    EXPECT_EQ(lab.stats.allocated_bytes.large_pool.peak, 0);
    EXPECT_EQ(lab.stats.allocated_bytes.all.allocated, 3 * MIB + 1024);
    acre_cache_stats_reset_accumulated(lab.cache);
    EXPECT_EQ(lab_stats(&lab)->allocated_bytes.all.allocated, 0);
    EXPECT_EQ(lab.stats.num_device_alloc, 0);
    lab_free(&lab, b);
    EXPECT_EQ(lab_stats(&lab)->allocated_bytes.all.freed, 1024);
    EXPECT_EQ(lab.stats.allocation.small_pool.freed, 1);
    lab_close(&lab);
}

TEST(B129_an_exact_address)
{
    struct lab lab;

    lab_open(&lab, NULL);
    char *base = lab_alloc(&lab, 1000);
    lab_free(&lab, base);
    acre_cache_stats_reset_accumulated(lab.cache);
    REQUIRE_OK(acre_cache_alloc_at(lab.cache, 1000, NULL, base + 4096));
    EXPECT_STR_EQ(lab_layout(&lab), "4096,1024*,2092032");
    EXPECT_EQ(lab_stats(&lab)->allocation.all.allocated, 2);
    EXPECT_EQ(lab.stats.allocation.all.freed, 1);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 1000);
    lab_free(&lab, base + 4096);
    EXPECT_STR_EQ(lab_layout(&lab), "2097152");
    /* At the first byte there is no prefix. */
    REQUIRE_OK(acre_cache_alloc_at(lab.cache, 1000, NULL, base));
    EXPECT_STR_EQ(lab_layout(&lab), "1024*,2096128");
    EXPECT_EQ(lab_stats(&lab)->allocation.all.allocated, 3);
    lab_close(&lab);
}

TEST(B130_addresses_that_cannot_be_had)
{
    struct lab lab;

    lab_open(&lab, NULL);
    char *base = lab_alloc(&lab, 4096);
    const char *said = "Could not allocate CUDA storage at exact address";
    acre_cache_stats before = *lab_stats(&lab);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 512, NULL, base), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), said);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 512, NULL, base + 2 * MIB), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 512, NULL, base - 512), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, MIB, NULL, base + 2 * MIB - 1024),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 3 * MIB, NULL, base + 8192), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, SIZE_MAX, NULL, base + 8192), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 512, fake_stream(1), base + 8192),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 512, NULL, base + 8192 + 256), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "kMinBlockSize");
    REQUIRE_OK(acre_cache_alloc_at(lab.cache, 0, NULL, base));
    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
    acre_cache_enable(lab.cache, false);
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 512, NULL, base + 8192), ACRE_ERR_STATE);
    lab_close(&lab);
}

TEST(B131_cache_info)
{
    struct lab lab;
    uint64_t largest = 1, device_free = 0;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_info(lab.cache, &largest, &device_free));
    EXPECT_EQ(largest, 0);
    EXPECT_EQ(device_free, 8589934592);
    LAB_CACHE(&lab, 30);
    REQUIRE_OK(acre_cache_info(lab.cache, &largest, &device_free));
    EXPECT_EQ(largest, 31457280);
    EXPECT_EQ(device_free, 8589934592 - 31457280);
    lab_close(&lab);
}

TEST(B132_base_of_the_second_block)
{
    struct lab lab;
    uint64_t bytes;
    void *base;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 3 * MIB), *b = lab_alloc(&lab, 2 * MIB);
    REQUIRE_OK(acre_cache_base(lab.cache, b, &base, &bytes));
    EXPECT_PTR_EQ(base, a);
    EXPECT_EQ(bytes, 20 * MIB);
    EXPECT_EQ(acre_cache_base(lab.cache, (char *)b + 512, &base, &bytes), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    EXPECT_EQ(acre_cache_base(lab.cache, NULL, &base, &bytes), ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(B133_caching_off)
{
    struct lab lab;
    void *direct;
    uint64_t bytes;

    lab_open(&lab, NULL);
    void *cached = lab_alloc(&lab, 1000);
    acre_cache_stats before = *lab_stats(&lab);
    acre_cache_enable(lab.cache, false);
    EXPECT(!acre_cache_is_enabled(lab.cache));
    REQUIRE_OK(acre_cache_alloc(lab.cache, 1000, NULL, &direct));
    EXPECT_EQ(fake_bytes(lab.fake), 2 * MIB + 1024);
    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
    EXPECT_EQ(acre_cache_free(lab.cache, (char *)direct + 512), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_cache_base(lab.cache, direct, &direct, &bytes));
    EXPECT_EQ(bytes, 1024);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, direct, fake_stream(1)));
    /* Each pointer goes the way it came, whatever the switch says now. */
    lab_free(&lab, cached);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    EXPECT_EQ(fake_alloc_count(lab.fake), 2);
    acre_cache_enable(lab.cache, true);
    lab_free(&lab, direct);
    EXPECT_EQ(fake_alloc_count(lab.fake), 1);
    EXPECT_EQ(acre_cache_free(lab.cache, direct), ACRE_ERR_INVALID);
    acre_cache_enable(lab.cache, false);
    EXPECT_EQ(lab_try(&lab, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(acre_cache_alloc(lab.cache, 1000, NULL, &direct));
    lab_close(&lab); /* what is live goes too */
}

TEST(the_environment_can_forbid_caching)
{
    struct lab lab;

    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
    lab_open(&lab, NULL);
    EXPECT(!acre_cache_is_enabled(lab.cache));
    acre_cache_enable(lab.cache, true);
    EXPECT(!acre_cache_is_enabled(lab.cache));
    lab_close(&lab);
    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "yes", 1);
    lab_open(&lab, NULL);
    EXPECT(acre_cache_is_enabled(lab.cache));
    lab_close(&lab);
    unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
}

TEST(destroying_returns_what_is_live)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 3 * MIB);
    lab_alloc(&lab, 10);
    void *b = lab_alloc(&lab, 30 * MIB);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    REQUIRE_OK(acre_cache_record_stream(lab.cache, b, fake_stream(1)));
    lab_free(&lab, b);
    lab_close(&lab);
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

static void on_oom(void *arg, int device, uint64_t bytes, uint64_t limit, uint64_t free_bytes)
{
    (void)arg, (void)device, (void)bytes, (void)limit, (void)free_bytes;
}

/* Every call without what it needs, with a warm thread cache. */
static void call_without_arguments(acre_policy policy)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy};
    struct lab lab;
    void *pointer;
    uint64_t bytes;
    char text[8];

    lab_open_with(&lab, NULL, &config);
    lab_free(&lab, lab_alloc(&lab, 1000));
    pointer = lab_alloc(&lab, 1000);
    EXPECT_EQ(acre_cache_alloc(lab.cache, 1000, fake_stream(0), NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_alloc(NULL, 1000, fake_stream(0), &pointer), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_free(NULL, pointer), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_record_stream(NULL, pointer, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_alloc_at(NULL, 512, NULL, pointer), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_empty(NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_base(NULL, pointer, &pointer, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_block_bytes(lab.cache, pointer, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_block_bytes(NULL, pointer, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_info(NULL, &bytes, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_info(lab.cache, NULL, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_info(lab.cache, &bytes, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_memory_fraction_set(NULL, 0.5), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_conf_set(NULL, ""), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_conf_set(lab.cache, NULL), ACRE_ERR_INVALID);
    EXPECT_GE(acre_cache_conf_get(lab.cache, NULL, 0), 0);
    EXPECT_GE(acre_cache_conf_get(lab.cache, text, sizeof text), 0);
    EXPECT_EQ(acre_cache_stats_get(lab.cache, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_stats_get(NULL, &lab.stats), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_oom_observer_add(lab.cache, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_rejection_observer_add(lab.cache, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_reclaimer_add(lab.cache, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_layout_create(lab.cache, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_dump(lab.cache, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_check(NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_oom_observer_add(NULL, on_oom, NULL), ACRE_ERR_INVALID);
    acre_cache_oom_observer_remove(NULL, on_oom, NULL);
    acre_cache_enable(NULL, true);
    EXPECT(!acre_cache_is_enabled(NULL));
    EXPECT(!acre_cache_device(NULL));
    EXPECT_EQ(acre_cache_policy(NULL), ACRE_POLICY_DEFAULT);
    acre_cache_limit_set(NULL, 1);
    EXPECT(acre_cache_limit_get(NULL) == ACRE_CACHE_NO_LIMIT);
    EXPECT(acre_cache_memory_fraction_get(NULL) == 1);
    EXPECT_EQ(acre_cache_conf_get(NULL, text, sizeof text), 0);
    acre_cache_stats_reset_peak(NULL);
    acre_cache_stats_reset_accumulated(NULL);
    acre_cache_layout_destroy(NULL);
    lab_free(&lab, pointer);
    lab_close(&lab);
}

TEST(calls_without_arguments)
{
    call_without_arguments(ACRE_POLICY_TORCH);
    call_without_arguments(ACRE_POLICY_ACRE);
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
    struct lab lab;
    acre_cache *other;
    void *a;

    lab_open(&lab, NULL);
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH};
    REQUIRE_OK(acre_cache_create(fake_device(lab.fake, 0), &config, &other));
    REQUIRE_OK(acre_cache_alloc(other, 1000, NULL, &a));
    EXPECT_EQ(acre_cache_free(lab.cache, a), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_cache_free(other, a));
    acre_cache_destroy(other);
    lab_close(&lab);
}

TEST(a_block_as_large_as_the_device_and_a_million_tiny_ones)
{
    struct lab lab;
    /* With checks after every call the walk makes this quadratic. */
    size_t count = ACRE_CHECK >= 2 ? 2000 : t_count(100000, 1000000);
    void **blocks = heap_array(count, sizeof *blocks);

    lab_open(&lab, NULL);
    void *all = lab_alloc(&lab, 8 * GIB);
    EXPECT_EQ(lab_try(&lab, 1), ACRE_ERR_DEVICE_MEMORY);
    lab_free(&lab, all);
    for (size_t i = 0; i < count; i++)
        blocks[i] = lab_alloc(&lab, 1 + i % 512);
    EXPECT_EQ(CURRENT(&lab, allocation), count);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), count * 512);
    for (size_t i = 0; i < count; i++)
        lab_free(&lab, blocks[(i * 7919) % count]);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    heap_free(blocks);
    lab.heap_before--;
    lab_close(&lab);
}

T_MAIN()
