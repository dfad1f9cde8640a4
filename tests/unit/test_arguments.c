/* SPDX-License-Identifier: MIT */
/* Every call of base.h and backend.h, and the native ones of device.h, with NULL
 * for each pointer, sizes of 0 and SIZE_MAX, numbers out of range and handles that are gone.
 *
 * Each is refused with a status and a sentence of its own, and nothing crashes; where a
 * call has no status its answer is the harmless one that its header promises.
 */
#include "backend/backend.h"
#include "tests/unit/arguments.h"

static void nothing(void *arg)
{
    (void)arg;
}

static void kernel(acre_kernel_context *context, void *args)
{
    (void)context;
    (void)args;
}

/* ---- base.h ---------------------------------------------------------------------- */

static acre_pointer_info pointer_info = {.struct_size = sizeof pointer_info};
static acre_capture_info capture_info = {.struct_size = sizeof capture_info};

TEST(base_answers_whatever_it_is_asked)
{
    EXPECT_STR_EQ(acre_status_name((acre_status)-1), "ACRE_ERR_?");
    EXPECT(acre_status_text((acre_status)12345) != NULL);
    acre_log_set(NULL, NULL, (acre_log_level)99);
    acre_log_set(NULL, NULL, (acre_log_level)-1);
    EXPECT(acre_version()[0] != '\0');
}

/* ---- backend.h -------------------------------------------------------------------- */

TEST(backends_refuse)
{
    acre_backend *backend = NULL;
    acre_backend_desc desc = {0};

    BAD(acre_backend_register(NULL, &backend));
    BAD(acre_backend_register(&desc, &backend));
    desc.struct_size = sizeof desc;
    BAD(acre_backend_register(&desc, &backend));
    desc.name = "arguments";
    BAD(acre_backend_register(&desc, &backend));
    desc.type = (acre_device_type)-1;
    BAD(acre_backend_register(&desc, &backend));
    BAD(acre_backend_find(NULL, &backend));
    BAD(acre_backend_find("sim", NULL));
    BAD(acre_backend_find("", &backend));
    EXPECT_PTR_EQ(backend, NULL);
    acre_backend_unregister(NULL);
    EXPECT_PTR_EQ(acre_backend_name_at(-1), NULL);
    EXPECT_PTR_EQ(acre_backend_name_at(INT32_MAX), NULL);
    EXPECT_STR_EQ(acre_backend_name(NULL), "");
    EXPECT_EQ(acre_backend_type(NULL), ACRE_DEVICE_CPU);
    EXPECT_EQ(acre_backend_device_count(NULL), 0);
    EXPECT_PTR_EQ(acre_kernel_pointer(NULL, host, 1), NULL);
}

/* Unregistering once more is the user's mistake, not a reason to end the process. */
TEST(unregistering_twice_does_nothing)
{
    acre_backend *backend;

    REQUIRE_OK(acre_sim_create(NULL, &backend));
    acre_backend_unregister(backend);
    acre_backend_unregister(backend);
    acre_backend_unregister((acre_backend *)(void *)host);
}

/* ---- device.h: devices -------------------------------------------------------------- */

