/* SPDX-License-Identifier: MIT */
/* What is said when a request fails (B49, B50 without private pools). */
#include "tests/support/lab.h"
#include "tests/support/sim_rig.h"

#include <acre/sleep.h>

struct told {
    int count, device;
    uint64_t bytes, limit, free;
};

static void observe(void *arg, int device, uint64_t bytes, uint64_t limit, uint64_t free_bytes)
{
    *(struct told *)arg =
        (struct told){((struct told *)arg)->count + 1, device, bytes, limit, free_bytes};
}

TEST(B49_what_the_observer_is_told)
{
    struct told told = {0};
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 200 * MIB);
    lab_alloc(&lab, 60 * MIB);
    REQUIRE_OK(acre_cache_oom_observer_add(lab.cache, observe, &told));
    EXPECT_EQ(lab_try(&lab, 150 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.count, 1);
    EXPECT_EQ(told.device, 0);
    EXPECT_EQ(told.bytes, 157286400);
    EXPECT_EQ(told.limit, 209715200);
    EXPECT_EQ(told.free, 8 * GIB - 60 * MIB);
    acre_cache_limit_set(lab.cache, ACRE_CACHE_NO_LIMIT);
    EXPECT_EQ(lab_try(&lab, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.limit, 8 * GIB);
    EXPECT_EQ(acre_cache_oom_observer_add(lab.cache, NULL, NULL), ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(the_text_gives_the_whole_picture)
{
    struct lab lab;

    lab_open(&lab, NULL);
    fake_hog(lab.fake, 512 * MIB);
    lab_limit(&lab, 200 * MIB);
    lab_alloc(&lab, 3 * MIB);
    void *waiting = lab_alloc_on(&lab, 2 * MIB, 1);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, waiting, fake_stream(2)));
    EXPECT_EQ(lab_try(&lab, 190 * MIB - 100), ACRE_ERR_DEVICE_MEMORY);
    const char *text = acre_last_error();
    EXPECT_HAS(text, "out of memory. Tried to allocate 190.00 MiB. ");
    EXPECT_HAS(text, "GPU 0 has a total capacity of 8.00 GiB of which 7.46 GiB is free");
    EXPECT_HAS(text, "512.00 MiB is in use outside this cache");
    EXPECT_HAS(text, "200.00 MiB allowed; ");
    EXPECT_HAS(text, "5.00 MiB allocated by Acre");
    EXPECT_HAS(text, "35.00 MiB reserved by Acre but unallocated");
    EXPECT_HAS(text, "largest free block 18.00 MiB");
    EXPECT_HAS(text, "waiting for streams 0 bytes");
    EXPECT_HAS(text, "raise the memory limit");
    fake_hog(lab.fake, (uint64_t)-(int64_t)(512 * MIB));
    lab_close(&lab);
}

TEST(the_text_names_what_would_have_helped)
{
    struct lab lab;
    void *blocks[16];

    lab_open(&lab, NULL);
    for (int i = 0; i < 16; i++)
        blocks[i] = lab_alloc(&lab, i % 2 ? 3 * MIB : 512 * MIB - 3 * MIB);
    for (int i = 0; i < 16; i += 2)
        lab_free(&lab, blocks[i]);
    /* Half the device is reserved but in pieces that partly used segments keep. */
    void *big = lab_alloc(&lab, 3 * GIB);
    EXPECT_EQ(lab_try(&lab, 5 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "expandable_segments:True");
    EXPECT_HAS(acre_last_error(), "3.02 GiB allocated");
    lab_free(&lab, big);
    lab_close(&lab);
}

/* Caches of a device with addresses for some of them only. */
static void expect_addresses(acre_policy policy, const char *conf, const char *has)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf};
    acre_sim_config device_config = {.struct_size = sizeof device_config,
                                     .memory_bytes = (uint64_t)8 << 40,
                                     .dry = 1};
    acre_backend *backend;
    acre_device *device;
    acre_cache *caches[64];
    void *blocks[64];
    int count = 0;
    acre_status status = ACRE_OK;

    REQUIRE_OK(acre_sim_create(&device_config, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    for (; count < 64 && status == ACRE_OK; count++) {
        REQUIRE_OK(acre_cache_create(device, &config, &caches[count]));
        status = acre_cache_alloc(caches[count], 32 * MIB, NULL, &blocks[count]);
    }
    EXPECT_EQ(status, ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "Addresses ran out, not memory: the device could not "
                                  "reserve 9216.");
    EXPECT_HAS(acre_last_error(), has);
    /* What failed for want of addresses is not said of a later request. */
    EXPECT_EQ(acre_cache_alloc(caches[0], (size_t)12 << 40, NULL, &blocks[63]),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT(!strstr(acre_last_error(), "Addresses ran out"));
    while (count-- > 0) {
        if (status == ACRE_OK)
            REQUIRE_OK(acre_cache_free(caches[count], blocks[count]));
        status = ACRE_OK;
        acre_cache_destroy(caches[count]);
    }
    acre_backend_unregister(backend);
}

TEST(the_text_tells_addresses_from_memory)
{
#if defined(__SANITIZE_THREAD__)
    T_SKIP("ThreadSanitizer needs the addresses that this test uses up");
#endif
    expect_addresses(ACRE_POLICY_ACRE, NULL, "or set stitched_memory:False");
    expect_addresses(ACRE_POLICY_TORCH, "expandable_segments:True",
                     "or set expandable_segments:False");
}

/* What is said when 3 GiB are asked for, with half of 4 GiB free in pieces. */
static void expect_remedy(const char *conf, const char *has, const char *has_not)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE, .conf = conf};
    struct fake_config device = {.bytes = 4 * GIB, .page_bytes = 2 * MIB};
    struct lab lab;
    void *blocks[8];

    lab_open_with(&lab, &device, &config);
    for (int i = 0; i < 8; i++)
        blocks[i] = lab_alloc(&lab, 512 * MIB);
    for (int i = 0; i < 8; i += 2)
        lab_free(&lab, blocks[i]);
    EXPECT_EQ(lab_try(&lab, 3 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), has);
    EXPECT(!strstr(acre_last_error(), has_not));
    for (int i = 1; i < 8; i += 2)
        lab_free(&lab, blocks[i]);
    lab_close(&lab);
}

TEST(the_text_names_the_option_of_the_policy)
{
    expect_remedy("stitched_memory:False", "stitched_memory:True in ACRE_CONF",
                  "expandable_segments");
    expect_remedy(NULL, "Reduce peak memory use: smaller batch", "expandable_segments");
}

TEST(sizes_in_words)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_cache_limit_set(lab.cache, 1024);
    EXPECT_EQ(lab_try(&lab, 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1024 bytes allowed");
    EXPECT_HAS(acre_last_error(), "Tried to allocate 2.00 MiB");
    acre_cache_limit_set(lab.cache, MIB);
    EXPECT_EQ(lab_try(&lab, 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1024.00 KiB allowed");
    lab_close(&lab);
}

static int log_count;
static char log_text[4096];

static void take_line(void *arg, acre_log_level level, const char *text)
{
    (void)arg;
    (void)level;
    log_count++;
    snprintf(log_text, sizeof log_text, "%s", text);
}

TEST(rejections_are_logged_once_a_minute)
{
    struct lab lab;

    lab_open(&lab, "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.01");
    acre_log_set(take_line, NULL, ACRE_LOG_WARN);
    log_count = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(lab_try(&lab, GIB), ACRE_ERR_DEVICE_MEMORY);
    acre_cache_limit_set(lab.cache, ACRE_CACHE_NO_LIMIT);
    log_count = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(lab_try(&lab, GIB), ACRE_ERR_REJECTED);
    EXPECT_EQ(log_count, 1);
    EXPECT_HAS(log_text, "refused ahead");
    acre_log_set(NULL, NULL, ACRE_LOG_ERROR);
    lab_close(&lab);
}

/* A pool that sleeps has live blocks and no memory. */
TEST(a_sleeping_pool_is_not_counted_below_zero)
{
    acre_pool_config stitched = {.struct_size = sizeof stitched, .flags = ACRE_POOL_STITCHED};
    acre_pool_id id = acre_pool_id_next();
    void *asleep, *awake, *idle, *none;
    acre_device *device;
    acre_cache *cache;

    rig_open(NULL);
    REQUIRE_OK(acre_backend_device(rig.backend, 0, &device));
    REQUIRE_OK(acre_cache_create(device, NULL, &cache));
    REQUIRE_OK(acre_pool_create(cache, id, &stitched));
    REQUIRE_OK(acre_pool_begin(cache, id, NULL));
    REQUIRE_OK(acre_cache_alloc(cache, 16 * MIB, NULL, &asleep));
    REQUIRE_OK(acre_cache_alloc(cache, 6 * MIB, NULL, &idle));
    REQUIRE_OK(acre_pool_end(cache, id));
    REQUIRE_OK(acre_cache_free(cache, idle));
    REQUIRE_OK(acre_cache_alloc(cache, 4 * MIB, NULL, &awake));
    REQUIRE_OK(acre_cache_sleep(cache, &id, NULL, ACRE_SLEEP_SAVE));
    EXPECT_EQ(acre_cache_alloc(cache, 9 * GIB, NULL, &none), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), " 4.00 MiB allocated by Acre, and 0 bytes reserved");
    EXPECT_HAS(acre_last_error(), "Sleeping pools have 16.00 MiB more");
    REQUIRE_OK(acre_cache_wake(cache, &id, NULL));
    EXPECT_EQ(acre_cache_alloc(cache, 9 * GIB, NULL, &none), ACRE_ERR_DEVICE_MEMORY);
    EXPECT(!strstr(acre_last_error(), "Sleeping"));
    EXPECT_HAS(acre_last_error(), " 6.00 MiB of it free in private pools");
    acre_cache_destroy(cache);
    rig_close();
}

T_MAIN()
