/* SPDX-License-Identifier: MIT */
/* Heaps of host memory: blocks, limits, statistics, history. */
#include "tests/unit/hostmem/heap_make.h"

#include <sys/resource.h>
#include <unistd.h>

TEST(every_size_is_aligned_usable_and_its_own)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *blocks[600];
    size_t sizes[600];

    for (size_t i = 0; i < 600; i++) {
        sizes[i] = i < 400 ? 1 + i * 17 : (i - 399) * 5000;
        blocks[i] = block_make(heap, sizes[i]);
        EXPECT_EQ((uintptr_t)blocks[i] % ACRE_HOSTMEM_ALIGNMENT, 0);
        EXPECT(acre_hostmem_usable_bytes(heap, blocks[i]) >= sizes[i]);
        memset(blocks[i], (int)i, sizes[i]);
    }
    for (size_t i = 0; i < 600; i++) {
        EXPECT_EQ((unsigned char)blocks[i][0], i % 256);
        EXPECT_EQ((unsigned char)blocks[i][sizes[i] - 1], i % 256);
        REQUIRE_OK(acre_hostmem_free(heap, blocks[i]));
    }
    EXPECT_EQ(stats_of(heap).small_count, 0);
    EXPECT_EQ(stats_of(heap).cache.allocated_bytes.all.current, stats_of(heap).slab_bytes);
    acre_hostmem_destroy(heap);
}

TEST(small_blocks_take_64_bytes_not_512)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *first = block_make(heap, 40), *second = block_make(heap, 64);

    EXPECT_EQ(acre_hostmem_usable_bytes(heap, first), 64);
    EXPECT_EQ(first > second ? first - second : second - first, 64);
    EXPECT_EQ(stats_of(heap).small_count, 2);
    EXPECT_EQ(stats_of(heap).small_bytes, 128);
    acre_hostmem_destroy(heap);
}