TEST(devices_refuse)
{
    const acre_device_type none = (acre_device_type)1000;
    acre_device_id id = {ACRE_DEVICE_PRIVATE, 99};
    acre_device *out = NULL;
    uint64_t bytes;
    int index;

    begin();
    BAD(acre_device_get(ACRE_DEVICE_PRIVATE, 0, NULL));
    BAD(acre_device_get(none, 0, &out));
    BAD(acre_device_get((acre_device_type)-1, 0, &out));
    BAD(acre_device_get(ACRE_DEVICE_PRIVATE, -2, &out));
    BAD(acre_device_get(ACRE_DEVICE_PRIVATE, INT32_MAX, &out));
    BAD(acre_backend_device(NULL, 0, &out));
    BAD(acre_backend_device(rig.backend, 0, NULL));
    BAD(acre_backend_device(rig.backend, 2, &out));
    EXPECT_PTR_EQ(out, NULL);
    EXPECT_EQ(acre_device_count(none), 0);
    EXPECT_EQ(acre_device_count((acre_device_type)-1), 0);
    BAD(acre_device_info_get(NULL, &(acre_device_info){.struct_size = sizeof(acre_device_info)}));
    BAD(acre_device_info_get(device, NULL));
    EXPECT_EQ(acre_device_id_of(NULL).index, -1);
    EXPECT(acre_device_type_name(none) != NULL);
    BAD(acre_device_type_rename(ACRE_DEVICE_PRIVATE, NULL));
    BAD(acre_device_type_rename(none, "name"));
    BAD(acre_device_current(ACRE_DEVICE_PRIVATE, NULL));
    BAD(acre_device_current(none, &index));
    BAD(acre_device_set(none, 0));
    BAD(acre_device_set(ACRE_DEVICE_PRIVATE, INT32_MIN));
    BAD(acre_device_exchange(ACRE_DEVICE_PRIVATE, 0, NULL));
    BAD(acre_device_exchange(none, 0, &index));
    BAD(acre_device_maybe_exchange(ACRE_DEVICE_PRIVATE, 0, NULL));
    BAD(acre_device_maybe_exchange(none, 0, &index));
    BAD(backend_current(NULL, &id));
    BAD(backend_current(rig.backend, NULL));
    BAD(backend_set_current(NULL, id));
    BAD(backend_set_current(rig.backend, id));
    BAD(backend_exchange_current(NULL, id, &id));
    BAD(backend_exchange_current(rig.backend, id, NULL));
    BAD(backend_exchange_current(rig.backend, (acre_device_id){none, 0}, &id));
    BAD(acre_device_memory(NULL, &bytes, &bytes));
    BAD(acre_device_memory(device, NULL, &bytes));
    BAD(acre_device_memory(device, &bytes, NULL));
    BAD(acre_device_synchronize(NULL));
    end();
}

TEST(hooks_refuse)
{
    const acre_device_type none = (acre_device_type)1000;
    acre_device_id id;
    int index;

    EXPECT(!acre_hook_is_built(none));
    EXPECT(!acre_hook_is_available(none));
    EXPECT(!acre_hook_has_primary_context(none, 0));
    EXPECT(!acre_hook_has_primary_context(ACRE_DEVICE_PRIVATE, INT32_MAX));
    EXPECT(!acre_hook_is_pinned(none, host));
    EXPECT(!acre_hook_is_pinned(ACRE_DEVICE_PRIVATE, NULL));
    BAD(acre_hook_maybe_exchange_device(none, 0, &index));
    BAD(acre_hook_maybe_exchange_device(ACRE_DEVICE_PRIVATE, 0, NULL));
    BAD(acre_hook_device_of_pointer(none, host, &id));
    BAD(acre_hook_device_of_pointer(ACRE_DEVICE_PRIVATE, NULL, &id));
    BAD(acre_hook_device_of_pointer(ACRE_DEVICE_PRIVATE, host, &id));
    BAD(acre_hook_device_of_pointer(ACRE_DEVICE_PRIVATE, host, NULL));
}

/* ---- device.h: native work ---------------------------------------------------------- */

