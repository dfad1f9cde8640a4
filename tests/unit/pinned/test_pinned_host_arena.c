/* SPDX-License-Identifier: MIT */
/* Parts of the pinned cache alone: sizes, blocks and slabs, levels, touching pages, and
 * memory nodes as a made-up tree describes them. */
#include "pinned/host_arena.h"

#include "base/heap.h"
#include "pinned/level.h"
#include "host/numa.h"
#include "pinned/touch.h"
#include "tests/support/pinned_bed.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Pieces --------------------------------------------------------------------------- */

static struct map map;
static struct host_pool pool;
static char *memory;

enum { MEMORY = 4 << 20 };

/* One extent that nobody needs to lock. */
static struct extent *open_pool(void)
{
    struct extent *extent = host_extent_create();

    memory = heap_map(MEMORY);
    REQUIRE(memory && extent);
    REQUIRE_OK(map_init(&map));
    host_arena_init(&pool, &map, false);
    REQUIRE_OK(host_arena_add(&pool, extent, memory, MEMORY));
    host_arena_open(extent);
    return extent;
}

static void close_pool(struct extent *extent)
{
    const char *fact = "";

    host_arena_drain(&pool);
    EXPECT(host_arena_check(&pool, &fact));
    EXPECT(!list_empty(&extent->idle_link));
    host_arena_withdraw(extent);
    host_extent_destroy(extent);
    map_fini(&map);
    heap_unmap(memory, MEMORY);
}

static struct host_block *take(size_t bytes)
{
    struct host_block *host_block = NULL;
    size_t need;

    REQUIRE_OK(host_arena_take(&pool, host_arena_round(bytes), &host_block, &need));
    return host_block;
}

TEST(sizes_below_4_kib_are_multiples_of_64_below_32_kib_of_512)
{
    EXPECT_EQ(host_arena_round(1), 64);
    EXPECT_EQ(host_arena_round(4095), 4096);
    EXPECT_EQ(host_arena_round(4097), 4608);
    EXPECT_EQ(host_arena_round(32767), 32768);
    EXPECT_EQ(host_arena_round(32769), 36864);
    EXPECT_EQ(host_arena_round(SIZE_MAX), 0);
    for (size_t bytes = 1; bytes < 100000; bytes++)
        if (host_arena_round(bytes) - bytes > (bytes < 512 ? 63 : bytes / 8))
            t_fail(__FILE__, __LINE__, "%zu is rounded to %zu", bytes, host_arena_round(bytes));
}

TEST(the_best_fit_is_cut_and_neighbours_join)
{
    struct extent *extent = open_pool();
    struct host_block *a = take(100000), *b = take(50000), *c = take(200000);
    const char *fact = "";

    EXPECT_PTR_EQ(b->base, a->base + a->bytes);
    char *hole = b->base;
    host_arena_put(b);
    EXPECT_PTR_EQ(take(40000)->base, hole); /* the smallest that fits */
    EXPECT(host_arena_check(&pool, &fact));
    struct host_block *d = host_arena_find(&map, hole);
    REQUIRE(d != NULL);
    EXPECT_PTR_EQ(host_arena_find(&map, hole + 4096), NULL);
    host_arena_put(a);
    host_arena_put(c);
    host_arena_put(d);
    EXPECT_EQ(extent->first->bytes, MEMORY);
    close_pool(extent);
}

TEST(slots_are_found_by_address_and_their_slab_goes_with_the_last)
{
    struct extent *extent = open_pool();
    const size_t sizes[] = {64, 192, 512, 576, 4096, 4608, 32256};
    struct host_block *slots[7][3];

    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 3; k++) {
            slots[i][k] = take(sizes[i]);
            EXPECT_EQ(slots[i][k]->bytes, sizes[i]);
            EXPECT_PTR_EQ(host_arena_find(&map, slots[i][k]->base), slots[i][k]);
            EXPECT_PTR_EQ(host_arena_find(&map, slots[i][k]->base + 8), NULL);
        }
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 3; k++)
            host_arena_keep(slots[i][k]);
    host_arena_drain(&pool);
    EXPECT_EQ(extent->first->bytes, MEMORY);
    close_pool(extent);
}