TEST(wrong_pointers_are_refused_and_change_nothing)
{
    acre_hostmem *heap = heap_make(0, 0), *other = heap_make(0, 0);
    char *small = block_make(heap, 100), *large = block_make(heap, 1 << 20), mine[64];

    EXPECT_EQ(acre_hostmem_free(heap, small + 64), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hostmem_free(heap, small + 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hostmem_free(heap, large + 4096), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hostmem_free(heap, mine), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hostmem_free(other, small), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hostmem_free(other, large), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hostmem_usable_bytes(other, small), 0);
    EXPECT_EQ(acre_hostmem_usable_bytes(heap, large + 512), 0);
    REQUIRE_OK(acre_hostmem_free(heap, small));
    REQUIRE_OK(acre_hostmem_free(heap, large));
    EXPECT_EQ(acre_hostmem_free(heap, small), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "freed before");
    EXPECT_EQ(acre_hostmem_free(heap, large), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_hostmem_free(heap, NULL));
    acre_hostmem_destroy(other);
    acre_hostmem_destroy(heap);
}

TEST(configurations_are_checked)
{
    acre_hostmem_config config = {.struct_size = sizeof config, .flags = 1u << 20};
    acre_hostmem *heap = NULL, *all[ACRE_HOSTMEM_HEAPS_MAX];

    EXPECT_EQ(acre_hostmem_create(&config, &heap), ACRE_ERR_INVALID);
    config = (acre_hostmem_config){.struct_size = 3};
    EXPECT_EQ(acre_hostmem_create(&config, &heap), ACRE_ERR_INVALID);
    config = (acre_hostmem_config){.struct_size = sizeof config, .keep_percent = 5000};
    EXPECT_EQ(acre_hostmem_create(&config, &heap), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(heap, NULL);
    for (int i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++)
        REQUIRE_OK(acre_hostmem_create(NULL, &all[i]));
    EXPECT_EQ(acre_hostmem_create(NULL, &heap), ACRE_ERR_LIMIT);
    for (int i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++)
        acre_hostmem_destroy(all[i]);
    acre_hostmem_destroy(NULL);
}

static void limited_run(void *arg)
{
    struct rlimit limit = {(rlim_t)400 << 20, (rlim_t)400 << 20};
    acre_hostmem *heap = heap_make(0, 0);
    void *blocks[64], *last = NULL;
    int count = 0;

    (void)arg;
    REQUIRE_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    while (count < 64 && acre_hostmem_alloc(heap, 20 << 20, &last) == ACRE_OK)
        blocks[count++] = last;
    REQUIRE(count > 4 && count < 20);
    EXPECT_EQ(acre_hostmem_alloc(heap, 20 << 20, &last), ACRE_ERR_DEVICE_MEMORY);
    for (int i = 0; i < count; i++)
        REQUIRE_OK(acre_hostmem_free(heap, blocks[i]));
    REQUIRE_OK(acre_hostmem_alloc(heap, 60 << 20, &last));
    acre_hostmem_destroy(heap);
}

TEST(a_limit_of_the_process_is_an_error_not_a_death)
{
    T_NEEDS("limits of addresses");
    if (T_SANITIZED)
        T_SKIP("sanitizers reserve more addresses than the limit");
    EXPECT_EQ(t_child(limited_run, NULL), 0);
}

TEST(a_refusal_speaks_of_this_machine_not_of_a_gpu)
{
    acre_hostmem *heap = heap_make(64 << 20, 0);
    void *held = block_make(heap, 30 << 20), *out = NULL;

    EXPECT_EQ(acre_hostmem_alloc(heap, 50 << 20, &out), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(),
               "Out of host memory. Tried to allocate 50.00 MiB. This machine has ");
    EXPECT_HAS(acre_last_error(), "64.00 MiB allowed; 30.00 MiB allocated by Acre");
    EXPECT_HAS(acre_last_error(), "The machine has room: raise the memory limit.");
    EXPECT(!strstr(acre_last_error(), "GPU"));
    REQUIRE_OK(acre_hostmem_free(heap, held));
    acre_hostmem_destroy(heap);
}

/* Whether huge pages were asked for at an address: a flag in /proc/self/smaps. */
static bool is_huge(const void *pointer)
{
    unsigned long begin, end;
    char line[512];
    bool is_inside = false, is_found = false;
    FILE *file = fopen("/proc/self/smaps", "r");

    REQUIRE(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            is_inside = begin <= (uintptr_t)pointer && (uintptr_t)pointer < end;
        if (is_inside && strncmp(line, "VmFlags:", 8) == 0)
            is_found = strstr(line, " hg") != NULL;
    }
    fclose(file);
    return is_found;
}

TEST(huge_pages_are_asked_for_where_a_block_fills_them)
{
    T_NEEDS("MADV_HUGEPAGE");
    acre_hostmem_config config = {.struct_size = sizeof config,
                                  .flags = ACRE_HOSTMEM_NO_THREAD | ACRE_HOSTMEM_HUGE_PAGES};
    acre_hostmem *heap, *plain = heap_make(0, 0);

    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0)
        T_SKIP("this kernel has no transparent huge pages");
    REQUIRE_OK(acre_hostmem_create(&config, &heap));
    char *below = block_make(heap, 3 << 20), *large = block_make(heap, 16 << 20);
    EXPECT(!is_huge(below + (2 << 20)));
    EXPECT(is_huge(large + (8 << 20)));
    memset(large, 1, 16 << 20);
    EXPECT(!is_huge((char *)block_make(plain, 16 << 20) + (8 << 20)));
    acre_hostmem_destroy(heap);
    acre_hostmem_destroy(plain);
}

TEST(small_blocks_are_in_the_history_while_it_is_recorded)
{
    acre_history_config config = {.struct_size = sizeof config, .max_entries = 100};
    acre_hostmem *heap = heap_make(0, 0);
    void *before = block_make(heap, 64), *during;
    acre_history *history;
    bool is_found = false;

    REQUIRE_OK(acre_hostmem_history_start(heap, &config));
    during = block_make(heap, 65);
    REQUIRE_OK(acre_cache_history_create(acre_hostmem_cache(heap), &history));
    for (uint64_t i = 0; i < history->entry_count; i++)
        is_found |=
            history->entries[i].bytes == 65 && history->entries[i].address == (uintptr_t)during;
    EXPECT(is_found);
    acre_history_destroy(history);
    REQUIRE_OK(acre_hostmem_free(heap, before));
    acre_hostmem_history_stop(heap);
    REQUIRE_OK(acre_hostmem_free(heap, during));
    EXPECT_EQ(stats_of(heap).small_count, 0);
    acre_hostmem_destroy(heap);
}
T_MAIN()