TEST(memory_refuses)
{
    void *out = NULL;

    begin();
    BAD(acre_device_alloc(NULL, 1, &out));
    BAD(acre_device_alloc(device, 0, &out));
    BAD(acre_device_alloc(device, SIZE_MAX, &out));
    BAD(acre_device_alloc(device, SIZE_MAX - 4096, &out));
    BAD(acre_device_alloc(device, 1, NULL));
    BAD(acre_device_free(NULL, memory));
    BAD(acre_device_free(device, host));
    BAD(acre_device_free(device, (char *)memory + 1));
    BAD(acre_device_free(other, memory));
    BAD(acre_host_alloc(NULL, 1, &out));
    BAD(acre_host_alloc(device, 0, &out));
    BAD(acre_host_alloc(device, SIZE_MAX, &out));
    BAD(acre_host_alloc(device, 1, NULL));
    BAD(acre_host_free(NULL, host));
    BAD(acre_host_free(device, host));
    BAD(acre_host_register(NULL, host, 1));
    BAD(acre_host_register(device, NULL, 1));
    BAD(acre_host_register(device, host, 0));
    BAD(acre_host_register(device, host, SIZE_MAX));
    BAD(acre_host_unregister(NULL, host));
    BAD(acre_host_unregister(device, NULL));
    BAD(acre_host_unregister(device, host));
    EXPECT(!acre_host_is_pinned(NULL, host));
    EXPECT(!acre_host_is_pinned(device, NULL));
    BAD(acre_pointer_info_get(NULL, host, &pointer_info));
    BAD(acre_pointer_info_get(device, NULL, &pointer_info));
    BAD(acre_pointer_info_get(device, host, NULL));
    BAD(acre_access_open(NULL, memory));
    BAD(acre_access_close(NULL, memory));
    BAD(acre_access_close(device, memory));
    EXPECT_PTR_EQ(out, NULL);
    end();
}

TEST(native_streams_and_events_refuse)
{
    void *gone, *out = NULL;
    double ms;
    int priority;

    begin();
    BAD(acre_stream_native_create(NULL, 0, 0, &out));
    BAD(acre_stream_native_create(device, 0, 0, NULL));
    BAD(acre_stream_native_create(device, 0, INT32_MIN, &out));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &gone));
    REQUIRE_OK(acre_stream_native_destroy(device, gone));
    void *bad_streams[] = {gone, host, event, (void *)UINTPTR_MAX};
    for (size_t i = 0; i < sizeof bad_streams / sizeof *bad_streams; i++) {
        void *bad = bad_streams[i];

        BAD(acre_stream_native_destroy(device, bad));
        BAD(acre_stream_native_query(device, bad));
        BAD(acre_stream_native_synchronize(device, bad));
        BAD(acre_stream_native_wait(device, bad, event));
        BAD(acre_stream_native_priority(device, bad, &priority));
        BAD(acre_event_native_record(device, event, bad));
        BAD(acre_launch_host(device, bad, nothing, NULL));
        BAD(acre_launch_kernel(device, bad, kernel, NULL, 0));
        BAD(acre_write_value32(device, bad, memory, 1));
        BAD(acre_wait_value32(device, bad, memory, 1, ACRE_WAIT_EQ));
        BAD(acre_fill_async(device, memory, 0, 1, bad));
        BAD(acre_copy_async(device, memory, host, 1, ACRE_COPY_HOST_TO_DEVICE, bad));
        BAD(acre_capture_begin(device, bad));
        BAD(acre_capture_end(device, bad, &out));
        BAD(acre_capture_info_get(device, bad, &capture_info));
    }
    REQUIRE_OK(acre_event_native_create(device, 0, &gone));
    REQUIRE_OK(acre_event_native_destroy(device, gone));
    void *bad_events[] = {NULL, gone, host, stream, (void *)UINTPTR_MAX};
    for (size_t i = 0; i < sizeof bad_events / sizeof *bad_events; i++) {
        void *bad = bad_events[i];

        BAD(acre_event_native_destroy(device, bad));
        BAD(acre_event_native_record(device, bad, stream));
        BAD(acre_event_native_query(device, bad));
        BAD(acre_event_native_synchronize(device, bad));
        BAD(acre_event_native_elapsed(device, bad, event, &ms));
        BAD(acre_event_native_elapsed(device, event, bad, &ms));
        BAD(acre_stream_native_wait(device, stream, bad));
    }
    BAD(acre_stream_native_destroy(device, NULL));
    BAD(acre_stream_native_priority(device, stream, NULL));
    BAD(acre_event_native_create(NULL, 0, &out));
    BAD(acre_event_native_create(device, 0, NULL));
    BAD(acre_event_native_elapsed(device, event, event, NULL));
    EXPECT_PTR_EQ(out, NULL);
    end();
}

