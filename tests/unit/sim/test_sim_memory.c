/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

#include <pthread.h>

TEST(alloc_gives_whole_zeroed_inaccessible_pages)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *p = NULL;
    char bytes[4096], zero[4096] = {0};

    REQUIRE_OK(bed.ops->alloc(bed.sim, 1, 100, &p));
    EXPECT(p && (uintptr_t)p % 4096 == 0);
    EXPECT(t_faults(bed_touch, p));
    EXPECT_EQ(bed_usage(&bed).bytes_used, 4096);
    bed_read(&bed, bytes, p, 4096);
    EXPECT(memcmp(bytes, zero, 4096) == 0);
    REQUIRE_OK(bed.ops->free(bed.sim, 1, p));
    bed_close(&bed);
}

TEST(sizes_that_cannot_be_are_refused)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *p = &bed;

    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, 0, &p), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, SIZE_MAX, &p), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, SIZE_MAX - 4095, &p), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, (size_t)1 << 60, &p), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->alloc(bed.sim, 2, 4096, &p), ACRE_ERR_RANGE);
    EXPECT_EQ(bed.ops->alloc(bed.sim, -1, 4096, &p), ACRE_ERR_RANGE);
    EXPECT_PTR_EQ(p, &bed);
    bed_close(&bed);
}

TEST(free_takes_exact_live_bases_only)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *p, *host;
    int own = 7;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 3 * 4096, &p));
    REQUIRE_OK(bed.ops->host_alloc(bed.sim, 100, &host));
    EXPECT_EQ(bed.ops->free(bed.sim, 0, NULL), ACRE_OK);
    EXPECT_EQ(bed.ops->free(bed.sim, 0, (char *)p + 4096), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "inside");
    EXPECT_EQ(bed.ops->free(bed.sim, 0, (char *)p + 3 * 4096), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->free(bed.sim, 1, p), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "device 0");
    EXPECT_EQ(bed.ops->free(bed.sim, 0, &own), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->free(bed.sim, 0, host), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "host memory");
    EXPECT_EQ(bed_usage(&bed).alloc_count, 1);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    EXPECT_EQ(bed.ops->free(bed.sim, 0, p), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->host_free(bed.sim, host));
    bed_close(&bed);
}

TEST(capacity_is_exact_to_the_byte_and_by_device)
{
    struct sim_bed bed = bed_open("memory:1MiB");
    void *p, *q, *r;
    uint64_t left, total;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, (1 << 20) - 4096, &p));
    REQUIRE_OK(bed.ops->memory_info(bed.sim, 0, &left, &total));
    EXPECT_EQ(left, 4096);
    EXPECT_EQ(total, 1 << 20);
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, 4097, &q), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "8192");
    EXPECT_HAS(acre_last_error(), "4096 of 1048576");
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, &q));
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, 1, &r), ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 1, 1 << 20, &r));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, q));
    REQUIRE_OK(bed.ops->free(bed.sim, 1, r));
    REQUIRE_OK(bed.ops->memory_info(bed.sim, 0, &left, &total));
    EXPECT_EQ(left, total);
    bed_close(&bed);
}

TEST(a_limit_below_the_capacity_is_where_memory_ends)
{
    struct sim_bed bed = bed_open("memory:1MiB,limit:64KiB");
    void *p;
    uint64_t left, total;

    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, (64 << 10) + 1, &p), ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 64 << 10, &p));
    REQUIRE_OK(bed.ops->memory_info(bed.sim, 0, &left, &total));
    EXPECT_EQ(left, 0);
    EXPECT_EQ(total, 1 << 20);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

TEST(fresh_memory_is_zero_after_use)
{
    struct sim_bed bed = bed_open("memory:1MiB");
    char ones[4096], back[4096], zero[4096] = {0};

    memset(ones, 1, sizeof ones);
    for (int i = 0; i < 50; i++) {
        void *p;

        REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 8192, &p));
        bed_read(&bed, back, (char *)p + 4096, 4096);
        EXPECT(memcmp(back, zero, 4096) == 0);
        bed_write(&bed, (char *)p + 4096, ones, 4096);
        REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    }
    bed_close(&bed);
}

