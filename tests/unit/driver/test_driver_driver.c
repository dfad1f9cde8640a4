/* SPDX-License-Identifier: MIT */
/* The driver backends over the stand-ins: contexts, leftovers, errors, what devices
 * lack, HIP shown as CUDA. Each test meets a fresh stand-in in a child process. */
#include "driver/driver.h"

#include "backend/backend.h"
#include "driver/copy.h"
#include "driver/graph.h"
#include "driver/green.h"
#include "driver/memory.h"
#include "driver/multicast.h"
#include "driver/pool.h"
#include "driver/stream.h"
#include "driver/virtual.h"
#include "tests/support/driver_bed.h"
#include "tests/support/gate.h"

#include <acre/acre.h>

#include <pthread.h>

#define EXPECT_OK(call) EXPECT_EQ(call, ACRE_OK)

/* ---- Contexts ---------------------------------------------------------------------- */

TEST_IN_CHILD(only_devices_in_use_have_a_context)
{
    acre_backend *backend;
    struct driver *driver;
    void *base;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    driver = backend->self;
    EXPECT_EQ(live_now(&vendor_cuda).contexts, 0);
    REQUIRE_OK(acre_device_alloc(device_of(backend, 1), 4096, &base));
    EXPECT_EQ(live_now(&vendor_cuda).contexts, 1);
    EXPECT(!driver->units[0].context);
    EXPECT_EQ(driver_any_device(driver), 1);
    REQUIRE_OK(acre_device_free(device_of(backend, 1), base));
    bed_close(&vendor_cuda, backend);
    EXPECT_EQ(live_now(&vendor_cuda).contexts, 0);
}

TEST_IN_CHILD(calls_leave_the_current_context_alone)
{
    acre_backend *backend;
    struct driver *driver;
    driver_context before, after = NULL;
    void *base;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    driver = backend->self;
    EXPECT_EQ(driver->library.call.cuda_context_get(&after), 0);
    EXPECT(after == NULL);
    REQUIRE_OK(acre_device_alloc(device_of(backend, 1), 4096, &base));
    EXPECT_EQ(driver->library.call.cuda_context_get(&after), 0);
    EXPECT(after == NULL);
    REQUIRE_OK(backend_set_current(backend, (acre_device_id){ACRE_DEVICE_CUDA, 1}));
    EXPECT_EQ(driver->library.call.cuda_context_get(&before), 0);
    EXPECT(before == driver->units[1].context);
    REQUIRE_OK(acre_device_synchronize(device_of(backend, 0)));
    EXPECT_EQ(driver->library.call.cuda_context_get(&after), 0);
    EXPECT(after == before);
    REQUIRE_OK(acre_device_free(device_of(backend, 1), base));
    bed_close(&vendor_cuda, backend);
}

TEST_IN_CHILD(hip_keeps_the_current_device)
{
    acre_backend *backend;
    struct driver *driver;
    int current = -1;
    void *base;

    REQUIRE_OK(bed_open(&vendor_hip, &backend));
    driver = backend->self;
    EXPECT_EQ(driver->library.call.hip_device_set(1), 0);
    REQUIRE_OK(acre_device_alloc(device_of(backend, 0), 4096, &base));
    EXPECT_EQ(driver->library.call.hip_device_get(&current), 0);
    EXPECT_EQ(current, 1);
    REQUIRE_OK(acre_device_free(device_of(backend, 0), base));
    bed_close(&vendor_hip, backend);
}

/* ---- Leftovers and errors ------------------------------------------------------------- */

TEST_IN_CHILD(what_users_left_behind_goes_back)
{
    static char mine[8192] __attribute__((aligned(4096)));
    acre_backend *backend;
    acre_device *device;
    void *base;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    device = device_of(backend, 0);
    REQUIRE_OK(acre_device_alloc(device, 1 << 20, &base));
    REQUIRE_OK(acre_host_alloc(device, 4096, &base));
    REQUIRE_OK(acre_host_register(device, mine, sizeof mine));
    EXPECT_EQ(bed_held(&vendor_cuda), 3);
    bed_close(&vendor_cuda, backend);
    EXPECT_EQ(bed_held(&vendor_cuda), 0);
}