TEST(native_work_needs_a_device)
{
    double ms;
    int priority;

    begin();
    BAD(acre_stream_native_destroy(NULL, stream));
    BAD(acre_stream_native_query(NULL, stream));
    BAD(acre_stream_native_synchronize(NULL, stream));
    BAD(acre_stream_native_wait(NULL, stream, event));
    BAD(acre_stream_native_priority(NULL, stream, &priority));
    BAD(acre_event_native_destroy(NULL, event));
    BAD(acre_event_native_record(NULL, event, stream));
    BAD(acre_event_native_query(NULL, event));
    BAD(acre_event_native_synchronize(NULL, event));
    BAD(acre_event_native_elapsed(NULL, event, event, &ms));
    BAD(acre_copy(NULL, host, host, 1, ACRE_COPY_HOST_TO_HOST));
    BAD(acre_copy_async(NULL, host, host, 1, ACRE_COPY_HOST_TO_HOST, stream));
    BAD(acre_fill_async(NULL, memory, 0, 1, stream));
    BAD(acre_launch_host(NULL, stream, nothing, NULL));
    BAD(acre_launch_kernel(NULL, stream, kernel, NULL, 0));
    BAD(acre_write_value32(NULL, stream, memory, 1));
    BAD(acre_wait_value32(NULL, stream, memory, 1, ACRE_WAIT_EQ));
    end();
}

/* A call may be refused at once or, when it is queued, at synchronize. */
static acre_status at_the_latest(acre_status status)
{
    acre_status later = acre_stream_native_synchronize(device, stream);

    return status != ACRE_OK ? status : later;
}

TEST(copies_and_launches_refuse)
{
    const acre_copy_kind up = ACRE_COPY_HOST_TO_DEVICE;

    begin();
    BAD(acre_copy(device, NULL, host, 1, up));
    BAD(acre_copy(device, memory, NULL, 1, up));
    BAD(acre_copy(device, memory, host, 0, up));
    BAD(acre_copy(device, memory, host, SIZE_MAX, up));
    BAD(acre_copy(device, memory, host, SIZE_MAX / 2, up));
    BAD(acre_copy(device, memory, host, 1, (acre_copy_kind)4));
    BAD(acre_copy(device, memory, host, 1, (acre_copy_kind)-1));
    BAD(at_the_latest(acre_copy_async(device, NULL, host, 1, up, stream)));
    BAD(at_the_latest(acre_copy_async(device, memory, NULL, 1, up, stream)));
    BAD(at_the_latest(acre_copy_async(device, memory, host, 0, up, stream)));
    BAD(at_the_latest(acre_copy_async(device, memory, host, SIZE_MAX, up, stream)));
    BAD(at_the_latest(acre_copy_async(device, memory, host, 1, (acre_copy_kind)7, stream)));
    BAD(acre_copy_peer_async(NULL, memory, device, memory, device, 1, stream));
    BAD(acre_copy_peer_async(device, memory, NULL, memory, device, 1, stream));
    BAD(acre_copy_peer_async(device, memory, device, memory, NULL, 1, stream));
    BAD(at_the_latest(acre_copy_peer_async(device, NULL, device, memory, device, 1, stream)));
    BAD(at_the_latest(acre_copy_peer_async(device, memory, device, NULL, device, 1, stream)));
    BAD(at_the_latest(acre_copy_peer_async(device, memory, device, memory, device, SIZE_MAX,
                                           stream)));
    BAD(at_the_latest(acre_fill_async(device, NULL, 0, 1, stream)));
    BAD(at_the_latest(acre_fill_async(device, memory, 0, 0, stream)));
    BAD(at_the_latest(acre_fill_async(device, memory, 0, SIZE_MAX, stream)));
    BAD(at_the_latest(acre_fill_async(device, host, 0, 1, stream)));
    BAD(acre_launch_host(device, stream, NULL, NULL));
    BAD(acre_launch_kernel(device, stream, NULL, NULL, 0));
    BAD(acre_launch_kernel(device, stream, kernel, NULL, 8));
    BAD(acre_launch_kernel(device, stream, kernel, host, SIZE_MAX));
    BAD(at_the_latest(acre_write_value32(device, stream, NULL, 1)));
    BAD(at_the_latest(acre_write_value32(device, stream, (char *)memory + 1, 1)));
    BAD(at_the_latest(acre_wait_value32(device, stream, NULL, 1, ACRE_WAIT_EQ)));
    BAD(at_the_latest(acre_wait_value32(device, stream, memory, 1, (acre_wait_condition)9)));
    end();
}

