/* SPDX-License-Identifier: MIT */
#include "tests/torch/bed.h"

#include <dlfcn.h>

struct torch_calls torch;
acre_device *device;
bool has_streams;

static void find(const char *name, void *out)
{
    void *found = dlsym(torch.library, name);

    REQUIRE(found);
    memcpy(out, &found, sizeof found);
}

void start(void)
{
    acre_backend *backend;

    torch.library = dlopen(PATH, RTLD_NOW | RTLD_LOCAL);
    if (!torch.library)
        t_fail(__FILE__, __LINE__, "%s", dlerror());
    REQUIRE(torch.library);
    find("acre_torch_malloc", &torch.malloc);
    find("acre_torch_free", &torch.free);
    find("acre_torch_init", &torch.init);
    find("acre_torch_reset", &torch.reset);
    find("acre_torch_memory_fraction", &torch.memory_fraction);
    find("acre_torch_base_alloc", &torch.base_alloc);
    find("acre_torch_record_stream", &torch.record_stream);
    find("acre_torch_begin_allocate_to_pool", &torch.begin);
    find("acre_torch_end_allocate_to_pool", &torch.end);
    find("acre_torch_release_pool", &torch.release);
    find("acre_torch_cache", &torch.cache);
    torch.init(0); /* what PyTorch says when it makes the allocator */
    REQUIRE(torch.cache(0));
    device = acre_cache_device(torch.cache(0));
    if (getenv("ACRE_BACKEND")) {
        REQUIRE_OK(acre_backend_find(getenv("ACRE_BACKEND"), &backend));
        EXPECT_EQ(acre_device_id_of(device).type, acre_backend_type(backend));
    }
    void *stream;
    has_streams = acre_stream_native_create(device, 0, 0, &stream) == ACRE_OK;
    if (has_streams)
        REQUIRE_OK(acre_stream_native_destroy(device, stream));
}

int64_t allocated_now(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(torch.cache(0), &stats));
    return stats.allocated_bytes.all.current;
}

int64_t reserved_now(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(torch.cache(0), &stats));
    return stats.reserved_bytes.all.current;
}

void *new_stream(void)
{
    void *stream = NULL;

    if (has_streams)
        REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    return stream;
}

void end_stream(void *stream)
{
    if (has_streams)
        REQUIRE_OK(acre_stream_native_destroy(device, stream));
}

uint64_t live_in(acre_pool_id id)
{
    acre_pool_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_pool_stats_get(torch.cache(0), id, &stats));
    return stats.live_count;
}

uint64_t uses_of(int index, acre_pool_id id)
{
    uint64_t uses = 0;

    return acre_pool_use_count(torch.cache(index), id, &uses) == ACRE_OK ? uses : 0;
}

/* ---- Faults ---------------------------------------------------------------------------- */

/* How calls of the device are made to fail: those of the reference device, or those of a
 * stand-in for a driver (tests/standin/standin.h). */
static struct {
    acre_backend *sim;
    void (*fail_nth)(uint64_t nth, int code);
    uint64_t (*fail_end)(void);
} faults;

bool faults_find(void)
{
    const char *name = getenv("ACRE_BACKEND"), *path;
    void (*spare)(int);

    if (!name || strcmp(name, "sim") == 0)
        return acre_backend_find("sim", &faults.sim) == ACRE_OK;
    path = getenv(strcmp(name, "hip") == 0 ? "ACRE_HIP_LIBRARY" : "ACRE_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!library)
        return false;
    *(void **)&faults.fail_nth = dlsym(library, "standin_fail_nth");
    *(void **)&faults.fail_end = dlsym(library, "standin_fail_end");
    *(void **)&spare = dlsym(library, "standin_spare");
    if (spare)
        spare(1);
    return faults.fail_nth && faults.fail_end;
}

void faults_arm(uint64_t nth)
{
    const acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ANY, .nth = nth};

    if (faults.sim)
        REQUIRE_OK(acre_sim_fault_arm(faults.sim, &fault));
    else
        faults.fail_nth(nth, 999);
}

bool faults_end(void)
{
    return faults.sim ? acre_sim_fault_disarm(faults.sim) > 0 : faults.fail_end() > 0;
}
