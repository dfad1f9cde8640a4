/* SPDX-License-Identifier: MIT */
/* Pages and addresses of the reference device, and the limits of the system. */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "tests/support/sim_bed.h"

#include <sys/resource.h>
#include <sys/stat.h>

#define P BED_PAGE

TEST(both_views_are_aligned_and_apart)
{
    static const size_t sizes[] = {P, 3 * P, GIB - P, GIB, GIB + P};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t align = P; align <= GIB; align *= 512) {
            char *open, *alias;

            REQUIRE_OK(views_reserve(sizes[i], align, &open, &alias));
            EXPECT_EQ((uintptr_t)open % align, 0);
            EXPECT_EQ((uintptr_t)alias % align, 0);
            EXPECT_GE((uintptr_t)alias - (uintptr_t)open, sizes[i]);
            views_release(open, alias, sizes[i]);
        }
}

TEST(reservations_come_and_go_without_a_trace)
{
    struct sim_bed bed = bed_open("");
    int maps = bed_map_count();

    for (int i = 0; i < 100; i++) {
        void *range;
        size_t bytes = GIB + (size_t)(i % 7) * P;

        REQUIRE_OK(bed.ops->reserve(bed.sim, 0, bytes, &range));
        REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, bytes));
    }
    EXPECT_LE(bed_map_count(), maps);
    bed_close(&bed);
}

/* Bytes that the file of device 0 really holds. */
static uint64_t committed(const struct sim_bed *bed)
{
    struct stat facts;

    REQUIRE(fstat(bed->sim->memory->files[0], &facts) == 0);
    return (uint64_t)facts.st_blocks * 512;
}

TEST(pages_are_committed_when_touched_and_given_back)
{
    struct sim_bed bed = bed_open("");
    static char ones[64 << 10];
    char *p;

    memset(ones, 1, sizeof ones);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 8 * GIB, (void **)&p));
    EXPECT_EQ(committed(&bed), 0);
    bed_write(&bed, p + 5 * GIB, ones, sizeof ones);
    EXPECT_EQ(committed(&bed), sizeof ones);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    EXPECT_EQ(committed(&bed), 0);
    bed_close(&bed);
}

TEST(handles_give_their_pages_back_with_the_last_use)
{
    struct sim_bed bed = bed_open("");
    static char ones[64 << 10];
    char *range;
    void *handle;

    memset(ones, 1, sizeof ones);
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, P, (void **)&range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, P, 0, handle));
    bed_write(&bed, range, ones, sizeof ones);
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    EXPECT_EQ(committed(&bed), sizeof ones);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, range, P));
    EXPECT_EQ(committed(&bed), 0);
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, P));
    bed_close(&bed);
}

/* ---- Limits, in children because they cannot be lifted again ------------------------ */

static void without_descriptors(void *unused)
{
    struct sim_bed bed = bed_open("");
    rlim_t most = (rlim_t)t_fd_count() + 4;
    struct rlimit limit = {most, most};
    void *handles[64], *last = &bed;
    acre_status status = ACRE_OK;
    int count = 0;

    (void)unused;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (count < 64 && status == ACRE_OK) {
        status = bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_POSIX, &last);
        if (status == ACRE_OK)
            handles[count++] = last;
    }
    EXPECT_EQ(status, ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "ulimit -n");
    EXPECT_EQ(bed_usage(&bed).bytes_used, (uint64_t)count * P);
    int fd;
    EXPECT_EQ(bed.ops->export_fd(bed.sim, 0, handles[0], &fd), ACRE_ERR_LIMIT);
    /* The first plain allocation of a device needs one for its file. */
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, P, &last), ACRE_ERR_LIMIT);
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handles[--count]));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, P, &last));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, last));
    while (count > 0)
        REQUIRE_OK(bed.ops->release(bed.sim, 0, handles[--count]));
    bed_expect_empty(&bed);
}

TEST(running_out_of_descriptors_is_an_error)
{
    EXPECT_EQ(t_child(without_descriptors, NULL), 0);
}

static void with_short_files(void *unused)
{
    struct sim_bed bed = bed_open("");
    struct rlimit limit = {8 * P, 8 * P};
    void *p, *q;

    (void)unused;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 7 * P, &p));
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, 2 * P, &q), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "ulimit -f");
    EXPECT_EQ(bed_usage(&bed).bytes_used, 7 * P);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_expect_empty(&bed);
}

TEST(a_limit_on_files_is_an_error_not_a_signal)
{
    EXPECT_EQ(t_child(with_short_files, NULL), 0);
}

/* Maps every other page of a reservation until the kernel has no more mappings. */
static void with_few_mappings(void *unused)
{
    struct sim_bed bed = bed_open("page:4KiB,memory:1GiB");
    size_t pages = 200000, count = 0;
    acre_status status = ACRE_OK;
    char *range;
    void *handle;

    (void)unused;
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, pages * 4096, (void **)&range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, 4096, ACRE_HANDLE_NONE, &handle));
    for (; status == ACRE_OK && 2 * count < pages; count += status == ACRE_OK)
        status = bed.ops->map(bed.sim, 0, range + 2 * count * 4096, 4096, 0, handle);
    if (2 * count < pages) { /* else the system's limit is higher than usual */
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_HAS(acre_last_error(), "vm.max_map_count");
    }
    EXPECT_EQ(bed_usage(&bed).map_count, count);
    while (count-- > 0)
        REQUIRE_OK(bed.ops->unmap(bed.sim, 0, range + 2 * count * 4096, 4096));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, pages * 4096));
    bed_expect_empty(&bed);
}

TEST(running_out_of_mappings_is_an_error)
{
    if (BED_SANITIZED)
        T_SKIP("a sanitizer needs mappings of its own");
    EXPECT_EQ(t_child(with_few_mappings, NULL), 0);
}

T_MAIN()