/* ---- device.h: virtual memory, sharing, multicast, capture ---------------------------- */

TEST(virtual_memory_refuses)
{
    const size_t page = 2u << 20;
    void *out = NULL, *base, *handle;

    begin();
    REQUIRE_OK(acre_virtual_reserve(device, page, &base));
    REQUIRE_OK(acre_virtual_create(device, page, ACRE_HANDLE_NONE, &handle));
    BAD(acre_virtual_reserve(NULL, page, &out));
    BAD(acre_virtual_reserve(device, 0, &out));
    BAD(acre_virtual_reserve(device, SIZE_MAX, &out));
    BAD(acre_virtual_reserve(device, SIZE_MAX & ~(page - 1), &out));
    BAD(acre_virtual_reserve(device, page, NULL));
    BAD(acre_virtual_unreserve(NULL, base, page));
    BAD(acre_virtual_unreserve(device, NULL, page));
    BAD(acre_virtual_unreserve(device, host, page));
    BAD(acre_virtual_unreserve(device, base, 0));
    BAD(acre_virtual_unreserve(device, base, SIZE_MAX & ~(page - 1)));
    BAD(acre_virtual_create(NULL, page, ACRE_HANDLE_NONE, &out));
    BAD(acre_virtual_create(device, 0, ACRE_HANDLE_NONE, &out));
    BAD(acre_virtual_create(device, SIZE_MAX & ~(page - 1), ACRE_HANDLE_NONE, &out));
    BAD(acre_virtual_create(device, page, (acre_handle_type)77, &out));
    BAD(acre_virtual_create(device, page, ACRE_HANDLE_NONE, NULL));
    BAD(acre_virtual_map(NULL, base, page, 0, handle));
    BAD(acre_virtual_map(device, NULL, page, 0, handle));
    BAD(acre_virtual_map(device, base, page, 0, NULL));
    BAD(acre_virtual_map(device, base, page, 0, host));
    BAD(acre_virtual_map(device, base, page, page, handle));
    BAD(acre_virtual_map(device, base, 0, 0, handle));
    BAD(acre_virtual_map(device, base, SIZE_MAX & ~(page - 1), 0, handle));
    BAD(acre_virtual_map(device, host, page, 0, handle));
    BAD(acre_virtual_unmap(NULL, base, page));
    BAD(acre_virtual_unmap(device, NULL, page));
    BAD(acre_virtual_unmap(device, base, page));
    BAD(acre_virtual_unmap(device, base, 0));
    BAD(acre_virtual_unmap(device, base, SIZE_MAX & ~(page - 1)));
    BAD(acre_virtual_set_access(NULL, base, page, 0, ACRE_ACCESS_READ));
    BAD(acre_virtual_set_access(device, NULL, page, 0, ACRE_ACCESS_READ));
    BAD(acre_virtual_set_access(device, base, page, 0, ACRE_ACCESS_READ));
    BAD(acre_virtual_set_access(device, base, SIZE_MAX & ~(page - 1), 0, ACRE_ACCESS_READ));
    REQUIRE_OK(acre_virtual_map(device, base, page, 0, handle));
    BAD(acre_virtual_set_access(device, base, page, 99, ACRE_ACCESS_READ));
    BAD(acre_virtual_set_access(device, base, page, 0, (acre_access)2));
    REQUIRE_OK(acre_virtual_unmap(device, base, page));
    REQUIRE_OK(acre_virtual_unreserve(device, base, page));
    REQUIRE_OK(acre_virtual_release(device, handle));
    BAD(acre_virtual_release(device, handle));
    BAD(acre_virtual_release(device, NULL));
    BAD(acre_virtual_release(NULL, handle));
    EXPECT_PTR_EQ(out, NULL);
    end();
}