TEST(what_there_is_not_says_how_much_is_needed)
{
    struct extent *extent = open_pool();
    struct host_block *host_block;
    size_t need = 0;

    EXPECT_EQ(host_arena_take(&pool, MEMORY + 4096, &host_block, &need), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(need, MEMORY + 4096);
    struct host_block *all = take(MEMORY);
    EXPECT_EQ(host_arena_take(&pool, 64, &host_block, &need), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(need, 4096);
    host_arena_put(all);
    close_pool(extent);
}

TEST(levels_know_peak_sums_and_resets)
{
    struct pinned_level level = {0};

    level_up(&level, 10);
    level_down(&level, 4);
    level_up(&level, 2);
    acre_stat stat = level_stat(&level);
    EXPECT_EQ(stat.current, 8);
    EXPECT_EQ(stat.peak, 10);
    EXPECT_EQ(stat.allocated, 12);
    EXPECT_EQ(stat.freed, 4);
    level_reset_accumulated(&level);
    level_reset_peak(&level);
    level_down(&level, 3);
    stat = level_stat(&level);
    EXPECT_EQ(stat.current, 5);
    EXPECT_EQ(stat.peak, 8);
    EXPECT_EQ(stat.allocated, 0);
    EXPECT_EQ(stat.freed, 3);
    EXPECT_EQ(level_freed(&level), 7);
}

TEST(what_is_at_hand_goes_back_after_a_reset_too)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    pinned_give(&bed, pinned_take(&bed, 5 * MIB));
    acre_pinned_stats_reset_accumulated(bed.pinned);
    REQUIRE_OK(acre_pinned_empty(bed.pinned));
    EXPECT_EQ(pinned_stats(&bed).allocated_bytes.current, 0);
    pinned_bed_close(&bed);
}

/* ---- Pages ------------------------------------------------------------------------------ */

TEST(W22_every_page_is_touched_the_first_and_last_in_part)
{
    enum { PAGES = 37 };
    const unsigned threads[] = {1, 2, 4, 8, 64};
    unsigned char there[PAGES];

    if (sysconf(_SC_PAGESIZE) != 4096)
        T_SKIP("pages of this machine are not 4 KiB");
    for (int i = 0; i < 5; i++) {
        char *base = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(base != MAP_FAILED);
        madvise(base, PAGES * 4096, MADV_NOHUGEPAGE);
        base[5000] = 3; /* contents stay */
        touch_pages(base + 100, PAGES * 4096 - 200, threads[i]);
        if (mincore(base, PAGES * 4096, there) != 0)
            T_SKIP("the kernel does not tell which pages exist");
        for (int page = 0; page < PAGES; page++)
            EXPECT(there[page] & 1);
        EXPECT_EQ(base[5000], 3);
        munmap(base, PAGES * 4096);
    }
}

/* ---- Memory nodes ------------------------------------------------------------------------- */

static void put_file(const char *root, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    fputs(text, file);
    fclose(file);
}

/* A tree of two nodes; returns its root, which remove_tree removes. */
static const char *make_tree(const char *online, const char *first, const char *second)
{
    static char root[64];
    char path[512];

    strcpy(root, "/tmp/acre-numa-XXXXXX");
    REQUIRE(mkdtemp(root) != NULL);
    put_file(root, "online", online);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/node%d", root, i);
        REQUIRE(mkdir(path, 0700) == 0);
        put_file(path, "cpulist", i ? second : first);
    }
    return root;
}

static void remove_tree(const char *root)
{
    static const char *const names[] = {"node0/cpulist", "node1/cpulist", "online", "node0",
                                        "node1", ""};
    char path[512];

    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        EXPECT(remove(path) == 0);
    }
}

TEST(two_nodes_are_told_apart_by_processor)
{
    static struct numa numa;
    const char *root = make_tree("0-1\n", "0-3,8\n", "4-7,9-11\n");

    numa_load(&numa, root);
    EXPECT_EQ(numa.count, 2);
    EXPECT_EQ(numa_choose_on(&numa, NUMA_LOCAL, 2), 0);
    EXPECT_EQ(numa_choose_on(&numa, NUMA_LOCAL, 8), 0);
    EXPECT_EQ(numa_choose_on(&numa, NUMA_LOCAL, 6), 1);
    EXPECT_EQ(numa_choose_on(&numa, NUMA_LOCAL, 11), 1);
    EXPECT_EQ(numa_choose_on(&numa, NUMA_LOCAL, NUMA_CPUS_MAX), -1);
    EXPECT_EQ(numa_choose_on(&numa, NUMA_OFF, 6), -1);
    EXPECT_EQ(numa_choose_on(&numa, 1, 0), 1);
    EXPECT_EQ(numa_choose_on(&numa, 2, 0), -1); /* there is no such node */
    remove_tree(root);
}

TEST(one_node_or_no_tree_means_no_preference)
{
    static struct numa numa;
    const char *root = make_tree("0\n", "0-3\n", "");

    numa_load(&numa, root);
    EXPECT_EQ(numa.count, 1);
    EXPECT_EQ(numa_choose(&numa, NUMA_LOCAL), -1);
    put_file(root, "online", "0-9999\n");
    numa_load(&numa, root);
    EXPECT_EQ(numa.count, 1);
    remove_tree(root);
    numa_load(&numa, root);
    EXPECT_EQ(numa.count, 1);
}

TEST(lists_of_numbers_are_read_whole_or_not)
{
    uint64_t words[2];

    EXPECT(numa_list_read("0-2,64,100-101\n", words, 128));
    EXPECT_EQ(words[0], 7);
    EXPECT_EQ(words[1], 1 | (uint64_t)3 << 36);
    EXPECT(numa_list_read("\n", words, 128));
    EXPECT_EQ(words[0], 0);
    EXPECT(!numa_list_read("3-1", words, 128));
    EXPECT(!numa_list_read("128", words, 128));
    EXPECT(!numa_list_read("1,x", words, 128));
    EXPECT(!numa_list_read("1-", words, 128));
    EXPECT(!numa_list_read("99999999999999999999", words, 128));
}

TEST(placing_is_asked_of_the_kernel_and_undone)
{
    struct numa_policy before;
    char *base = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(base != MAP_FAILED);
    EXPECT(numa_bind(base, 8192, -1));
    numa_bind(base, 8192, 0);  /* a kernel without nodes refuses, and that is fine */
    numa_bind(base, 8192, 63); /* so is a node that is not there                    */
    base[0] = base[8191] = 1;
    numa_enter(&before, -1);
    EXPECT(!before.is_set);
    numa_leave(&before);
    numa_enter(&before, 0);
    numa_leave(&before);
    munmap(base, 8192);
}

T_MAIN()
