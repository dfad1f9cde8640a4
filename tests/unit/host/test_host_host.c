/* SPDX-License-Identifier: MIT */
/* The backend "host": what it offers beyond the common suite. */
#include "tests/support/t.h"

#include <acre/acre.h>

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
