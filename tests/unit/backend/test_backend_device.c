/* SPDX-License-Identifier: MIT */
/* Public calls on devices: D77, arguments, type names. */
#include "backend/device.h"

#include "tests/support/gate.h"
#include "tests/support/sim_pair.h"
#include "tests/support/small_backend.h"

#define TYPE ACRE_DEVICE_PRIVATE

static void set_flag(void *flag)
{
    atomic_store((_Atomic int *)flag, 1);
}

TEST(D77_synchronizing_device_1_waits_for_device_1)
{
    acre_backend *backend = sim_pair("sync", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    struct gate gate = {0};
    _Atomic int done = 0;
    acre_stream one, zero;
    acre_device *devices[2];
    void *native;
    int current;

    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_device_get(TYPE, i, &devices[i]));
    REQUIRE_OK(acre_stream_from_pool(TYPE, 1, 0, &one));
    REQUIRE_OK(acre_stream_from_pool(TYPE, 0, 0, &zero));
    REQUIRE_OK(acre_stream_native(zero, &native));
    REQUIRE_OK(acre_launch_host(devices[0], native, gate_task, &gate));
    REQUIRE_OK(acre_stream_native(one, &native));
    for (int i = 0; i < 100; i++)
        REQUIRE_OK(acre_launch_host(devices[1], native, set_flag, &done));
    REQUIRE_OK(acre_device_current(TYPE, &current));
    EXPECT_EQ(current, 0);
    REQUIRE_OK(acre_device_synchronize(devices[1]));
    EXPECT_EQ(done, 1);
    EXPECT(acre_stream_query(one));
    EXPECT(!acre_stream_query(zero));
    gate_open(&gate);
    REQUIRE_OK(acre_device_synchronize(devices[0]));
    EXPECT(acre_stream_query(zero));
    acre_backend_unregister(backend);
}

#define REFUSED(call) EXPECT_EQ(call, ACRE_ERR_INVALID)

TEST(null_devices_are_refused_by_memory_and_streams)
{
    void *out = NULL;
    int number = 0;
    uint64_t bytes = 0;
    double ms;
    acre_device_info info = {.struct_size = sizeof info};
    acre_pointer_info pointer = {.struct_size = sizeof pointer};

    REFUSED(acre_device_info_get(NULL, &info));
    REFUSED(acre_device_memory(NULL, &bytes, &bytes));
    REFUSED(acre_device_free(NULL, &number));
    REFUSED(acre_device_synchronize(NULL));
    REFUSED(acre_stream_native_create(NULL, 0, 0, &out));
    REFUSED(acre_stream_native_destroy(NULL, &number));
    REFUSED(acre_stream_native_query(NULL, &number));
    REFUSED(acre_stream_native_synchronize(NULL, &number));
    REFUSED(acre_stream_native_wait(NULL, &number, &number));
    REFUSED(acre_stream_native_priority(NULL, &number, &number));
    REFUSED(acre_event_native_create(NULL, 0, &out));
    REFUSED(acre_event_native_destroy(NULL, &number));
    REFUSED(acre_event_native_record(NULL, &number, &number));
    REFUSED(acre_event_native_query(NULL, &number));
    REFUSED(acre_event_native_synchronize(NULL, &number));
    REFUSED(acre_event_native_elapsed(NULL, &number, &number, &ms));
    REFUSED(acre_copy(NULL, &number, &bytes, 4, ACRE_COPY_HOST_TO_HOST));
    REFUSED(acre_copy_async(NULL, &number, &bytes, 4, ACRE_COPY_HOST_TO_HOST, NULL));
    REFUSED(acre_copy_peer_async(NULL, &number, NULL, &bytes, NULL, 4, NULL));
    REFUSED(acre_fill_async(NULL, &number, 0, 4, NULL));
    REFUSED(acre_launch_host(NULL, NULL, set_flag, NULL));
    REFUSED(acre_launch_kernel(NULL, NULL, NULL, NULL, 0));
    REFUSED(acre_write_value32(NULL, NULL, &number, 0));
    REFUSED(acre_wait_value32(NULL, NULL, &number, 0, ACRE_WAIT_EQ));
    REFUSED(acre_pointer_info_get(NULL, &number, &pointer));
    REFUSED(acre_access_open(NULL, &number));
    REFUSED(acre_access_close(NULL, &number));
    REFUSED(acre_host_alloc(NULL, 1, &out));
    REFUSED(acre_host_free(NULL, &number));
    REFUSED(acre_host_register(NULL, &number, 4));
    REFUSED(acre_host_unregister(NULL, &number));
    EXPECT(!acre_host_is_pinned(NULL, &number));
    EXPECT_EQ(acre_device_id_of(NULL).index, -1);
    EXPECT(acre_kernel_pointer(NULL, &number, 4) == NULL);
    EXPECT_PTR_EQ(out, NULL);
}

