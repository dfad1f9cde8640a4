/* SPDX-License-Identifier: MIT */
/* Memory that goes back to the system. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/idle.h"

#include <time.h>

static uint64_t resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    REQUIRE(file);
    REQUIRE_EQ(fscanf(file, "%llu %llu", &size, &resident), 2);
    fclose(file);
    return resident * 4096;
}

/* Whether resident memory tells what the program holds: this sanitizer keeps a shadow of it. */
#if defined(__SANITIZE_THREAD__)
#define HAS_SHADOW 1
#else
#define HAS_SHADOW 0
#endif

TEST(idle_memory_goes_back_and_steady_use_keeps_its_pages)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *held, *block;
    uint64_t before;

    REQUIRE_OK(acre_hostmem_alloc(heap, 8 << 20, (void **)&held));
    memset(held, 1, 8 << 20);
    before = resident_bytes();
    for (int step = 0; step < 40; step++) { /* used between looks, however shortly */
        REQUIRE_OK(acre_hostmem_alloc(heap, 100 << 20, (void **)&block));
        memset(block, step, 100 << 20);
        REQUIRE_OK(acre_hostmem_free(heap, block));
        idle_look(heap);
    }
    EXPECT_EQ(stats_of(heap).trimmed_bytes, 0);
    EXPECT(resident_bytes() >= before + (90 << 20));
    for (int look = 0; look < 3 * IDLE_LOOKS; look++)
        idle_look(heap);
    EXPECT(stats_of(heap).trimmed_bytes >= 90 << 20);
    EXPECT(HAS_SHADOW || resident_bytes() <= before + (10 << 20));
    EXPECT_EQ(held[5 << 20], 1);
    acre_hostmem_destroy(heap);
}

static void *nothing_run(void *arg)
{
    return arg;
}

TEST(the_thread_trims_by_itself_and_ends_with_the_heap)
{
    T_NEEDS("the count of its threads");
    acre_hostmem *heap = heap_make(0, 50);
    pthread_t first;
    char *block;

    /* Sanitizers start a thread of their own beside the first one. */
    REQUIRE_EQ(pthread_create(&first, NULL, nothing_run, NULL), 0);
    pthread_join(first, NULL);
    int threads = t_threads_left(1 + HAS_SHADOW);

    REQUIRE_OK(acre_hostmem_alloc(heap, 64 << 20, (void **)&block));
    EXPECT_EQ(t_thread_count(), threads + 1);
    memset(block, 1, 64 << 20);
    REQUIRE_OK(acre_hostmem_free(heap, block));
    for (int i = 0; i < 30000 && stats_of(heap).trimmed_bytes < 40 << 20; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    EXPECT(stats_of(heap).trimmed_bytes >= 40 << 20);
    acre_hostmem_destroy(heap);
    EXPECT_EQ(t_threads_left(threads), threads);
}

TEST(trimming_returns_what_is_free_and_leaves_what_lives)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *blocks[16];
    uint64_t gone;

    for (int i = 0; i < 16; i++)
        memset(blocks[i] = block_make(heap, 4 << 20), i, 4 << 20);
    for (int i = 0; i < 16; i += 2)
        REQUIRE_OK(acre_hostmem_free(heap, blocks[i]));
    acre_hostmem_trim(heap, 8 << 20, &gone);
    EXPECT_EQ(gone, 24 << 20);
    acre_hostmem_trim(heap, 0, &gone);
    EXPECT_EQ(gone, 8 << 20);
    EXPECT_EQ(stats_of(heap).trimmed_bytes, 32 << 20);
    for (int i = 1; i < 16; i += 2)
        for (size_t at = 0; at < 4 << 20; at += 512)
            REQUIRE_EQ(blocks[i][at], i);
    acre_hostmem_destroy(heap);
}

TEST(peaks_outlast_looks_and_end_with_a_reset)
{
    acre_hostmem *heap = heap_make(0, 0);

    REQUIRE_OK(acre_hostmem_free(heap, block_make(heap, 10 << 20)));
    idle_look(heap);
    idle_look(heap);
    EXPECT_EQ(stats_of(heap).cache.allocated_bytes.all.peak, 10 << 20);
    acre_hostmem_stats_reset_peak(heap);
    EXPECT_EQ(stats_of(heap).cache.allocated_bytes.all.peak, 0);
    acre_hostmem_stats wrong = {.struct_size = 0};
    EXPECT_EQ(acre_hostmem_stats_get(heap, &wrong), ACRE_ERR_INVALID);
    acre_hostmem_destroy(heap);
}
T_MAIN()
