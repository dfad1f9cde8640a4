/* SPDX-License-Identifier: MIT */
/* The driver backends over the stand-ins: what a driver does not take back, and what children of
 * fork must not give back. Each test meets a fresh stand-in in a child process. */
#include "driver/driver.h"

#include "backend/backend.h"
#include "driver/graph.h"
#include "driver/memory.h"
#include "driver/pool.h"
#include "driver/stream.h"
#include "driver/virtual.h"
#include "tests/support/driver_bed.h"

#include <acre/acre.h>

#define EXPECT_OK(call) EXPECT_EQ(call, ACRE_OK)

/* ---- What a driver does not take back ----------------------------------------------------- */

/* Each half of a graph is refused once, as often as the driver is asked; it stays a graph until
 * all of it is gone. */
static void refuse_graph(const struct vendor *vendor, const char *half, const char *other)
{
    struct standin_control control;
    acre_backend *backend;
    void *stream, *graph;

    REQUIRE_OK(bed_open(vendor, &backend));
    control = bed_control(vendor);
    acre_device *device = device_of(backend, 0);
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    REQUIRE_OK(acre_capture_begin(device, stream));
    REQUIRE_OK(acre_capture_end(device, stream, &graph));
    control.fail(half, 1, STANDIN_UNKNOWN);
    control.fail(half, 1, STANDIN_UNKNOWN); /* the call after that one */
    control.fail(other, 1, STANDIN_UNKNOWN);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(acre_graph_destroy(device, graph), ACRE_ERR_DEVICE);
        EXPECT_OK(acre_graph_launch(device, graph, stream));
    }
    EXPECT_OK(acre_graph_destroy(device, graph));
    EXPECT_EQ(control.fail_end(), 3);
    EXPECT_EQ(acre_graph_destroy(device, graph), ACRE_ERR_INVALID);
    EXPECT_EQ(live_now(vendor).graphs, 0);
    EXPECT_OK(acre_stream_native_destroy(device, stream));
    bed_close(vendor, backend);
}

TEST_IN_CHILD(a_graph_that_is_refused_can_be_destroyed_again)
{
    refuse_graph(&vendor_cuda, "cuGraphExecDestroy", "cuGraphDestroy");
    refuse_graph(&vendor_cuda, "cuGraphDestroy", "cuGraphExecDestroy");
    refuse_graph(&vendor_hip, "hipGraphExecDestroy", "hipGraphDestroy");
}

TEST_IN_CHILD(leftovers_go_back_although_one_is_refused)
{
    struct standin_live live;
    acre_backend *backend;
    void *base;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(acre_device_alloc(device_of(backend, 0), 4096, &base));
    bed_control(&vendor_cuda).fail("cuMemFree_v2", 1, STANDIN_UNKNOWN);
    acre_backend_unregister(backend);
    EXPECT_EQ(bed_control(&vendor_cuda).fail_end(), 1);
    bed_control(&vendor_cuda).live(&live);
    EXPECT_EQ(live.allocations, 1);
}

/* ---- Fork ------------------------------------------------------------------------------------ */

static void use_in_child(void *backend)
{
    acre_device *device = &((acre_backend *)backend)->devices[0];
    void *base;

    EXPECT_EQ(acre_backend_device(backend, 0, &device), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_device_alloc(device, 4096, &base), ACRE_ERR_FORKED);
    EXPECT_EQ(drv_memory_alloc(device->self, 0, 4096, &base), ACRE_ERR_FORKED);
    acre_backend_unregister(backend);
}

TEST_IN_CHILD(a_child_of_fork_is_told)
{
    acre_backend *backend;
    void *base;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    REQUIRE_OK(acre_device_alloc(device_of(backend, 0), 4096, &base));
    EXPECT_EQ(t_child(use_in_child, backend), 0);
    REQUIRE_OK(acre_device_free(device_of(backend, 0), base));
    bed_close(&vendor_cuda, backend);
}

/* What a parent holds, and gives back when a child has tried to. */
struct holdings {
    acre_device *device;
    void *base, *stream, *event, *addresses, *memory, *graph, *pinned, *ordered;
    const struct vendor *vendor;
};

#define PAGE ((size_t)2 << 20)

static void give_back(const struct holdings *held, acre_status expected)
{
    void *self = held->device->self;

    EXPECT_EQ(drv_pool_free(self, 0, held->ordered, held->stream), expected);
    EXPECT_EQ(drv_virtual_unmap(self, 0, held->addresses, PAGE), expected);
    EXPECT_EQ(drv_virtual_release(self, 0, held->memory), expected);
    EXPECT_EQ(drv_virtual_unreserve(self, 0, held->addresses, PAGE), expected);
    EXPECT_EQ(drv_graph_destroy(self, 0, held->graph), expected);
    EXPECT_EQ(drv_event_destroy(self, 0, held->event), expected);
    EXPECT_EQ(drv_stream_destroy(self, 0, held->stream), expected);
    EXPECT_EQ(drv_memory_host_free(self, held->pinned), expected);
    EXPECT_EQ(drv_memory_free(self, 0, held->base), expected);
}

/* In a child the backend's table refuses every call; each function refuses for itself, too. */
static void give_back_in_child(void *holdings)
{
    const struct holdings *held = holdings;
    uint64_t calls = bed_control(held->vendor).calls(NULL);

    give_back(held, ACRE_ERR_FORKED);
    EXPECT_EQ(bed_control(held->vendor).calls(NULL), calls);
}

static void forked_give_back(const struct vendor *vendor)
{
    struct holdings held = {.vendor = vendor};
    acre_backend *backend;

    REQUIRE_OK(bed_open(vendor, &backend));
    held.device = device_of(backend, 0);
    const acre_backend_ops *ops = held.device->ops;
    void *self = held.device->self;
    REQUIRE_OK(ops->alloc(self, 0, 4096, &held.base));
    REQUIRE_OK(ops->stream_create(self, 0, 0, 0, &held.stream));
    REQUIRE_OK(ops->event_create(self, 0, 0, &held.event));
    REQUIRE_OK(ops->reserve(self, 0, PAGE, &held.addresses));
    REQUIRE_OK(ops->create(self, 0, PAGE, ACRE_HANDLE_NONE, &held.memory));
    REQUIRE_OK(ops->map(self, 0, held.addresses, PAGE, 0, held.memory));
    REQUIRE_OK(ops->capture_begin(self, 0, held.stream));
    REQUIRE_OK(ops->capture_end(self, 0, held.stream, &held.graph));
    REQUIRE_OK(ops->host_alloc(self, 4096, &held.pinned));
    REQUIRE_OK(ops->async_alloc(self, 0, 4096, held.stream, &held.ordered));
    EXPECT_EQ(t_child(give_back_in_child, &held), 0);
    give_back(&held, ACRE_OK);
    bed_close(vendor, backend);
}

TEST_IN_CHILD(a_child_of_fork_gives_nothing_back)
{
    forked_give_back(&vendor_cuda);
    forked_give_back(&vendor_hip);
}

T_MAIN()
