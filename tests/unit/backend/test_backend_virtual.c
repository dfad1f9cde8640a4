/* SPDX-License-Identifier: MIT */
/* Virtual memory, sharing, multicast, capture: what the public calls refuse never
 * reaches the backend. */
#include "backend/device.h"

#include "tests/support/sim_pair.h"
#include "tests/support/tracing_backend.h"

static acre_backend *inner, *traced;
static acre_device *device;
static size_t page;

static void begin(void)
{
    const struct wrap_config config = {.name = "traced", .type = ACRE_DEVICE_OPENCL};

    inner = sim_pair("inner", ACRE_DEVICE_PRIVATE, ACRE_STREAM_CODEC_REFERENCE);
    REQUIRE_OK(tracing_create(inner, &config, &traced));
    REQUIRE_OK(acre_backend_device(traced, 0, &device));
    page = device->info.page_bytes;
    tracing_reset(traced);
}

static void end(void)
{
    acre_backend_unregister(traced);
    acre_backend_unregister(inner);
}

TEST(ranges_that_are_not_whole_pages_stop_here)
{
    void *out = NULL, *aligned, *handle = &out;

    begin();
    aligned = (void *)(16 * page);
    EXPECT_EQ(acre_virtual_reserve(device, 0, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_reserve(device, page - 1, &out), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "page size");
    EXPECT_EQ(acre_virtual_unreserve(device, NULL, page), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_unreserve(device, (char *)aligned + 1, page), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_unreserve(device, aligned, SIZE_MAX - page + 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_create(device, page + 1, ACRE_HANDLE_NONE, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_create(device, page, (acre_handle_type)-1, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_map(device, aligned, page, page, handle), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "offset");
    EXPECT_EQ(acre_virtual_map(device, aligned, page / 2, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_map(device, aligned, page, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_unmap(device, aligned, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_set_access(device, aligned, page, 2, ACRE_ACCESS_READ),
              ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "[0, 2)");
    EXPECT_EQ(acre_virtual_set_access(device, aligned, page, 0, (acre_access)2),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_release(device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(tracing_at(traced, 0), WRAP_ENTRY_COUNT);
    EXPECT_PTR_EQ(out, NULL);
    end();
}

TEST(bad_handles_and_members_stop_here)
{
    acre_device *pair[2], *cpu;
    uint64_t bytes = 0;
    void *out = NULL;
    int fd = -1;

    begin();
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &cpu));
    EXPECT_EQ(acre_handle_export_fd(device, NULL, &fd), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_handle_export_fd(device, &out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_handle_import_fd(device, -1, &out, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_handle_import_fd(device, 0, NULL, &bytes), ACRE_ERR_INVALID);
    pair[0] = pair[1] = device;
    EXPECT_EQ(acre_multicast_create(pair, 2, page, &out), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "twice");
    pair[1] = cpu;
    EXPECT_EQ(acre_multicast_create(pair, 2, page, &out), ACRE_ERR_UNSUPPORTED);
    pair[1] = NULL;
    EXPECT_EQ(acre_multicast_create(pair, 2, page, &out), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_backend_device(inner, 1, &pair[1]));
    EXPECT_EQ(acre_multicast_create(pair, 2, page, &out), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "inner");
    EXPECT_EQ(acre_multicast_create(pair, 0, page, &out), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_multicast_create(pair, 1, page + 1, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_multicast_bind(device, NULL, 0, &out, page), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_multicast_bind(device, &out, 0, NULL, page), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_multicast_release(device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_capture_end(device, &out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_capture_info_get(device, &out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_capture_dependencies(device, 1, 1, NULL, 4, (uint32_t *)&fd),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_graph_launch(device, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_graph_destroy(device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(tracing_at(traced, 0), WRAP_ENTRY_COUNT);
    EXPECT_PTR_EQ(out, NULL);
    end();
}

T_MAIN()