TEST(sharing_refuses)
{
    const size_t page = 2u << 20;
    uint8_t ticket[64] = {0};
    uint64_t bytes;
    void *out = NULL, *handle;
    int fd = -1;

    begin();
    REQUIRE_OK(acre_virtual_create(device, page, ACRE_HANDLE_NONE, &handle));
    BAD(acre_handle_export_fd(NULL, handle, &fd));
    BAD(acre_handle_export_fd(device, NULL, &fd));
    BAD(acre_handle_export_fd(device, handle, NULL));
    BAD(acre_handle_export_fd(device, handle, &fd));
    BAD(acre_handle_export_fd(device, host, &fd));
    BAD(acre_handle_import_fd(NULL, 0, &out, &bytes));
    BAD(acre_handle_import_fd(device, -1, &out, &bytes));
    BAD(acre_handle_import_fd(device, INT32_MAX, &out, &bytes));
    BAD(acre_handle_import_fd(device, 0, NULL, &bytes));
    BAD(acre_handle_import_fd(device, 0, &out, NULL));
    BAD(acre_ipc_export(NULL, memory, ticket));
    BAD(acre_ipc_export(device, NULL, ticket));
    BAD(acre_ipc_export(device, memory, NULL));
    BAD(acre_ipc_open(NULL, ticket, &out, &bytes));
    BAD(acre_ipc_open(device, NULL, &out, &bytes));
    BAD(acre_ipc_open(device, ticket, &out, &bytes));
    BAD(acre_ipc_close(NULL, host));
    BAD(acre_ipc_close(device, host));
    EXPECT_EQ(fd, -1);
    EXPECT_PTR_EQ(out, NULL);
    REQUIRE_OK(acre_virtual_release(device, handle));
    end();
}

