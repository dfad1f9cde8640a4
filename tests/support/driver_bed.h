/* SPDX-License-Identifier: MIT */
/* A driver backend over a fresh stand-in of its vendor's library: two reference
 * devices of a gigabyte each. */
#ifndef TESTS_SUPPORT_DRIVER_BED_H
#define TESTS_SUPPORT_DRIVER_BED_H

#include "driver/vendor/cuda.h"
#include "driver/vendor/hip.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"

#include <acre/device.h>

#include <unistd.h>

/* Tells the backend to use the stand-in; false when that was not built. */
static inline bool bed_is_built(const struct vendor *vendor)
{
    standin_use_vendor(vendor->name);
    return access(standin_path(vendor->name), R_OK) == 0;
}

static inline struct standin_control bed_control(const struct vendor *vendor)
{
    return standin_open(standin_path(vendor->name));
}

static inline acre_status bed_open(const struct vendor *vendor, acre_backend **out)
{
    if (!bed_is_built(vendor))
        T_SKIP("the stand-in for %s was not built", vendor->name);
    REQUIRE_EQ(bed_control(vendor).restart("devices:2,memory:1GiB"), 0);
    return driver_start(vendor, out);
}

/* Unregisters the backend; nothing may be held then, and the stand-in's threads end. */
static inline void bed_close(const struct vendor *vendor, acre_backend *backend)
{
    acre_backend_unregister(backend);
    EXPECT_EQ(bed_control(vendor).restart(NULL), 0);
}

/* A test that runs in a child. */
#define TEST_IN_CHILD(name)                                                    \
    static void name##_body(void *unused);                                     \
    TEST(name)                                                                 \
    {                                                                          \
        if (!bed_is_built(&vendor_cuda) || !bed_is_built(&vendor_hip))           \
            T_SKIP("the stand-ins were not built");                            \
        EXPECT_EQ(t_child(name##_body, NULL), 0);                              \
    }                                                                          \
    static void name##_body(__attribute__((unused)) void *unused)

static inline acre_device *device_of(acre_backend *backend, int index)
{
    acre_device *device;

    REQUIRE_OK(acre_backend_device(backend, index, &device));
    return device;
}

static inline struct standin_live live_now(const struct vendor *vendor)
{
    struct standin_live out;

    bed_control(vendor).live(&out);
    return out;
}

/* Everything the stand-in's callers hold, contexts apart. */
static inline uint64_t bed_held(const struct vendor *vendor)
{
    struct standin_live held;
    uint64_t sum = bed_control(vendor).live(&held);

    return sum - held.contexts;
}

#endif
