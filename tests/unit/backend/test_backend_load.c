/* SPDX-License-Identifier: MIT */
#include <acre/acre.h>

#include "tests/support/t.h"

#include <string.h>

TEST(a_library_brings_its_backend)
{
    acre_backend *backend = NULL, *again = NULL;
    acre_device *device;
    void *memory;

    REQUIRE_OK(acre_backend_load(ACRE_TEST_TOY, &backend));
    EXPECT_STR_EQ(acre_backend_name(backend), "toy");
    REQUIRE_OK(acre_backend_load(ACRE_TEST_TOY, &again));
    EXPECT(again == backend);
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_device_alloc(device, 4096, &memory));
    REQUIRE_OK(acre_device_free(device, memory));
    acre_backend_unregister(backend);
}

TEST(what_is_no_backend_is_refused)
{
    acre_backend *backend = NULL;

    EXPECT_EQ(acre_backend_load("libnowhere-at-all.so", &backend), ACRE_ERR_UNSUPPORTED);
    EXPECT(strstr(acre_last_error(), "libnowhere-at-all.so") != NULL);
    EXPECT_EQ(acre_backend_load("libm.so.6", &backend), ACRE_ERR_UNSUPPORTED);
    EXPECT(strstr(acre_last_error(), "acre_backend_describe") != NULL);
    EXPECT_EQ(acre_backend_load(NULL, &backend), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_backend_load("libm.so.6", NULL), ACRE_ERR_INVALID);
    EXPECT(backend == NULL);
}

T_MAIN()