TEST(multicast_refuses)
{
    const size_t page = 2u << 20;
    acre_device *both[2], *hole[2], *same[2];
    void *out = NULL, *handle;

    begin();
    both[0] = hole[0] = same[0] = same[1] = device;
    both[1] = other;
    hole[1] = NULL;
    REQUIRE_OK(acre_multicast_create(both, 2, page, &handle));
    BAD(acre_multicast_create(NULL, 2, page, &out));
    BAD(acre_multicast_create(hole, 2, page, &out));
    BAD(acre_multicast_create(same, 2, page, &out));
    BAD(acre_multicast_create(both, 0, page, &out));
    BAD(acre_multicast_create(both, -1, page, &out));
    BAD(acre_multicast_create(both, 2, 0, &out));
    BAD(acre_multicast_create(both, 2, SIZE_MAX, &out));
    BAD(acre_multicast_create(both, 2, page, NULL));
    BAD(acre_multicast_bind(NULL, handle, 0, memory, page));
    BAD(acre_multicast_bind(device, NULL, 0, memory, page));
    BAD(acre_multicast_bind(device, host, 0, memory, page));
    BAD(acre_multicast_bind(device, handle, 0, NULL, page));
    BAD(acre_multicast_bind(device, handle, 0, host, page));
    BAD(acre_multicast_bind(device, handle, 0, memory, SIZE_MAX));
    BAD(acre_multicast_bind(device, handle, SIZE_MAX, memory, page));
    BAD(acre_multicast_bind(device, handle, 0, memory, 0));
    BAD(acre_multicast_unbind(NULL, handle, 0, page));
    BAD(acre_multicast_unbind(device, NULL, 0, page));
    BAD(acre_multicast_unbind(device, handle, 0, page));
    BAD(acre_multicast_unbind(device, handle, SIZE_MAX, SIZE_MAX));
    BAD(acre_multicast_write_async(NULL, handle, 0, memory, 1, stream));
    BAD(at_the_latest(acre_multicast_write_async(device, NULL, 0, memory, 1, stream)));
    BAD(at_the_latest(acre_multicast_write_async(device, handle, 0, NULL, 1, stream)));
    BAD(at_the_latest(acre_multicast_write_async(device, handle, 0, memory, 0, stream)));
    BAD(at_the_latest(acre_multicast_write_async(device, handle, 8, memory, SIZE_MAX, stream)));
    BAD(acre_multicast_write_async(device, handle, 0, memory, 1, host));
    REQUIRE_OK(acre_multicast_release(device, handle));
    BAD(acre_multicast_release(device, handle));
    BAD(acre_multicast_release(device, NULL));
    BAD(acre_multicast_release(NULL, handle));
    EXPECT_PTR_EQ(out, NULL);
    end();
}

TEST(capture_refuses)
{
    void *graph = NULL, *out = NULL;
    uint64_t nodes[1];
    uint32_t count;

    begin();
    BAD(acre_capture_begin(NULL, stream));
    BAD(acre_capture_end(NULL, stream, &out));
    BAD(acre_capture_end(device, stream, NULL));
    BAD(acre_capture_end(device, stream, &out));
    BAD(acre_capture_info_get(NULL, stream, &capture_info));
    BAD(acre_capture_info_get(device, stream, NULL));
    BAD(acre_capture_dependencies(NULL, 1, 1, nodes, 1, &count));
    BAD(acre_capture_dependencies(device, UINT64_MAX, 1, nodes, 1, &count));
    BAD(acre_capture_dependencies(device, 1, 1, NULL, 1, &count));
    BAD(acre_capture_dependencies(device, 1, 1, nodes, 1, NULL));
    BAD(acre_graph_launch(NULL, host, stream));
    BAD(acre_graph_launch(device, NULL, stream));
    BAD(acre_graph_launch(device, host, stream));
    REQUIRE_OK(acre_capture_begin(device, stream));
    BAD(acre_capture_begin(device, stream));
    REQUIRE_OK(acre_capture_end(device, stream, &graph));
    BAD(acre_graph_launch(device, graph, host));
    BAD(acre_graph_destroy(NULL, graph));
    REQUIRE_OK(acre_graph_destroy(device, graph));
    BAD(acre_graph_launch(device, graph, stream));
    BAD(acre_graph_destroy(device, graph));
    BAD(acre_graph_destroy(device, NULL));
    EXPECT_PTR_EQ(out, NULL);
    end();
}

TEST(peers_refuse)
{
    bool can;

    begin();
    BAD(acre_device_can_access_peer(NULL, other, &can));
    BAD(acre_device_can_access_peer(device, NULL, &can));
    BAD(acre_device_can_access_peer(device, other, NULL));
    BAD(acre_peer_access(ACRE_DEVICE_PRIVATE, 0, 99, &can));
    BAD(acre_peer_access(ACRE_DEVICE_PRIVATE, -2, 0, &can));
    BAD(acre_peer_access(ACRE_DEVICE_PRIVATE, 0, 0, NULL));
    BAD(acre_peer_access((acre_device_type)1000, 0, 0, &can));
    end();
}

T_MAIN()
