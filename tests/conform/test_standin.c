/* SPDX-License-Identifier: MIT */
/* The stand-in for the CUDA driver refuses what the driver refuses, with its codes,
 * and knows what is held. */
#include "tests/standin/cuda_map.h"
#include "tests/standin/cuda_types.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"

#include <acre/acre.h>

#include <dlfcn.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

/* Every entry point, found by name. */
static struct cuda {
#define FIELD(name, parameters) CUresult(*name) parameters;
    CUDA_MAP(FIELD) CUDA_OLD_MAP(FIELD)
#undef FIELD
} cu;
static struct standin_control control;
static CUcontext contexts[2];

/* Opens the library once; a context of device 0 is current after it. */
static void begin(void)
{
    if (!control.library) {
        control = standin_open(STANDIN_CUDA);
#define FIND(name, parameters) *(void **)&cu.name = dlsym(control.library, #name);
        CUDA_MAP(FIND) CUDA_OLD_MAP(FIND)
#undef FIND
        REQUIRE_EQ(cu.cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
        REQUIRE_EQ(cu.cuInit(0), CUDA_SUCCESS);
    }
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(cu.cuDevicePrimaryCtxRetain(&contexts[i], i), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuCtxPushCurrent_v2(contexts[0]), CUDA_SUCCESS);
}

static void end(void)
{
    CUcontext popped = NULL;

    EXPECT_EQ(cu.cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    EXPECT_PTR_EQ(popped, contexts[0]);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(cu.cuDevicePrimaryCtxRelease_v2(i), CUDA_SUCCESS);
    if (control.live(NULL))
        t_fail(__FILE__, __LINE__, "still held:%s", standin_text(&control));
}

TEST(contexts_are_current_by_thread_and_end)
{
    CUcontext seen = NULL;
    CUdeviceptr base;

    begin();
    EXPECT_EQ(cu.cuCtxGetCurrent(&seen), CUDA_SUCCESS);
    EXPECT_PTR_EQ(seen, contexts[0]);
    EXPECT_EQ(cu.cuCtxPushCurrent_v2((CUcontext)64), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cu.cuCtxSetCurrent((CUcontext)64), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cu.cuDevicePrimaryCtxRetain(&seen, 2), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cu.cuDevicePrimaryCtxRelease_v2(-1), CUDA_ERROR_INVALID_DEVICE);
    end();
    EXPECT_EQ(cu.cuMemAlloc_v2(&base, 1), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cu.cuCtxPopCurrent_v2(&seen), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cu.cuCtxPushCurrent_v2(contexts[0]), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(plain_memory_is_freed_once_and_exactly)
{
    CUdeviceptr base = 0, found = 0;
    size_t bytes = 0;

    begin();
    EXPECT_EQ(cu.cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemAlloc_v2(&base, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemAlloc_v2(&base, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE_EQ(cu.cuMemAlloc_v2(&base, MIB), CUDA_SUCCESS);
    EXPECT_EQ(control.live(NULL), 3);
    EXPECT_EQ(cu.cuMemGetAddressRange_v2(&found, &bytes, base + 77), CUDA_SUCCESS);
    EXPECT_EQ(found, base);
    EXPECT_EQ(bytes, MIB);
    EXPECT_EQ(cu.cuMemFree_v2(base + 512), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemFreeHost((void *)(uintptr_t)base), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuIpcCloseMemHandle(base), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemFree_v2(base), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFree_v2(base), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemGetAddressRange_v2(&found, &bytes, base), CUDA_ERROR_NOT_FOUND);
    end();
}

TEST(host_memory_is_registered_once)
{
    static char own[8192];
    CUdeviceptr as_device = 0;
    unsigned type = 0;
    void *host = NULL;

    begin();
    EXPECT_EQ(cu.cuMemHostAlloc(&host, 100, 8), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuMemHostAlloc(&host, 100, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemHostRegister_v2(own, sizeof own, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemHostRegister_v2(own + 10, 10, 0),
              CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       (uintptr_t)own + 5), CUDA_SUCCESS);
    EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
    EXPECT_EQ(cu.cuMemHostGetDevicePointer_v2(&as_device, own, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemHostUnregister(own + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_EQ(cu.cuMemHostUnregister(own), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_EQ(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)own),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemFreeHost(host), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
    end();
}

TEST(streams_and_events_are_known_until_destroyed)
{
    CUstream stream = NULL, other = NULL;
    CUevent event = NULL, timed = NULL;
    CUdeviceptr base = 0;
    float ms = 0;

    begin();
    EXPECT_EQ(cu.cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuStreamCreateWithPriority(&stream, 1, -99), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuEventCreate(&timed, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuMemAlloc_v2(&base, MIB), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuCtxPushCurrent_v2(contexts[1]), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuStreamCreate(&other, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemsetD8Async(base, 1, 64, stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventRecord(event, other), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventSynchronize(event), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventElapsedTime_v2(&ms, timed, event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventElapsedTime_v2(&ms, timed, timed), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventRecord(timed, stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventElapsedTime(&ms, timed, timed), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventDestroy_v2(event), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuEventDestroy_v2(timed), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cu.cuStreamDestroy_v2(other), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFree_v2(base), CUDA_SUCCESS);
    end();
}

/* A host function that calls the driver and notes what it answers. */
static void calls_back(void *arg)
{
    size_t available, total;

    *(CUresult *)arg = cu.cuMemGetInfo_v2(&available, &total);
}

TEST(host_functions_may_not_call_the_driver)
{
    CUresult answer = CUDA_SUCCESS;

    begin();
    EXPECT_EQ(cu.cuLaunchHostFunc(NULL, calls_back, &answer), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamSynchronize(NULL), CUDA_SUCCESS);
    EXPECT_EQ(answer, CUDA_ERROR_NOT_PERMITTED);
    end();
}

static const CUmemAllocationProp device_prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc device_access = {
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

TEST(mappings_are_whole_and_in_reserved_addresses)
{
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr base = 0;
    char byte = 7, seen = 0;

    begin();
    EXPECT_EQ(cu.cuMemAddressReserve(&base, MIB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemAddressReserve(&base, PAGE, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuMemAddressReserve(&base, 4 * PAGE, 0, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemCreate(&handle, 100, &device_prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemCreate(&handle, PAGE, &device_prop, 1), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuMemCreate(&handle, 2 * PAGE, &device_prop, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemMap(base, PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemMap(base, 2 * PAGE, PAGE, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemMap(base + 3 * PAGE, 2 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuMemMap(base + PAGE, 2 * PAGE, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemMap(base, 2 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_NE(cu.cuMemcpyHtoD_v2(base + PAGE, &byte, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemSetAccess(base, 2 * PAGE, &device_access, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemSetAccess(base + PAGE, 2 * PAGE, &device_access, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemcpyHtoD_v2(base + PAGE, &byte, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + PAGE)),
              CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemRelease(again), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemcpyDtoH_v2(&seen, base + PAGE, 1), CUDA_SUCCESS);
    EXPECT_EQ(seen, 7);
    EXPECT_EQ(cu.cuMemAddressFree(base, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemUnmap(base + PAGE, PAGE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemUnmap(base + PAGE, 2 * PAGE), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemUnmap(base + PAGE, 2 * PAGE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemAddressFree(base, 3 * PAGE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemAddressFree(base, 4 * PAGE), CUDA_SUCCESS);
    end();
}

TEST(memory_travels_as_descriptor_and_as_fabric_handle)
{
    CUmemGenericAllocationHandle handle = 0, by_fd = 0, by_fabric = 0;
    CUmemFabricHandle fabric;
    CUmemAllocationProp prop = device_prop;
    int fd = -1;

    begin();
    REQUIRE_EQ(cu.cuMemCreate(&handle, PAGE, &prop, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuMemExportToShareableHandle(&fd, handle, 1, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuMemExportToShareableHandle(&fabric, handle, 8, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemImportFromShareableHandle(&by_fd, (void *)(uintptr_t)fd, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemImportFromShareableHandle(&by_fabric, &fabric, 8), CUDA_SUCCESS);
    close(fd);
    EXPECT_EQ(cu.cuMemRelease(by_fd), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemRelease(by_fabric), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemRelease(handle), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemImportFromShareableHandle(&by_fabric, &fabric, 8),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_NE(cu.cuMemImportFromShareableHandle(&by_fd, (void *)(uintptr_t)0, 1), CUDA_SUCCESS);
    prop.requestedHandleTypes = 0;
    REQUIRE_EQ(cu.cuMemCreate(&handle, PAGE, &prop, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemExportToShareableHandle(&fd, handle, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemRelease(handle), CUDA_SUCCESS);
    end();
}

TEST(multicast_binds_when_all_devices_were_added)
{
    const CUmulticastObjectProp prop = {.numDevices = 2, .size = PAGE, .handleTypes = 1};
    CUmemGenericAllocationHandle multicast = 0, memory = 0, imported = 0;
    int fd = -1;

    begin();
    REQUIRE_EQ(cu.cuMulticastCreate(&multicast, &prop), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuMemCreate(&memory, PAGE, &device_prop, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMulticastAddDevice(multicast, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMulticastAddDevice(multicast, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMulticastBindMem(multicast, 0, memory, 0, PAGE, 0), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuMemExportToShareableHandle(&fd, multicast, 1, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, 1),
              CUDA_SUCCESS);
    close(fd);
    EXPECT_EQ(cu.cuMulticastAddDevice(imported, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMulticastBindMem(multicast, 0, memory, 0, PAGE, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMulticastBindMem(multicast, 0, memory, 0, PAGE, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMulticastUnbind(multicast, 0, 0, PAGE), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMulticastUnbind(multicast, 0, 0, PAGE), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemRelease(imported), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemRelease(multicast), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemRelease(memory), CUDA_SUCCESS);
    end();
}

TEST(captures_forbid_what_upsets_them)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstream stream = NULL;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUdeviceptr base = 0, further = 0;

    begin();
    REQUIRE_EQ(cu.cuMemAlloc_v2(&base, MIB), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuStreamCreate(&stream, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    REQUIRE_EQ(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemAlloc_v2(&further, MIB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(cu.cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemAlloc_v2(&further, MIB), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(cu.cuMemsetD8Async(base, 1, 64, stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGraphDestroy(graph), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFree_v2(base), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFree_v2(further), CUDA_SUCCESS);
    end();
}

TEST(pools_keep_what_streams_freed)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    cuuint64_t keep = UINT64_MAX, reserved = 0, used = 0;
    CUmemoryPool pool = NULL;
    CUdeviceptr first = 0, second = 0;

    begin();
    REQUIRE_EQ(cu.cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
              CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuMemAllocFromPoolAsync(&first, MIB, pool, NULL), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFreeAsync(first + 512, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuMemFreeAsync(first, NULL), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFreeAsync(first, NULL), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuMemAllocFromPoolAsync(&second, MIB, pool, NULL), CUDA_SUCCESS);
    EXPECT_EQ(first, second);
    EXPECT_EQ(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
              CUDA_SUCCESS);
    EXPECT_EQ(used, MIB);
    EXPECT_EQ(cu.cuMemFree_v2(second), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved),
              CUDA_SUCCESS);
    EXPECT_EQ(reserved, MIB);
    EXPECT_EQ(cu.cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved),
              CUDA_SUCCESS);
    EXPECT_EQ(reserved, 0);
    EXPECT_EQ(cu.cuMemPoolDestroy(pool), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
    end();
}

TEST(green_contexts_have_a_share_of_the_units)
{
    CUdevResource all, group, rest, foreign = {.type = CU_DEV_RESOURCE_TYPE_SM};
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green = NULL;
    CUcontext context = NULL;
    CUstream stream = NULL;
    unsigned count = 1;

    begin();
    REQUIRE_EQ(cu.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuDevSmResourceSplitByCount(&group, &count, &foreign, &rest, 0, 8),
              CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuDevSmResourceSplitByCount(&group, &count, &all, &rest, 0, 10), CUDA_SUCCESS);
    EXPECT_EQ(group.sm.smCount, 16);
    EXPECT_EQ(rest.sm.smCount + 16, all.sm.smCount);
    REQUIRE_EQ(cu.cuDevResourceGenerateDesc(&desc, &group, 1), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGreenCtxCreate(&green, desc, 0, 0), CUDA_ERROR_INVALID_VALUE);
    REQUIRE_EQ(cu.cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuGreenCtxStreamCreate(&stream, green, 1, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGreenCtxDestroy(green), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu.cuCtxPushCurrent_v2(context), CUDA_ERROR_INVALID_CONTEXT);
    end();
}

TEST(calls_fail_on_demand)
{
    CUdeviceptr base = 0;

    begin();
    uint64_t before = control.calls("cuMemAlloc_v2");
    control.fail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE_EQ(cu.cuMemAlloc_v2(&base, 512), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemFree_v2(base), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuMemAlloc_v2(&base, 512), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(strcmp(control.failed(), "cuMemAlloc_v2"), 0);
    EXPECT_EQ(control.fail_end(), 1);
    EXPECT_EQ(control.calls("cuMemAlloc_v2"), before + 2);
    control.spare(1);
    control.fail_nth(1, CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(cu.cuMemFree_v2(0), CUDA_ERROR_INVALID_VALUE); /* passed over */
    EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(control.fail_end(), 1);
    control.spare(0);
    end();
}

TEST(entry_points_are_found_by_name)
{
    CUdriverProcAddressQueryResult status = 9;
    void *address = NULL;

    begin();
    EXPECT_EQ(cu.cuGetProcAddress_v2("cuMemAlloc", &address, 13000, 0, &status), CUDA_SUCCESS);
    EXPECT_PTR_EQ(address, (void *)cu.cuMemAlloc_v2);
    EXPECT_EQ(cu.cuGetProcAddress_v2("cuNothing", &address, 13000, 0, &status),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    end();
}

/* ---- Drivers that are old, incomplete or do not work ---------------------------------- */

/* What a backend on some library is expected to be. */
struct variant {
    const char *path, *variable, *value;
    acre_status status;   /* of starting it                */
    const char *text;     /* a part of the sentence, if not */
    uint32_t has, lacks;  /* capabilities of its device     */
};

static void variant_run(void *arg)
{
    const struct variant *variant = arg;
    acre_backend *backend;
    acre_device_info info = {.struct_size = sizeof info};
    acre_device *device;
    acre_cache *cache;
    void *block;

    setenv("ACRE_CUDA_LIBRARY", variant->path, 1);
    setenv("ACRE_BACKENDS", "cuda", 1);
    if (variant->variable)
        setenv(variant->variable, variant->value, 1);
    acre_status status = acre_backend_find("cuda", &backend);
    EXPECT_EQ(status, variant->status);
    if (status != ACRE_OK) {
        EXPECT_HAS(acre_last_error(), variant->text);
        return;
    }
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_device_info_get(device, &info));
    EXPECT_EQ(info.capabilities & variant->has, variant->has);
    EXPECT_EQ(info.capabilities & variant->lacks, 0);
    REQUIRE_OK(acre_cache_create(device, NULL, &cache));
    REQUIRE_OK(acre_cache_alloc(cache, 5 * MIB, NULL, &block));
    REQUIRE_OK(acre_fill_async(device, block, 1, 1000, NULL));
    REQUIRE_OK(acre_cache_free(cache, block));
    acre_cache_destroy(cache);
    acre_backend_unregister(backend);
    EXPECT_EQ(standin_open(variant->path).restart(NULL), 0);
}

/* A child is made of a process without threads. */
static void expect_variant(struct variant variant)
{
    EXPECT_EQ(standin_open(STANDIN_CUDA).restart(NULL), 0);
    EXPECT_EQ(t_child(variant_run, &variant), 0);
}

TEST(an_old_driver_has_what_it_had)
{
    expect_variant((struct variant){STANDIN_CUDA_OLD, "STANDIN_VERSION", "11000", ACRE_OK, NULL,
                                    ACRE_CAP_STREAMS | ACRE_CAP_COPY | ACRE_CAP_VIRTUAL |
                                        ACRE_CAP_SHARE_FD | ACRE_CAP_CAPTURE | ACRE_CAP_IPC,
                                    ACRE_CAP_MULTICAST | ACRE_CAP_GREEN});
}

TEST(a_bare_driver_serves_a_cache)
{
    expect_variant((struct variant){STANDIN_CUDA_BARE, NULL, NULL, ACRE_OK, NULL,
                                    ACRE_CAP_STREAMS | ACRE_CAP_COPY,
                                    ACRE_CAP_VIRTUAL | ACRE_CAP_CAPTURE | ACRE_CAP_IPC |
                                        ACRE_CAP_HOST_MEMORY | ACRE_CAP_GREEN});
}

TEST(features_that_devices_deny_are_not_used)
{
    expect_variant((struct variant){STANDIN_CUDA_OLD, "STANDIN_WITHOUT", "virtual", ACRE_OK, NULL,
                                    ACRE_CAP_STREAMS,
                                    ACRE_CAP_VIRTUAL | ACRE_CAP_SHARE_FD | ACRE_CAP_FABRIC});
}

TEST(what_is_no_driver_is_refused_by_name)
{
    expect_variant((struct variant){STANDIN_CUDA_BROKEN, NULL, NULL, ACRE_ERR_UNSUPPORTED,
                                    "cuMemAlloc_v2", 0, 0});
}

TEST(a_driver_that_does_not_start_is_a_reason)
{
    const struct variant variants[] = {
        {STANDIN_CUDA_OLD, "STANDIN_INIT", "34", ACRE_ERR_UNSUPPORTED,
         "stub for linking, which finds no device (cuInit: CUDA_ERROR_STUB_LIBRARY)", 0, 0},
        {STANDIN_CUDA_OLD, "STANDIN_INIT", "100", ACRE_ERR_UNSUPPORTED, "NO_DEVICE", 0, 0},
        {STANDIN_CUDA_OLD, "STANDIN_VERSION", "10020", ACRE_ERR_UNSUPPORTED, "11000", 0, 0},
    };

    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        expect_variant(variants[i]);
}

T_MAIN()