TEST_IN_CHILD(failures_carry_the_words_of_the_driver)
{
    struct standin_control control = bed_control(&vendor_cuda);
    acre_backend *backend;
    acre_device *device;
    void *base = NULL;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    device = device_of(backend, 0);
    control.fail("cuMemAlloc_v2", 1, 2);
    EXPECT_EQ(acre_device_alloc(device, 512, &base), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "cuMemAlloc_v2: ");
    EXPECT_HAS(acre_last_error(), "CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(acre_last_native(), 2);
    control.fail("cuMemHostAlloc", 1, 2);
    EXPECT_EQ(acre_host_alloc(device, 512, &base), ACRE_ERR_HOST_MEMORY);
    control.fail("cuCtxPushCurrent_v2", 1, 201); /* once is not the end */
    control.fail("cuMemAlloc_v2", 1, 2);
    EXPECT_EQ(acre_device_alloc(device, 512, &base), ACRE_ERR_DEVICE_MEMORY);
    control.fail("cuCtxPushCurrent_v2", 0, 201);
    EXPECT_EQ(acre_device_alloc(device, 512, &base), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "device cuda:0 cannot be used: ");
    EXPECT(base == NULL);
    EXPECT_EQ(bed_held(&vendor_cuda), 0);
    control.fail_end();
    /* A base whose free failed is still known, and freed at the next try. */
    REQUIRE_OK(acre_device_alloc(device, 512, &base));
    control.fail("cuMemFree_v2", 1, 700);
    EXPECT_EQ(acre_device_free(device, base), ACRE_ERR_DEVICE);
    EXPECT_OK(acre_device_free(device, base));
    EXPECT_EQ(bed_held(&vendor_cuda), 0);
    bed_close(&vendor_cuda, backend);
}

TEST_IN_CHILD(every_driver_call_of_starting_may_fail)
{
    struct standin_control control = bed_control(&vendor_cuda);
    acre_backend *backend = NULL;

    for (uint64_t nth = 1;; nth++) {
        acre_status status;

        control.fail_nth(nth, 999);
        status = bed_open(&vendor_cuda, &backend);
        if (control.fail_end() == 0) {
            EXPECT_EQ(status, ACRE_OK);
            break;
        }
        if (status == ACRE_OK)
            bed_close(&vendor_cuda, backend); /* an attribute that is not known */
        EXPECT_EQ(bed_held(&vendor_cuda), 0);
        REQUIRE(nth < 1000);
    }
    bed_close(&vendor_cuda, backend);
}

/* ---- What devices lack ------------------------------------------------------------------ */

TEST_IN_CHILD(devices_without_a_feature_do_not_claim_it)
{
    acre_backend *backend;
    acre_device_info info = {.struct_size = sizeof info};
    void *out;

    setenv("STANDIN_WITHOUT", "virtual,pools", 1);
    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    REQUIRE_OK(acre_device_info_get(device_of(backend, 0), &info));
    EXPECT_EQ(info.capabilities & (ACRE_CAP_VIRTUAL | ACRE_CAP_SHARE_FD | ACRE_CAP_MULTICAST), 0);
    EXPECT_EQ(info.page_bytes, 0);
    EXPECT_EQ(acre_virtual_reserve(device_of(backend, 0), 1 << 21, &out), ACRE_ERR_UNSUPPORTED);
    bed_close(&vendor_cuda, backend);
}

/* ---- Copies that drivers leave undefined -------------------------------------------------- */

/* Moves 4000 bytes of 0, 1, 2... by distance in a queue and looks at the result. */
static void expect_moved(acre_device *device, void *stream, int distance)
{
    unsigned char host[8192], want[8192];
    unsigned char *base;
    size_t to = distance > 0 ? (size_t)distance : 0, from = distance < 0 ? (size_t)-distance : 0;

    for (size_t i = 0; i < sizeof host; i++)
        host[i] = want[i] = (unsigned char)(i * 7 + i / 256);
    memmove(want + to, want + from, 4000);
    REQUIRE_OK(acre_device_alloc(device, sizeof host, (void **)&base));
    REQUIRE_OK(acre_copy(device, base, host, sizeof host, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_copy_async(device, base + to, base + from, 4000, ACRE_COPY_DEVICE_TO_DEVICE,
                               stream));
    REQUIRE_OK(acre_stream_native_synchronize(device, stream));
    REQUIRE_OK(acre_copy(device, host, base, sizeof host, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(memcmp(host, want, sizeof host), 0);
    REQUIRE_OK(acre_device_free(device, base));
}

TEST_IN_CHILD(queued_copies_may_overlap)
{
    static const int distances[] = {1000, -1000, 3999, -3999, 7, -7, 4000, -4000};
    acre_backend *backend;
    acre_device *device;
    void *stream;
    char *base;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    device = device_of(backend, 0);
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++)
        expect_moved(device, stream, distances[i]);
    REQUIRE_OK(acre_device_alloc(device, 1 << 20, (void **)&base));
    EXPECT_EQ(acre_copy_async(device, base + 1, base, 100000, ACRE_COPY_DEVICE_TO_DEVICE, stream),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "move by only 1");
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
    bed_close(&vendor_cuda, backend);
}

/* ---- Fabric ------------------------------------------------------------------------------- */

TEST_IN_CHILD(fabric_handles_carry_memory)
{
    acre_backend *backend;
    struct driver *driver;
    uint8_t fabric[64];
    uint64_t page = 0;
    void *made, *back, *plain;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    driver = backend->self;
    EXPECT(drv_virtual_has_fabric(driver, 0));
    REQUIRE_OK(drv_virtual_page_bytes(driver, 0, &page));
    REQUIRE_OK(drv_virtual_create(driver, 0, page, ACRE_HANDLE_FABRIC, &made));
    REQUIRE_OK(drv_virtual_create(driver, 0, page, ACRE_HANDLE_NONE, &plain));
    REQUIRE_OK(drv_virtual_export_fabric(driver, 0, made, fabric));
    EXPECT_EQ(drv_virtual_export_fabric(driver, 0, plain, fabric), ACRE_ERR_INVALID);
    EXPECT_EQ(drv_virtual_export_fd(driver, 0, plain, &(int){0}), ACRE_ERR_INVALID);
    REQUIRE_OK(drv_virtual_import_fabric(driver, 0, fabric, page, &back));
    REQUIRE_OK(drv_virtual_release(driver, 0, back));
    REQUIRE_OK(drv_virtual_release(driver, 0, made));
    REQUIRE_OK(drv_virtual_release(driver, 0, plain));
    EXPECT_EQ(bed_held(&vendor_cuda), 0);
    bed_close(&vendor_cuda, backend);
}

/* ---- Pools and peers ------------------------------------------------------------------------ */

TEST_IN_CHILD(peers_reach_memory_of_pools)
{
    struct standin_control control = bed_control(&vendor_cuda);
    acre_backend *backend;
    struct driver *driver;
    void *before, *after;

    REQUIRE_OK(bed_open(&vendor_cuda, &backend));
    driver = backend->self;
    REQUIRE_OK(drv_pool_alloc(driver, 0, 4096, NULL, &before));
    REQUIRE_OK(backend->ops.peer_enable(driver, 1, 0)); /* the pool is there */
    EXPECT_EQ(control.calls("cuMemPoolSetAccess"), 1);
    REQUIRE_OK(backend->ops.peer_enable(driver, 0, 1)); /* it is not there yet */
    EXPECT_EQ(control.calls("cuMemPoolSetAccess"), 1);
    REQUIRE_OK(drv_pool_alloc(driver, 1, 4096, NULL, &after));
    EXPECT_EQ(control.calls("cuMemPoolSetAccess"), 2);
    REQUIRE_OK(drv_pool_free(driver, 0, before, NULL));
    REQUIRE_OK(drv_pool_free(driver, 1, after, NULL));
    EXPECT_EQ(drv_pool_free(driver, 1, after, NULL), ACRE_ERR_INVALID);
    bed_close(&vendor_cuda, backend);
    EXPECT_EQ(bed_held(&vendor_cuda), 0);
}

/* ---- Other processes ------------------------------------------------------------------------ */

/* A pair of pipes between an exporter and an importer. */
struct pipes {
    const struct vendor *vendor;
    int there[2], back[2];
};

struct offered {
    uint8_t memory[64], event[64];
};

#define SHARED_BYTES 65536

static void expect_byte(acre_device *device, const void *at, unsigned char value)
{
    unsigned char host[64] = {0};

    REQUIRE_OK(acre_copy(device, host, at, sizeof host, ACRE_COPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < sizeof host; i++)
        REQUIRE_EQ(host[i], value);
}

static void export_both(void *arg)
{
    struct pipes *pipes = arg;
    struct offered offered;
    struct gate gate = {0};
    acre_backend *backend;
    acre_device *device;
    void *base, *stream, *event, *plain;
    char byte;

    close(pipes->there[0]);
    close(pipes->back[1]);
    REQUIRE_OK(bed_open(pipes->vendor, &backend));
    device = device_of(backend, 0);
    REQUIRE_OK(acre_device_alloc(device, SHARED_BYTES, &base));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    REQUIRE_OK(acre_event_native_create(device, ACRE_EVENT_SHARED, &event));
    REQUIRE_OK(acre_event_native_create(device, 0, &plain));
    REQUIRE_OK(acre_launch_host(device, stream, gate_task, &gate));
    REQUIRE_OK(acre_fill_async(device, base, 0x5a, SHARED_BYTES, stream));
    REQUIRE_OK(acre_event_native_record(device, event, stream));
    REQUIRE_OK(acre_ipc_export(device, base, offered.memory));
    REQUIRE_OK(acre_ipc_event_export(device, event, offered.event));
    EXPECT(acre_ipc_event_export(device, plain, offered.memory) != ACRE_OK);
    REQUIRE_EQ(write(pipes->there[1], &offered, sizeof offered), (ssize_t)sizeof offered);
    REQUIRE_EQ(read(pipes->back[0], &byte, 1), 1); /* it saw that the event is not there yet */
    gate_open(&gate);
    REQUIRE_EQ(read(pipes->back[0], &byte, 1), 1); /* it wrote */
    expect_byte(device, base, 0xa5);
    REQUIRE_OK(acre_event_native_destroy(device, event));
    REQUIRE_OK(acre_event_native_destroy(device, plain));
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
    bed_close(pipes->vendor, backend);
}

static void import_both(void *arg)
{
    struct pipes *pipes = arg;
    unsigned char host[64];
    struct offered offered;
    acre_backend *backend;
    acre_device *device;
    uint64_t bytes = 0;
    void *base, *again, *event;

    close(pipes->there[1]);
    close(pipes->back[0]);
    REQUIRE_EQ(read(pipes->there[0], &offered, sizeof offered), (ssize_t)sizeof offered);
    REQUIRE_OK(bed_open(pipes->vendor, &backend));
    device = device_of(backend, 0);
    REQUIRE_OK(acre_ipc_open(device, offered.memory, &base, &bytes));
    EXPECT_GE(bytes, SHARED_BYTES);
    REQUIRE_OK(acre_ipc_open(device, offered.memory, &again, &bytes));
    REQUIRE_OK(acre_ipc_close(device, again)); /* the same address, on some drivers */
    REQUIRE_OK(acre_ipc_event_open(device, offered.event, &event));
    EXPECT_EQ(acre_event_native_query(device, event), ACRE_ERR_NOT_READY);
    REQUIRE_EQ(write(pipes->back[1], "", 1), 1);
    REQUIRE_OK(acre_event_native_synchronize(device, event));
    expect_byte(device, base, 0x5a);
    memset(host, 0xa5, sizeof host);
    REQUIRE_OK(acre_copy(device, base, host, sizeof host, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_ipc_close(device, base));
    EXPECT_EQ(acre_ipc_close(device, base), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_event_native_destroy(device, event));
    REQUIRE_EQ(write(pipes->back[1], "", 1), 1);
    bed_close(pipes->vendor, backend);
}

static void expect_shared(const struct vendor *vendor)
{
    struct pipes pipes = {.vendor = vendor};
    pid_t exporter, importer;

    if (!bed_is_built(vendor))
        T_SKIP("the stand-in was not built");
    REQUIRE_EQ(pipe(pipes.there), 0);
    REQUIRE_EQ(pipe(pipes.back), 0);
    exporter = t_start(export_both, &pipes);
    importer = t_start(import_both, &pipes);
    for (int i = 0; i < 2; i++) {
        close(pipes.there[i]);
        close(pipes.back[i]);
    }
    EXPECT_EQ(t_join(exporter), 0);
    EXPECT_EQ(t_join(importer), 0);
}

TEST(memory_and_events_of_another_process)
{
    expect_shared(&vendor_cuda);
}

TEST(memory_and_events_of_another_process_on_hip)
{
    expect_shared(&vendor_hip);
}

/* ---- HIP as CUDA ---------------------------------------------------------------------------- */

TEST_IN_CHILD(without_cuda_hip_devices_are_shown_as_cuda)
{
    acre_backend *hip;
    acre_device *device;

    setenv("ACRE_BACKENDS", "cuda,hip", 1);
    setenv("ACRE_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CUDA, 1, &device));
    EXPECT_EQ(acre_device_id_of(device).type, ACRE_DEVICE_CUDA);
    EXPECT_EQ(acre_device_id_of(device).index, 1);
    REQUIRE_OK(acre_backend_find("hip", &hip));
    EXPECT_PTR_EQ(device->backend, hip);
    EXPECT_EQ(acre_backend_type(hip), ACRE_DEVICE_HIP);
    EXPECT_EQ(acre_device_count(ACRE_DEVICE_CUDA), 2);
    bed_close(&vendor_hip, hip);
}

TEST_IN_CHILD(without_both_the_reason_is_that_of_cuda)
{
    acre_backend *backend;
    acre_device *device;

    setenv("ACRE_BACKENDS", "cuda,hip", 1);
    setenv("ACRE_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    setenv("ACRE_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    EXPECT_EQ(acre_device_get(ACRE_DEVICE_CUDA, 0, &device), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "no CUDA driver: ");
    EXPECT_EQ(acre_backend_find("hip", &backend), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "no HIP driver: ");
    EXPECT_EQ(acre_device_count(ACRE_DEVICE_HIP), 0);
}

/* ---- Blocking copies -------------------------------------------------------------------- */

struct blocking_copy {
    acre_device *device;
    char *memory;
    size_t distance; /* below 4096 bytes, the two sides overlap */
    _Atomic int is_done;
};

static void *copy_run(void *arg)
{
    struct blocking_copy *copy = arg;

    EXPECT_OK(acre_copy(copy->device, copy->memory + copy->distance, copy->memory, 4096,
                        ACRE_COPY_DEVICE_TO_DEVICE));
    copy->is_done = 1;
    return NULL;
}

/* Drivers queue such a copy on a stream that those of Acre do not wait for. */
static void copy_behind_gate(const struct vendor *vendor, size_t distance)
{
    struct gate gate = {0};
    struct blocking_copy copy = {.distance = distance};
    unsigned char host[4096], back[4096];
    acre_backend *backend;
    pthread_t thread;

    REQUIRE_OK(bed_open(vendor, &backend));
    copy.device = device_of(backend, 0);
    REQUIRE_OK(acre_device_alloc(copy.device, 8192, (void **)&copy.memory));
    for (int i = 0; i < 4096; i++)
        host[i] = (unsigned char)(i * 7);
    REQUIRE_OK(acre_copy(copy.device, copy.memory, host, 4096, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_launch_host(copy.device, NULL, gate_task, &gate));
    gate_wait_reached(&gate);
    REQUIRE(pthread_create(&thread, NULL, copy_run, &copy) == 0);
    usleep(50000);
    EXPECT_EQ(copy.is_done, 0);
    gate_open(&gate);
    pthread_join(thread, NULL);
    REQUIRE_OK(acre_copy(copy.device, back, copy.memory + distance, 4096,
                         ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(memcmp(back, host, 4096), 0);
    REQUIRE_OK(acre_device_free(copy.device, copy.memory));
    bed_close(vendor, backend);
}

TEST_IN_CHILD(a_copy_on_the_device_is_done_when_it_returns)
{
    copy_behind_gate(&vendor_cuda, 4096);
    copy_behind_gate(&vendor_cuda, 100);
    copy_behind_gate(&vendor_hip, 4096);
    copy_behind_gate(&vendor_hip, 100);
}

T_MAIN()
