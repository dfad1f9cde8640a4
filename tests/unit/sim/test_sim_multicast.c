/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

#define P BED_PAGE

static acre_status pin_part(struct sim *sim, void *handle, struct multicast_part part,
                            struct sim_pin *pins, int *out_count)
{
    return sim_multicast_pin(sim, handle, &part, pins, out_count);
}

TEST(create_checks_members_and_size)
{
    struct sim_bed bed = bed_open("devices:3,memory:64MiB");
    int good[] = {2, 0}, twice[] = {1, 1}, wrong[] = {0, 3};
    void *handle = &bed;

    EXPECT_EQ(bed.ops->multicast_create(bed.sim, good, 0, P, &handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_create(bed.sim, NULL, 2, P, &handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_create(bed.sim, twice, 2, P, &handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_create(bed.sim, wrong, 2, P, &handle), ACRE_ERR_RANGE);
    EXPECT_EQ(bed.ops->multicast_create(bed.sim, good, 2, 0, &handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_create(bed.sim, good, 2, P - 1, &handle), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(handle, &bed);
    REQUIRE_OK(bed.ops->multicast_create(bed.sim, good, 2, P, &handle));
    EXPECT_EQ(bed_usage(&bed).handle_count, 1);
    EXPECT_EQ(bed_usage(&bed).bytes_used, 0);
    REQUIRE_OK(bed.ops->multicast_release(bed.sim, handle));
    EXPECT_EQ(bed.ops->multicast_release(bed.sim, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_release(bed.sim, NULL), ACRE_ERR_INVALID);
    bed_close(&bed);
}

TEST(bindings_are_whole_pages_of_the_member)
{
    struct sim_bed bed = bed_open("devices:3,memory:64MiB");
    int members[] = {0, 1};
    void *handle;
    char *m0, *m1, *m2;

    REQUIRE_OK(bed.ops->multicast_create(bed.sim, members, 2, 2 * P, &handle));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 2 * P, (void **)&m0));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 1, 2 * P, (void **)&m1));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 2, 2 * P, (void **)&m2));
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 0, m1, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 2, 0, m2, P), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "not a member");
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 0, &bed, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 0, NULL, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 4096, m0, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 0, m0, P - 1), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 2 * P, m0, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, P, m0, 2 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 0, m0 + P, 2 * P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, m0, 0, 0, m0, P), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->multicast_bind(bed.sim, handle, 0, P, m0, P));
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 0, m0, 2 * P), ACRE_ERR_EXISTS);
    REQUIRE_OK(bed.ops->multicast_bind(bed.sim, handle, 1, 0, m1, 2 * P));
    EXPECT_EQ(bed.ops->multicast_release(bed.sim, handle), ACRE_ERR_BUSY);
    EXPECT_EQ(bed.ops->multicast_unbind(bed.sim, handle, 1, 0, P), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_unbind(bed.sim, handle, 0, 0, P), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->multicast_unbind(bed.sim, handle, 1, 0, 2 * P));
    REQUIRE_OK(bed.ops->multicast_unbind(bed.sim, handle, 0, P, P));
    REQUIRE_OK(bed.ops->multicast_release(bed.sim, handle));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, m0));
    REQUIRE_OK(bed.ops->free(bed.sim, 1, m1));
    REQUIRE_OK(bed.ops->free(bed.sim, 2, m2));
    bed_close(&bed);
}

TEST(a_write_needs_memory_of_every_member)
{
    struct sim_bed bed = bed_open("devices:3,memory:64MiB");
    struct sim_pin pins[SIM_DEVICES_MAX];
    int members[] = {0, 2}, count = -1;
    void *handle;
    char *m0, *m2, out = 0;

    REQUIRE_OK(bed.ops->multicast_create(bed.sim, members, 2, 2 * P, &handle));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 2 * P, (void **)&m0));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 2, 2 * P, (void **)&m2));
    REQUIRE_OK(bed.ops->multicast_bind(bed.sim, handle, 0, 0, m0, 2 * P));
    EXPECT_EQ(pin_part(bed.sim, handle, (struct multicast_part){0, 0, 8}, pins, &count),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "device 2 has not bound");
    REQUIRE_OK(bed.ops->multicast_bind(bed.sim, handle, 2, P, m2, P));
    EXPECT_EQ(pin_part(bed.sim, handle, (struct multicast_part){0, P - 4, 8}, pins, &count),
              ACRE_ERR_INVALID);
    EXPECT_EQ(pin_part(bed.sim, handle, (struct multicast_part){1, P, 8}, pins, &count),
              ACRE_ERR_INVALID);
    EXPECT_EQ(pin_part(bed.sim, handle, (struct multicast_part){0, 2 * P, 8}, pins, &count),
              ACRE_ERR_INVALID);
    EXPECT_EQ(pin_part(bed.sim, handle, (struct multicast_part){0, P, SIZE_MAX}, pins, &count),
              ACRE_ERR_INVALID);
    EXPECT_EQ(pin_part(bed.sim, handle, (struct multicast_part){0, P, 0}, pins, &count),
              ACRE_ERR_INVALID);
    EXPECT_EQ(count, -1);
    REQUIRE_OK(pin_part(bed.sim, handle, (struct multicast_part){0, P + 16, 8}, pins, &count));
    REQUIRE_EQ(count, 2);
    for (int i = 0; i < count; i++) {
        memset(pins[i].address, 'm', 8);
        sim_unpin(bed.sim, &pins[i]);
    }
    bed_read(&bed, &out, m0 + P + 16, 1);
    EXPECT_EQ(out, 'm');
    bed_read(&bed, &out, m2 + 16, 1);
    EXPECT_EQ(out, 'm');
    /* Bound memory that is gone makes the write fail, and nothing stays pinned. */
    REQUIRE_OK(bed.ops->free(bed.sim, 2, m2));
    EXPECT_EQ(pin_part(bed.sim, handle, (struct multicast_part){0, P, 8}, pins, &count),
              ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, m0));
    REQUIRE_OK(bed.ops->multicast_unbind(bed.sim, handle, 0, 0, 2 * P));
    REQUIRE_OK(bed.ops->multicast_unbind(bed.sim, handle, 2, P, P));
    REQUIRE_OK(bed.ops->multicast_release(bed.sim, handle));
    bed_close(&bed);
}

TEST(each_failing_host_allocation_leaves_no_trace)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    int members[] = {0};
    void *handle, *memory;

    heap_fail_nth(1);
    EXPECT_EQ(bed.ops->multicast_create(bed.sim, members, 1, P, &handle), ACRE_ERR_HOST_MEMORY);
    EXPECT(heap_fail_disarm());
    heap_fail_nth(2);
    EXPECT_EQ(bed.ops->multicast_create(bed.sim, members, 1, P, &handle), ACRE_ERR_HOST_MEMORY);
    EXPECT(heap_fail_disarm());
    REQUIRE_OK(bed.ops->multicast_create(bed.sim, members, 1, P, &handle));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, P, &memory));
    heap_fail_nth(1);
    EXPECT_EQ(bed.ops->multicast_bind(bed.sim, handle, 0, 0, memory, P), ACRE_ERR_HOST_MEMORY);
    EXPECT(heap_fail_disarm());
    REQUIRE_OK(bed.ops->multicast_release(bed.sim, handle));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, memory));
    bed_close(&bed);
}

T_MAIN()
