/* SPDX-License-Identifier: MIT */
/* What is said when a request fails (B49, B50 without private pools). */
#include "tests/support/rig.h"

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
    struct rig rig;

    rig_open(&rig, NULL);
    rig_limit(&rig, 200 * MIB);
    rig_alloc(&rig, 60 * MIB);
    REQUIRE_OK(acre_cache_oom_observer_add(rig.cache, observe, &told));
    EXPECT_EQ(rig_try(&rig, 150 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.count, 1);
    EXPECT_EQ(told.device, 0);
    EXPECT_EQ(told.bytes, 157286400);
    EXPECT_EQ(told.limit, 209715200);
    EXPECT_EQ(told.free, 8 * GIB - 60 * MIB);
    acre_cache_limit_set(rig.cache, ACRE_CACHE_NO_LIMIT);
    EXPECT_EQ(rig_try(&rig, 9 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(told.limit, 8 * GIB);
    EXPECT_EQ(acre_cache_oom_observer_add(rig.cache, NULL, NULL), ACRE_ERR_INVALID);
    rig_close(&rig);
}

TEST(the_text_gives_the_whole_picture)
{
    struct rig rig;

    rig_open(&rig, NULL);
    fake_hog(rig.fake, 512 * MIB);
    rig_limit(&rig, 200 * MIB);
    rig_alloc(&rig, 3 * MIB);
    void *waiting = rig_alloc_on(&rig, 2 * MIB, 1);
    REQUIRE_OK(acre_cache_record_stream(rig.cache, waiting, fake_stream(2)));
    EXPECT_EQ(rig_try(&rig, 190 * MIB - 100), ACRE_ERR_DEVICE_MEMORY);
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
    fake_hog(rig.fake, (uint64_t)-(int64_t)(512 * MIB));
    rig_close(&rig);
}

TEST(the_text_names_what_would_have_helped)
{
    struct rig rig;
    void *blocks[16];

    rig_open(&rig, NULL);
    for (int i = 0; i < 16; i++)
        blocks[i] = rig_alloc(&rig, i % 2 ? 3 * MIB : 512 * MIB - 3 * MIB);
    for (int i = 0; i < 16; i += 2)
        rig_free(&rig, blocks[i]);
    /* Half the device is reserved but in pieces that partly used segments keep. */
    void *big = rig_alloc(&rig, 3 * GIB);
    EXPECT_EQ(rig_try(&rig, 5 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "expandable_segments:True");
    EXPECT_HAS(acre_last_error(), "3.02 GiB allocated");
    rig_free(&rig, big);
    rig_close(&rig);
}

TEST(sizes_in_words)
{
    struct rig rig;

    rig_open(&rig, NULL);
    acre_cache_limit_set(rig.cache, 1024);
    EXPECT_EQ(rig_try(&rig, 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1024 bytes allowed");
    EXPECT_HAS(acre_last_error(), "Tried to allocate 2.00 MiB");
    acre_cache_limit_set(rig.cache, MIB);
    EXPECT_EQ(rig_try(&rig, 1), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1024.00 KiB allowed");
    rig_close(&rig);
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
    struct rig rig;

    rig_open(&rig, "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.01");
    acre_log_set(take_line, NULL, ACRE_LOG_WARN);
    log_count = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(rig_try(&rig, GIB), ACRE_ERR_DEVICE_MEMORY);
    acre_cache_limit_set(rig.cache, ACRE_CACHE_NO_LIMIT);
    log_count = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(rig_try(&rig, GIB), ACRE_ERR_REJECTED);
    EXPECT_EQ(log_count, 1);
    EXPECT_HAS(log_text, "refused ahead");
    acre_log_set(NULL, NULL, ACRE_LOG_ERROR);
    rig_close(&rig);
}

T_MAIN()
