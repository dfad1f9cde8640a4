/* SPDX-License-Identifier: MIT */
/* Every call of OpenCL fails in turn, then every host allocation. The call of Acre
 * that meets it goes on or gives one clean error, after which the same call succeeds;
 * at the end nothing is left in OpenCL or on the heap, and the bytes are what they
 * must be. */
#include "base/heap.h"
#include "tests/support/opencl_bed.h"
#include "tests/support/t.h"

#include <acre/opencl.h>

#include <stdatomic.h>

#define BYTES 4096

static uint64_t errors; /* clean ones, since the scenario began */

/* Judges an answer; true when the call is to be repeated, once. */
static bool is_to_repeat(acre_status status, const char *call)
{
    if (status == ACRE_OK || status == ACRE_ERR_NOT_READY)
        return false;
    if (++errors > 1 || status == ACRE_ERR_INVALID || status == ACRE_ERR_INTERNAL ||
        !*acre_last_error())
        t_fail(__FILE__, __LINE__, "%s: %s (%s)", call, acre_status_name(status),
               acre_last_error());
    return true;
}

#define GO(call)                                                               \
    do {                                                                       \
        if (is_to_repeat((call), #call) && is_to_repeat((call), #call))        \
            t_leave();                                                         \
    } while (0)
/* What ends an object ends it also when it reports an error. */
#define END(call) is_to_repeat((call), #call)

static void count_task(void *count)
{
    atomic_fetch_add((_Atomic int *)count, 1);
}

static void count_kernel(acre_kernel_context *context, void *args)
{
    (void)context;
    count_task(*(void **)args);
}

/* Streams, events, functions, copies. */
static void scenario_work(acre_device *device)
{
    unsigned char host[BYTES], back[BYTES];
    _Atomic int functions = 0, kernels = 0, *counted = &kernels;
    void *streams[2], *event, *pinned;
    char *memory;
    double ms;

    memset(host, 0x5c, sizeof host);
    for (int i = 0; i < 2; i++)
        GO(acre_stream_native_create(device, 0, 0, &streams[i]));
    GO(acre_event_native_create(device, ACRE_EVENT_TIMING, &event));
    GO(acre_device_alloc(device, 2 * BYTES, (void **)&memory));
    GO(acre_host_alloc(device, BYTES, &pinned));
    GO(acre_host_register(device, back, BYTES));
    GO(acre_copy(device, memory, host, BYTES, ACRE_COPY_HOST_TO_DEVICE));
    GO(acre_fill_async(device, memory + BYTES, 3, BYTES, streams[0]));
    GO(acre_copy_async(device, memory + 100, memory, BYTES, ACRE_COPY_DEVICE_TO_DEVICE,
                       streams[0]));
    GO(acre_launch_host(device, streams[0], count_task, &functions));
    GO(acre_event_native_record(device, event, streams[0]));
    GO(acre_stream_native_wait(device, streams[1], event));
    GO(acre_launch_kernel(device, streams[1], count_kernel, &counted, sizeof counted));
    GO(acre_copy_async(device, back, memory, BYTES, ACRE_COPY_DEVICE_TO_HOST, streams[1]));
    GO(acre_stream_native_query(device, streams[1]));
    GO(acre_event_native_query(device, event));
    GO(acre_event_native_synchronize(device, event));
    GO(acre_stream_native_synchronize(device, streams[1]));
    GO(acre_stream_native_synchronize(device, streams[0]));
    GO(acre_event_native_elapsed(device, event, event, &ms));
    EXPECT_EQ(memcmp(host, back, BYTES), 0);
    EXPECT(errors ? functions <= 2 : functions == 1);
    EXPECT(errors ? kernels >= 1 : kernels == 1);
    GO(acre_device_synchronize(device));
    GO(acre_host_unregister(device, back));
    GO(acre_host_free(device, pinned));
    GO(acre_device_free(device, memory));
    END(acre_event_native_destroy(device, event));
    for (int i = 0; i < 2; i++)
        END(acre_stream_native_destroy(device, streams[i]));
}

/* A cache, with a use on a second stream. */
static void scenario_cache(acre_device *device)
{
    acre_cache *cache;
    void *streams[2], *blocks[3];

    for (int i = 0; i < 2; i++)
        GO(acre_stream_native_create(device, 0, 0, &streams[i]));
    GO(acre_cache_create(device, NULL, &cache));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            GO(acre_cache_alloc(cache, (size_t)100000 << 4 * i, streams[0], &blocks[i]));
        GO(acre_fill_async(device, blocks[1], 1, 1000, streams[1]));
        GO(acre_cache_record_stream(cache, blocks[1], streams[1]));
        for (int i = 0; i < 3; i++)
            GO(acre_cache_free(cache, blocks[i]));
        GO(acre_cache_empty(cache));
    }
    EXPECT_EQ(acre_cache_check(cache), ACRE_OK);
    acre_cache_destroy(cache);
    for (int i = 0; i < 2; i++)
        END(acre_stream_native_destroy(device, streams[i]));
}

static const char source[] = "__kernel void put(__global int *out, int value) {"
                             " *out = value; }";
static acre_opencl_program *built; /* by launching, because building takes long */

static void scenario_build(acre_device *device)
{
    acre_opencl_program *program;

    GO(acre_opencl_program_build(device, source, NULL, &program));
    acre_opencl_program_destroy(program);
}

static void scenario_launch(acre_device *device)
{
    const acre_opencl_range range = {.global = {1}, .local = {1}};
    acre_opencl_kernel *kernel;
    void *stream, *memory;
    int value = 77, got = 0;

    GO(acre_opencl_kernel_create(built, "put", &kernel));
    GO(acre_stream_native_create(device, 0, 0, &stream));
    GO(acre_device_alloc(device, 512, &memory));
    const acre_opencl_arg args[] = {{.value = memory}, {ACRE_OPENCL_VALUE, &value, sizeof value}};
    GO(acre_opencl_launch(kernel, stream, &range, args, 2));
    GO(acre_stream_native_synchronize(device, stream));
    GO(acre_copy(device, &got, memory, sizeof got, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(got, value);
    GO(acre_device_free(device, memory));
    acre_opencl_kernel_destroy(kernel);
    END(acre_stream_native_destroy(device, stream));
}

/* Fails the n-th call of OpenCL, or the n-th host allocation. */
static void arm(bool is_heap, uint64_t nth)
{
    if (is_heap)
        heap_fail_nth(nth);
    else
        bed_fail_nth(nth);
}

/* Names what failed, or NULL. */
static const char *disarm(bool is_heap)
{
    return !is_heap ? bed_fail_disarm() : heap_fail_disarm() ? "a host allocation" : NULL;
}

/* Fails the first, then the second, until the scenario has none left. */
static void run_failing(void (*scenario)(acre_device *), acre_device *device, bool is_heap)
{
    uint64_t heap = heap_live_count(), held = bed_held(NULL), nth = 0;
    const char *failed;

    do {
        errors = 0;
        arm(is_heap, ++nth);
        scenario(device);
        failed = disarm(is_heap);
        if (bed_held(NULL) != held || heap_live_count() != heap)
            t_fail(__FILE__, __LINE__, "number %llu, %s: %llu objects, %llu pieces, before %llu "
                   "and %llu", (unsigned long long)nth, failed ? failed : "none",
                   (unsigned long long)bed_held(NULL), (unsigned long long)heap_live_count(),
                   (unsigned long long)held, (unsigned long long)heap);
    } while (failed && nth < 2000);
    printf("  %llu %s\n", (unsigned long long)nth - 1, is_heap ? "allocations" : "calls");
    EXPECT(nth > 1);
    EXPECT(!failed);
}

static void run(void (*scenario)(acre_device *), acre_device *device)
{
    errors = 0;
    scenario(device); /* tables of the backend have their size now */
    run_failing(scenario, device, false);
    run_failing(scenario, device, true);
}

static void run_open(void (*scenario)(acre_device *))
{
    acre_backend *backend = bed_begin();
    acre_device *device;

    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    run(scenario, device);
    acre_backend_unregister(backend);
}

static void scenario_start(acre_device *unused)
{
    acre_backend *backend;

    (void)unused;
    GO(bed_open(&backend));
    acre_backend_unregister(backend);
}

TEST(starting)
{
    acre_backend_unregister(bed_begin()); /* skips where there is no OpenCL */
    run(scenario_start, NULL);
}

TEST(streams_events_copies_and_functions)
{
    run_open(scenario_work);
}

TEST(a_cache)
{
    run_open(scenario_cache);
}

TEST(building)
{
    run_open(scenario_build);
}

TEST(launching)
{
    acre_backend *backend = bed_begin();
    acre_device *device;

    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_opencl_program_build(device, source, NULL, &built));
    run(scenario_launch, device);
    acre_opencl_program_destroy(built);
    acre_backend_unregister(backend);
}

/* A copy that fails is over when the call returns: its memory may be on the caller's stack. */
TEST(a_copy_that_failed_does_not_write_later)
{
    acre_backend *backend = bed_begin();
    size_t bytes = (size_t)64 << 20;
    char *host = malloc(bytes);
    acre_device *device;
    const char *failed;
    void *memory;
    char byte;

    REQUIRE(host);
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_device_alloc(device, bytes, &memory));
    memset(host, 1, bytes);
    REQUIRE_OK(acre_copy(device, memory, host, bytes, ACRE_COPY_HOST_TO_DEVICE));
    uint64_t nth = 0;
    do {
        bed_fail_nth(++nth);
        acre_copy(device, host, memory, bytes, ACRE_COPY_DEVICE_TO_HOST);
        host[bytes - 1] = 7;
        failed = bed_fail_disarm();
        /* A copy of one byte comes after all that was queued before. */
        REQUIRE_OK(acre_copy(device, &byte, memory, 1, ACRE_COPY_DEVICE_TO_HOST));
        EXPECT_EQ(host[bytes - 1], 7);
    } while (failed);
    EXPECT(nth > 2);
    REQUIRE_OK(acre_device_free(device, memory));
    free(host);
    acre_backend_unregister(backend);
}

T_MAIN()