TEST(freed_memory_is_given_back_to_the_system)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    int maps = bed_map_count();
    void *p[16];

    for (int i = 0; i < 16; i++)
        REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 1 << 20, &p[i]));
    EXPECT_GT(bed_map_count(), maps);
    for (int i = 0; i < 16; i++)
        REQUIRE_OK(bed.ops->free(bed.sim, 0, p[i]));
    EXPECT_LE(bed_map_count(), maps);
    for (int i = 0; i < 16; i++)
        bed_expect_gone(p[i]);
    bed_close(&bed);
}

TEST(what_is_left_goes_with_the_backend)
{
    int maps = bed_map_count();
    struct sim_bed bed = bed_open("memory:64MiB");
    void *p, *range, *handle, *multicast, *host;
    int members[] = {0, 1};

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 1 << 20, &p));
    REQUIRE_OK(bed.ops->access_open(bed.sim, p));
    REQUIRE_OK(bed.ops->host_alloc(bed.sim, 1 << 20, &host));
    REQUIRE_OK(bed.ops->host_register(bed.sim, &members, sizeof members));
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 4 * BED_PAGE, &range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_POSIX, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, BED_PAGE, 0, handle));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    REQUIRE_OK(bed.ops->create(bed.sim, 1, BED_PAGE, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, (char *)range + BED_PAGE, BED_PAGE, 0, handle));
    REQUIRE_OK(bed.ops->multicast_create(bed.sim, members, 2, BED_PAGE, &multicast));
    bed_drop(&bed);
    EXPECT_LE(bed_map_count(), maps);
}

/* ---- Every failure leaves no trace --------------------------------------------- */

static acre_status alloc_and_free(struct sim_bed *bed)
{
    void *p;
    acre_status status = bed->ops->alloc(bed->sim, 0, 1 << 20, &p);

    if (status == ACRE_OK)
        REQUIRE_OK(bed->ops->free(bed->sim, 0, p));
    return status;
}

TEST(alloc_survives_each_failing_host_allocation_and_mapping)
{
    struct sim_bed bed = bed_open("memory:64MiB");

    for (unsigned nth = 1, is_done = 0; !is_done; nth++) {
        heap_fail_nth(nth);
        acre_status status = alloc_and_free(&bed);
        is_done = !heap_fail_disarm();
        EXPECT_EQ(status, is_done ? ACRE_OK : ACRE_ERR_HOST_MEMORY);
        bed_expect_empty(&bed);
    }
    for (unsigned nth = 1, is_done = 0; !is_done; nth++) {
        int maps = bed_map_count();

        pages_fail_nth(nth);
        acre_status status = alloc_and_free(&bed);
        is_done = !pages_fail_disarm();
        EXPECT(is_done ? status == ACRE_OK : status != ACRE_OK);
        EXPECT_EQ(bed_map_count(), maps);
        bed_expect_empty(&bed);
    }
    bed_close(&bed);
}

/* ---- Threads ----------------------------------------------------------------------- */

static void *churn(void *arg)
{
    struct sim_bed *bed = arg;
    uint64_t state = t_seed() ^ (uintptr_t)&state;

    for (uint64_t i = 0; i < t_count(300, 20000); i++) {
        uint64_t value = t_random(&state), back = 0;
        size_t bytes = 8 + value % 20000;
        void *p;

        if (bed->ops->alloc(bed->sim, (int)(value >> 60) & 1, bytes, &p) != ACRE_OK)
            continue;
        bed_write(bed, p, &value, sizeof value);
        bed_read(bed, &back, p, sizeof back);
        EXPECT_EQ(back, value);
        EXPECT_EQ(bed->ops->free(bed->sim, (int)(value >> 60) & 1, p), ACRE_OK);
    }
    return NULL;
}

TEST(threads_allocate_at_the_same_time)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, churn, &bed), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    bed_close(&bed);
}

T_MAIN()
