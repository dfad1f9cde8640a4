/* SPDX-License-Identifier: MIT */
/* The backend "host": what it offers beyond the common suite. */
#include "base/heap.h"
#include "tests/support/t.h"

#include <acre/acre.h>

#include <sys/mman.h>
#include <unistd.h>

static acre_device *host(void)
{
    acre_device *device;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &device));
    return device;
}

TEST(host_says_what_it_can)
{
    acre_device_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_device_info_get(host(), &info));
    EXPECT_EQ(info.capabilities, ACRE_CAP_COPY | ACRE_CAP_HOST_MEMORY | ACRE_CAP_POINTERS);
    EXPECT_HAS(info.name, "host memory");
    EXPECT_EQ(acre_device_count(ACRE_DEVICE_CPU), 1);
}

TEST(memory_is_zero_and_readable)
{
    unsigned char *base;

    REQUIRE_OK(acre_device_alloc(host(), 10000, (void **)&base));
    EXPECT_EQ((uintptr_t)base % 512, 0);
    for (int i = 0; i < 10000; i++)
        REQUIRE_EQ(base[i], 0);
    memset(base, 1, 10000);
    EXPECT_EQ(acre_device_free(host(), base + 512), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_host_free(host(), base), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_device_free(host(), base));
    EXPECT_EQ(acre_device_free(host(), base), ACRE_ERR_INVALID);
}

TEST(more_than_the_machine_is_refused)
{
    void *base = NULL;

    EXPECT_EQ(acre_device_alloc(host(), (size_t)1 << 60, &base), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_device_alloc(host(), SIZE_MAX, &base), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_host_alloc(host(), SIZE_MAX, &base), ACRE_ERR_HOST_MEMORY);
    EXPECT_EQ(acre_host_alloc(host(), (size_t)1 << 62, &base), ACRE_ERR_HOST_MEMORY);
    EXPECT_PTR_EQ(base, NULL);
}

TEST(registered_memory_is_pinned_until_unregistered)
{
    static char mine[3 * 4096];

    EXPECT(!acre_host_is_pinned(host(), mine));
    REQUIRE_OK(acre_host_register(host(), mine, sizeof mine));
    EXPECT(acre_host_is_pinned(host(), mine + 5000));
    EXPECT(!acre_host_is_pinned(host(), mine + sizeof mine));
    EXPECT_EQ(acre_host_register(host(), mine + 100, 10), ACRE_ERR_EXISTS);
    EXPECT_EQ(acre_host_unregister(host(), mine + 1), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_host_unregister(host(), mine));
    EXPECT(!acre_host_is_pinned(host(), mine));
}

TEST(memory_unmapped_while_registered_is_refused_not_fatal)
{
    acre_device *device = host();
    uint64_t live = heap_live_count();
    const size_t bytes = 64 * 4096;
    void *mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *bases[8];
    int count = 0;
    acre_status status = ACRE_OK;

    REQUIRE(mine != MAP_FAILED);
    REQUIRE_OK(acre_host_register(device, mine, bytes));
    munmap(mine, bytes);
    /* The system gives these addresses again, mostly at once. */
    while (count < 8 && (status = acre_device_alloc(device, bytes, &bases[count])) == ACRE_OK)
        count++;
    EXPECT(status == ACRE_OK || status == ACRE_ERR_EXISTS);
    if (status != ACRE_OK) {
        EXPECT_HAS(acre_last_error(), "overlaps");
        EXPECT(msync(mine, bytes, MS_ASYNC) != 0); /* it is unmapped again */
    }
    REQUIRE_OK(acre_host_unregister(device, mine));
    while (count > 0)
        REQUIRE_OK(acre_device_free(device, bases[--count]));
    REQUIRE_OK(acre_device_alloc(device, bytes, &bases[0]));
    REQUIRE_OK(acre_device_free(device, bases[0]));
    EXPECT_EQ(heap_live_count(), live);
}

static void in_child(void *unused)
{
    void *base;

    (void)unused;
    REQUIRE_OK(acre_device_alloc(host(), 4096, &base));
    REQUIRE_OK(acre_device_free(host(), base));
}

TEST(host_memory_works_in_a_child_of_fork)
{
    host();
    EXPECT_EQ(t_child(in_child, NULL), 0);
}

T_MAIN()
