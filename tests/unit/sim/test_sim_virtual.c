/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

#include <pthread.h>

#define P BED_PAGE

TEST(one_handle_at_two_addresses_is_the_same_memory)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *a, *b, out = 0;
    void *handle;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 2 * P, (void **)&a));
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, P, (void **)&b));
    EXPECT_EQ((uintptr_t)a % P, 0);
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a, P, 0, handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a + P, P, 0, handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, b, P, 0, handle));
    EXPECT_EQ(bed_usage(&bed).bytes_used, P);
    EXPECT_EQ(bed_usage(&bed).map_count, 3);
    bed_write(&bed, a + 123, "x", 1);
    bed_read(&bed, &out, a + P + 123, 1);
    EXPECT_EQ(out, 'x');
    bed_read(&bed, &out, b + 123, 1);
    EXPECT_EQ(out, 'x');
    EXPECT(t_faults(bed_touch, a));
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a, 2 * P));
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, b, P));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, a, 2 * P));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, b, P));
    bed_close(&bed);
}

TEST(a_released_handle_lives_while_mapped)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *a, out = 0;
    void *handle;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, P, (void **)&a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a, P, 0, handle));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    EXPECT_EQ(bed.ops->release(bed.sim, 0, handle), ACRE_ERR_INVALID);
    bed_write(&bed, a, "y", 1);
    bed_read(&bed, &out, a, 1);
    EXPECT_EQ(out, 'y');
    EXPECT_EQ(bed_usage(&bed).bytes_used, P);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a, P));
    EXPECT_EQ(bed_usage(&bed).bytes_used, 0);
    EXPECT_EQ(bed_usage(&bed).handle_count, 0);
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, a, P));
    bed_close(&bed);
}

TEST(map_refuses_what_a_driver_refuses)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *a;
    void *handle, *plain;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 4 * P, (void **)&a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, 2 * P, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4 * P, &plain));
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 2 * P, P, handle), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "offset");
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, P, 0, handle), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "whole handle");
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 3 * P, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 2 * P - 1, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 0, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a + 4096, 2 * P, 0, handle), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "page");
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a + 3 * P, 2 * P, 0, handle), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "run past");
    EXPECT_EQ(bed.ops->map(bed.sim, 1, a, 2 * P, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, plain, 2 * P, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, NULL, 2 * P, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 2 * P, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 2 * P, 0, &bed), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 2 * P, 0, (char *)handle + 2), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a + P, 2 * P, 0, handle));
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, 2 * P, 0, handle), ACRE_ERR_EXISTS);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a + 2 * P, 2 * P, 0, handle), ACRE_ERR_EXISTS);
    EXPECT_EQ(bed_usage(&bed).map_count, 1);
    bed_drop(&bed);
}

TEST(unmap_takes_whole_mappings_only)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *a;
    void *two, *one;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 8 * P, (void **)&a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, 2 * P, ACRE_HANDLE_NONE, &two));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &one));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a, 2 * P, 0, two));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a + 2 * P, P, 0, one));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a + 4 * P, P, 0, one));
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a + P, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a + P, 2 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, 5 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, 4 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a + 3 * P, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, SIZE_MAX), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, SIZE_MAX - P + 1), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 1, a, 2 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, &bed, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed_usage(&bed).map_count, 3);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a, 3 * P));
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, 3 * P), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a + 4 * P, P));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, one));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, two));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, a, 8 * P));
    bed_close(&bed);
}

TEST(reservations_are_returned_whole_and_empty)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *a;
    void *handle, *plain, *p = &bed;
    int maps = bed_map_count();

    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, 0, &p), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, P + 4096, &p), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, SIZE_MAX, &p), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, SIZE_MAX - P + 1, &p), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, (size_t)1 << 50, &p), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->reserve(bed.sim, 7, P, &p), ACRE_ERR_RANGE);
    EXPECT_PTR_EQ(p, &bed);
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 2 * P, (void **)&a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a + P, P, 0, handle));
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, a, 2 * P), ACRE_ERR_STATE);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a + P, P));
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, a, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, a + P, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 1, a, 2 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, &bed, 2 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, NULL, 2 * P), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, P, &plain));
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, plain, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->free(bed.sim, 0, a), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, a, 2 * P));
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, a, 2 * P), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, plain));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    EXPECT_LE(bed_map_count(), maps);
    bed_close(&bed);
}

