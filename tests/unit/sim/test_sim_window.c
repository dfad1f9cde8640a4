/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

#include <pthread.h>

TEST(D22_a_window_opens_and_closes)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *p;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 8192, (void **)&p));
    EXPECT(t_faults(bed_touch, p));
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(bed.ops->access_open(bed.sim, p));
        EXPECT_EQ(p[4096], i);
        p[4096]++;
        REQUIRE_OK(bed.ops->access_close(bed.sim, p));
        EXPECT(t_faults(bed_touch, p));
    }
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

TEST(D23_windows_are_counted)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *p;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, (void **)&p));
    REQUIRE_OK(bed.ops->access_open(bed.sim, p));
    REQUIRE_OK(bed.ops->access_open(bed.sim, p));
    EXPECT_EQ(bed_usage(&bed).window_count, 2);
    REQUIRE_OK(bed.ops->access_close(bed.sim, p));
    p[0] = 1;
    REQUIRE_OK(bed.ops->access_close(bed.sim, p));
    EXPECT(t_faults(bed_touch, p));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

TEST(D24_an_interior_pointer_opens_the_whole_block)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *p;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 3 * 4096, (void **)&p));
    REQUIRE_OK(bed.ops->access_open(bed.sim, p + 5000));
    memset(p, 9, 3 * 4096);
    REQUIRE_OK(bed.ops->access_close(bed.sim, p + 3 * 4096 - 1));
    EXPECT(t_faults(bed_touch, p));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

TEST(an_open_device_needs_no_window)
{
    struct sim_bed bed = bed_open("memory:64MiB, open:1");
    char *plain, *range;
    void *handle;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 8192, (void **)&plain));
    plain[8191] = 5;
    REQUIRE_OK(bed.ops->access_open(bed.sim, plain));
    EXPECT_EQ(bed_usage(&bed).window_count, 1);
    REQUIRE_OK(bed.ops->access_close(bed.sim, plain));
    EXPECT_EQ(plain[8191], 5);
    EXPECT_EQ(bed.ops->access_close(bed.sim, plain), ACRE_ERR_STATE);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, plain));

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 4 << 20, (void **)&range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, 2 << 20, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, 2 << 20, 0, handle));
    range[0] = 7;
    EXPECT(t_faults(bed_touch, range + (2 << 20)));
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, range, 2 << 20));
    EXPECT(t_faults(bed_touch, range));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range + (2 << 20), 2 << 20, 0, handle));
    EXPECT_EQ(range[2 << 20], 7);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, range + (2 << 20), 2 << 20));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, 4 << 20));
    bed_close(&bed);
}

TEST(D25_pointers_that_open_nothing_are_accepted)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *host, *range;

    REQUIRE_OK(bed.ops->host_alloc(bed.sim, 4096, &host));
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, BED_PAGE, &range));
    void *pointers[] = {NULL, &bed, host, range};
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(bed.ops->access_close(bed.sim, pointers[i]), ACRE_OK);
        EXPECT_EQ(bed.ops->access_open(bed.sim, pointers[i]), ACRE_OK);
    }
    EXPECT_EQ(bed_usage(&bed).window_count, 0);
    EXPECT(t_faults(bed_touch, range));
    *(char *)host = 1;
    REQUIRE_OK(bed.ops->host_free(bed.sim, host));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, BED_PAGE));
    bed_close(&bed);
}

TEST(D26_closing_what_is_closed_is_refused_and_harmless)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *p;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, (void **)&p));
    EXPECT_EQ(bed.ops->access_close(bed.sim, p), ACRE_ERR_STATE);
    EXPECT_EQ(bed.ops->access_close(bed.sim, p), ACRE_ERR_STATE);
    REQUIRE_OK(bed.ops->access_open(bed.sim, p));
    p[0] = 1;
    REQUIRE_OK(bed.ops->access_close(bed.sim, p));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

TEST(D28_an_open_block_can_be_freed)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *p;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, &p));
    REQUIRE_OK(bed.ops->access_open(bed.sim, p));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_expect_gone(p);
    bed_close(&bed);
}

static void *touch_in_thread(void *p)
{
    bed_touch(p);
    return NULL;
}

TEST(D29_a_window_is_open_to_all_threads)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *p;
    pthread_t thread;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, (void **)&p));
    REQUIRE_OK(bed.ops->access_open(bed.sim, p));
    REQUIRE_EQ(pthread_create(&thread, NULL, touch_in_thread, p), 0);
    pthread_join(thread, NULL);
    EXPECT_EQ(p[0], 1);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

TEST(a_window_of_virtual_memory_opens_one_mapping)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *range, byte = 7;
    void *a, *b;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 2 * BED_PAGE, (void **)&range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_NONE, &a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_POSIX, &b));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, BED_PAGE, 0, a));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range + BED_PAGE, BED_PAGE, 0, b));
    bed_write(&bed, range + BED_PAGE + 5, &byte, 1);
    REQUIRE_OK(bed.ops->access_open(bed.sim, range + BED_PAGE + 100));
    EXPECT_EQ(range[BED_PAGE + 5], 7);
    EXPECT(t_faults(bed_touch, range));
    /* Unmapping an open mapping closes it. */
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, range, 2 * BED_PAGE));
    EXPECT_EQ(bed_usage(&bed).window_count, 0);
    EXPECT(t_faults(bed_touch, range + BED_PAGE));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, BED_PAGE, 0, b));
    EXPECT(t_faults(bed_touch, range));
    REQUIRE_OK(bed.ops->access_open(bed.sim, range));
    EXPECT_EQ(range[5], 7);
    REQUIRE_OK(bed.ops->access_close(bed.sim, range));
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, range, BED_PAGE));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, a));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, b));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, 2 * BED_PAGE));
    bed_close(&bed);
}

TEST(a_failed_protection_call_changes_nothing)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *p;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, (void **)&p));
    for (int i = 0; i < 2; i++) { /* the first opening maps, the second protects */
        pages_fail_nth(1);
        EXPECT_EQ(bed.ops->access_open(bed.sim, p), ACRE_ERR_HOST_MEMORY);
        EXPECT(pages_fail_disarm());
        EXPECT(t_faults(bed_touch, p));
        EXPECT_EQ(bed_usage(&bed).window_count, 0);
        REQUIRE_OK(bed.ops->access_open(bed.sim, p));
        pages_fail_nth(1);
        EXPECT_EQ(bed.ops->access_close(bed.sim, p), ACRE_ERR_HOST_MEMORY);
        EXPECT(pages_fail_disarm());
        p[0]++;
        EXPECT_EQ(bed_usage(&bed).window_count, 1);
        REQUIRE_OK(bed.ops->access_close(bed.sim, p));
    }
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

T_MAIN()