TEST(null_devices_are_refused_by_the_rest)
{
    void *out = NULL;
    int number = 0;
    uint64_t bytes = 0;
    uint8_t handle[64] = {0};
    acre_device *none[1] = {NULL};
    acre_capture_info capture = {.struct_size = sizeof capture};

    REFUSED(acre_virtual_reserve(NULL, 4096, &out));
    REFUSED(acre_virtual_unreserve(NULL, &number, 4096));
    REFUSED(acre_virtual_create(NULL, 4096, ACRE_HANDLE_NONE, &out));
    REFUSED(acre_virtual_release(NULL, &number));
    REFUSED(acre_virtual_map(NULL, &number, 4096, 0, &number));
    REFUSED(acre_virtual_unmap(NULL, &number, 4096));
    REFUSED(acre_virtual_set_access(NULL, &number, 4096, 0, ACRE_ACCESS_READ));
    REFUSED(acre_handle_export_fd(NULL, &number, &number));
    REFUSED(acre_handle_import_fd(NULL, 0, &out, &bytes));
    REFUSED(acre_ipc_export(NULL, &number, handle));
    REFUSED(acre_ipc_open(NULL, handle, &out, &bytes));
    REFUSED(acre_ipc_close(NULL, &number));
    REFUSED(acre_multicast_create(none, 1, 4096, &out));
    REFUSED(acre_multicast_bind(NULL, &number, 0, &number, 4096));
    REFUSED(acre_multicast_unbind(NULL, &number, 0, 4096));
    REFUSED(acre_multicast_write_async(NULL, &number, 0, &number, 4, NULL));
    REFUSED(acre_multicast_release(NULL, &number));
    REFUSED(acre_capture_begin(NULL, &number));
    REFUSED(acre_capture_end(NULL, &number, &out));
    REFUSED(acre_capture_info_get(NULL, &number, &capture));
    REFUSED(acre_capture_dependencies(NULL, 0, 0, NULL, 0, (uint32_t *)&number));
    REFUSED(acre_graph_launch(NULL, &number, NULL));
    REFUSED(acre_graph_destroy(NULL, &number));
    REFUSED(acre_device_get(TYPE, 0, NULL));
    REFUSED(acre_device_get((acre_device_type)-1, 0, none));
    REFUSED(acre_device_get((acre_device_type)22, 0, none));
    EXPECT_PTR_EQ(out, NULL);
}

TEST(index_minus_one_is_the_current_device)
{
    acre_backend *backend = sim_pair("current", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    acre_device *device;

    REQUIRE_OK(acre_device_set(TYPE, 1));
    REQUIRE_OK(acre_device_get(TYPE, -1, &device));
    EXPECT_EQ(device->index, 1);
    acre_backend_unregister(backend);
}

TEST(sizes_are_rounded_up_to_the_granularity)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend *backend;
    acre_device *device;
    void *base = NULL;

    small.info.alloc_granularity = 1 << 16;
    REQUIRE_OK(small_register("mine", ACRE_DEVICE_OPENCL, &small, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    uint64_t before = small.next;
    REQUIRE_OK(acre_device_alloc(device, 1, &base));
    EXPECT_EQ(small.next - before, 1 << 16);
    EXPECT_EQ(acre_device_alloc(device, SIZE_MAX - 100, &base), ACRE_ERR_DEVICE_MEMORY);
    acre_backend_unregister(backend);
}

TEST(the_private_type_is_named_once)
{
    EXPECT_STR_EQ(acre_device_type_name(ACRE_DEVICE_CPU), "cpu");
    EXPECT_STR_EQ(acre_device_type_name(ACRE_DEVICE_CUDA), "cuda");
    EXPECT_STR_EQ(acre_device_type_name(ACRE_DEVICE_OPENCL), "opencl");
    EXPECT_STR_EQ(acre_device_type_name(ACRE_DEVICE_HIP), "hip");
    EXPECT_STR_EQ(acre_device_type_name(ACRE_DEVICE_PRIVATE), "openreg");
    EXPECT_STR_EQ(acre_device_type_name((acre_device_type)21), "unknown");
    EXPECT_EQ(acre_device_type_rename(ACRE_DEVICE_CUDA, "mine"), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_type_rename(ACRE_DEVICE_PRIVATE, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_type_rename(ACRE_DEVICE_PRIVATE, ""), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_type_rename(ACRE_DEVICE_PRIVATE, "Mine!"), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_type_rename(ACRE_DEVICE_PRIVATE,
                                      "a_name_that_is_longer_than_31_bytes"), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_device_type_rename(ACRE_DEVICE_PRIVATE, "npu"));
    REQUIRE_OK(acre_device_type_rename(ACRE_DEVICE_PRIVATE, "npu"));
    EXPECT_EQ(acre_device_type_rename(ACRE_DEVICE_PRIVATE, "tpu"), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "npu");
    EXPECT_STR_EQ(acre_device_type_name(ACRE_DEVICE_PRIVATE), "npu");
}

T_MAIN()