TEST(access_is_granted_to_linked_devices_over_whole_mappings)
{
    struct sim_bed bed = bed_open("devices:4,memory:64MiB,peers:pair");
    char *a;
    void *handle;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 2 * P, (void **)&a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &handle));
    EXPECT_EQ(bed.ops->set_access(bed.sim, 0, a, P, 0, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a, P, 0, handle));
    EXPECT_EQ(bed.ops->set_access(bed.sim, 0, a, 2 * P, 0, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->set_access(bed.sim, 0, a, P, 2, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "no link");
    EXPECT_EQ(bed.ops->set_access(bed.sim, 0, a, P, 4, ACRE_ACCESS_READ), ACRE_ERR_RANGE);
    EXPECT_EQ(bed.ops->set_access(bed.sim, 0, a, P, 1, (acre_access)2), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->set_access(bed.sim, 1, a, P, 1, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->set_access(bed.sim, 0, a, P, 1, ACRE_ACCESS_READ_WRITE));
    REQUIRE_OK(bed.ops->set_access(bed.sim, 0, a, P, 1, ACRE_ACCESS_NONE));
    struct sim_pin pin;
    REQUIRE_OK(sim_pin(bed.sim, a, P, &pin));
    EXPECT_EQ(pin.readers | pin.writers, 0);
    sim_unpin(bed.sim, &pin);
    /* Access does not survive unmapping. */
    REQUIRE_OK(bed.ops->set_access(bed.sim, 0, a, P, 1, ACRE_ACCESS_READ_WRITE));
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a, P));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a, P, 0, handle));
    REQUIRE_OK(sim_pin(bed.sim, a, P, &pin));
    EXPECT_EQ(pin.readers | pin.writers, 0);
    sim_unpin(bed.sim, &pin);
    bed_drop(&bed);
}

/* ---- Every failure leaves no trace --------------------------------------------------- */

/* Runs through virtual memory and undoes what was done; the first failure. */
static acre_status tour(struct sim_bed *bed)
{
    void *a, *handle;
    acre_status status = bed->ops->reserve(bed->sim, 0, 2 * P, &a);

    if (status != ACRE_OK)
        return status;
    status = bed->ops->create(bed->sim, 0, P, ACRE_HANDLE_POSIX, &handle);
    if (status != ACRE_OK)
        goto unreserve;
    status = bed->ops->map(bed->sim, 0, a, P, 0, handle);
    if (status != ACRE_OK)
        goto release;
    acre_status opened = bed->ops->access_open(bed->sim, a);
    status = bed->ops->unmap(bed->sim, 0, a, P);
    if (status != ACRE_OK) /* a second attempt succeeds */
        REQUIRE_OK(bed->ops->unmap(bed->sim, 0, a, P));
    status = status ? status : opened;
release:
    REQUIRE_OK(bed->ops->release(bed->sim, 0, handle));
unreserve:
    REQUIRE_OK(bed->ops->unreserve(bed->sim, 0, a, 2 * P));
    return status;
}

TEST(virtual_memory_survives_each_failing_host_allocation_and_mapping)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    int fds = t_fd_count();

    for (unsigned nth = 1, is_done = 0; !is_done; nth++) {
        heap_fail_nth(nth);
        acre_status status = tour(&bed);
        is_done = !heap_fail_disarm();
        EXPECT_EQ(status, is_done ? ACRE_OK : ACRE_ERR_HOST_MEMORY);
        bed_expect_empty(&bed);
    }
    for (unsigned nth = 1, is_done = 0; !is_done; nth++) {
        int maps = bed_map_count();

        pages_fail_nth(nth);
        acre_status status = tour(&bed);
        is_done = !pages_fail_disarm();
        EXPECT(is_done ? status == ACRE_OK : status != ACRE_OK);
        EXPECT_LE(bed_map_count(), maps);
        EXPECT_EQ(t_fd_count(), fds);
        bed_expect_empty(&bed);
    }
    bed_close(&bed);
}

/* ---- Threads --------------------------------------------------------------------------- */

struct churner {
    struct sim_bed *bed;
    char *range; /* shared by all threads, 8 pages; each has two */
    int number;
};

static void *churn(void *arg)
{
    struct churner *self = arg;
    struct sim_bed *bed = self->bed;
    char *at = self->range + (size_t)self->number * 2 * P;

    for (uint64_t i = 0; i < t_count(100, 5000); i++) {
        uint64_t out = 0;
        void *handle;

        EXPECT_EQ(bed->ops->create(bed->sim, 0, P, ACRE_HANDLE_NONE, &handle), ACRE_OK);
        EXPECT_EQ(bed->ops->map(bed->sim, 0, at, P, 0, handle), ACRE_OK);
        EXPECT_EQ(bed->ops->map(bed->sim, 0, at + P, P, 0, handle), ACRE_OK);
        EXPECT_EQ(bed->ops->release(bed->sim, 0, handle), ACRE_OK);
        bed_write(bed, at + 8 * i % 4096, &i, sizeof i);
        bed_read(bed, &out, at + P + 8 * i % 4096, sizeof out);
        EXPECT_EQ(out, i);
        if (i % 3 == 0)
            EXPECT_EQ(bed->ops->access_open(bed->sim, at), ACRE_OK);
        EXPECT_EQ(bed->ops->unmap(bed->sim, 0, at, 2 * P), ACRE_OK);
    }
    return NULL;
}

TEST(threads_map_at_the_same_time)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    struct churner churners[4];
    pthread_t threads[4];
    void *range;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 8 * P, &range));
    for (int i = 0; i < 4; i++) {
        churners[i] = (struct churner){&bed, range, i};
        REQUIRE_EQ(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, 8 * P));
    bed_close(&bed);
}

T_MAIN()
