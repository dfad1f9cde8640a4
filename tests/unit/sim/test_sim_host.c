/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

TEST(host_memory_is_plain_memory_that_is_known)
{
    struct sim_bed bed = bed_open("");
    acre_pointer_info info = {.struct_size = sizeof info};
    void *p;

    REQUIRE_OK(bed.ops->host_alloc(bed.sim, 5000, &p));
    EXPECT_EQ((uintptr_t)p % 4096, 0);
    memset(p, 7, 8192);
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, (char *)p + 8191, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_HOST);
    EXPECT_EQ(info.device, -1);
    EXPECT_PTR_EQ(info.base, p);
    EXPECT_EQ(info.bytes, 8192);
    REQUIRE_OK(bed.ops->host_free(bed.sim, p));
    EXPECT_EQ(bed.ops->host_free(bed.sim, p), ACRE_ERR_INVALID);
    bed_close(&bed);
}

TEST(host_alloc_refuses_what_cannot_be)
{
    struct sim_bed bed = bed_open("");
    void *p = &bed;

    EXPECT_EQ(bed.ops->host_alloc(bed.sim, 0, &p), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->host_alloc(bed.sim, SIZE_MAX, &p), ACRE_ERR_HOST_MEMORY);
    EXPECT_EQ(bed.ops->host_alloc(bed.sim, (size_t)1 << 60, &p), ACRE_ERR_HOST_MEMORY);
    EXPECT_PTR_EQ(p, &bed);
    EXPECT_EQ(bed.ops->host_free(bed.sim, NULL), ACRE_OK);
    EXPECT_EQ(bed.ops->host_free(bed.sim, &bed), ACRE_ERR_INVALID);
    bed_close(&bed);
}

TEST(host_free_refuses_interior_and_device_memory)
{
    struct sim_bed bed = bed_open("");
    void *host, *device;

    REQUIRE_OK(bed.ops->host_alloc(bed.sim, 8192, &host));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, &device));
    EXPECT_EQ(bed.ops->host_free(bed.sim, (char *)host + 4096), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->host_free(bed.sim, device), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->host_free(bed.sim, host));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, device));
    bed_close(&bed);
}

TEST(registered_memory_is_host_memory_until_unregistered)
{
    struct sim_bed bed = bed_open("");
    static char own[10000];
    acre_pointer_info info = {.struct_size = sizeof info};

    REQUIRE_OK(bed.ops->host_register(bed.sim, own + 10, 5000));
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, own + 5009, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_HOST);
    EXPECT_PTR_EQ(info.base, own + 10);
    EXPECT_EQ(info.bytes, 5000);
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, own + 5010, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_UNMANAGED);
    EXPECT_EQ(bed.ops->host_register(bed.sim, own + 5009, 10), ACRE_ERR_EXISTS);
    EXPECT_EQ(bed.ops->host_register(bed.sim, own, 11), ACRE_ERR_EXISTS);
    EXPECT_EQ(bed.ops->host_unregister(bed.sim, own + 11), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->host_register(bed.sim, own, 10));
    EXPECT_EQ(bed_usage(&bed).host_count, 2);
    REQUIRE_OK(bed.ops->host_unregister(bed.sim, own));
    REQUIRE_OK(bed.ops->host_unregister(bed.sim, own + 10));
    EXPECT_EQ(bed.ops->host_unregister(bed.sim, own + 10), ACRE_ERR_INVALID);
    bed_close(&bed);
}

TEST(register_refuses_no_range_and_own_memory)
{
    struct sim_bed bed = bed_open("");
    void *host;

    REQUIRE_OK(bed.ops->host_alloc(bed.sim, 4096, &host));
    EXPECT_EQ(bed.ops->host_register(bed.sim, NULL, 10), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->host_register(bed.sim, &bed, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->host_register(bed.sim, &bed, SIZE_MAX), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->host_register(bed.sim, (char *)host + 5, 10), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->host_unregister(bed.sim, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->host_free(bed.sim, host));
    bed_close(&bed);
}

TEST(each_failing_host_allocation_leaves_no_trace)
{
    struct sim_bed bed = bed_open("");
    void *p;

    heap_fail_nth(1);
    EXPECT_EQ(bed.ops->host_alloc(bed.sim, 4096, &p), ACRE_ERR_HOST_MEMORY);
    EXPECT(heap_fail_disarm());
    heap_fail_nth(1);
    EXPECT_EQ(bed.ops->host_register(bed.sim, &bed, 8), ACRE_ERR_HOST_MEMORY);
    EXPECT(heap_fail_disarm());
    pages_fail_nth(1);
    EXPECT_EQ(bed.ops->host_alloc(bed.sim, 4096, &p), ACRE_ERR_HOST_MEMORY);
    EXPECT(pages_fail_disarm());
    bed_close(&bed);
}

T_MAIN()
