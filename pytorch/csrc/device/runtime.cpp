/* SPDX-License-Identifier: MIT */
#include "device/runtime.h"

#include "device/scratch.h"
#include "device/status.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace acre_torch {
namespace {

/* Set once, by the first call that succeeds; the object is never freed. */
std::atomic<Runtime *> the_runtime{nullptr};
std::atomic<bool> is_forked{false};
std::atomic<bool> is_child{false}; /* until fork_settle() has run there */

/* Not destroyed at exit: other threads may still want it then. */
std::mutex &start_mutex()
{
    static auto *mutex = new std::mutex;
    return *mutex;
}

void fork_child()
{
    if (the_runtime.load())
        is_forked = true;
    is_child = true;
}

[[maybe_unused]] const int fork_watch = pthread_atfork(nullptr, nullptr, fork_child);

std::string variable_text(const char *name, const char *otherwise)
{
    const char *value = std::getenv(name);

    return value && *value ? value : otherwise;
}

bool variable_is_on(const char *name)
{
    std::string value = variable_text(name, "0");

    TORCH_CHECK(value == "0" || value == "1", name, " is \"", value, "\"; write 0 or 1");
    return value == "1";
}

acre_sim_config sim_settings()
{
    acre_sim_config config = {};
    const char *text = std::getenv("ACRE_SIM");

    config.struct_size = sizeof config;
    if (text)
        status_check(acre_sim_parse(text, &config), "reading ACRE_SIM");
    return config;
}

/* A reference device whose default stream has the id 0, as PyTorch wants it. */
acre_backend *sim_start(const Runtime &runtime)
{
    acre_sim_config config = sim_settings();
    acre_backend *backend = nullptr;

    TORCH_CHECK(!config.dry, "ACRE_SIM says dry:1, but PyTorch needs memory with contents; "
                "write dry:0");
    config.codec = ACRE_STREAM_CODEC_CUDA;
    config.name = "torch";
    if (!runtime.is_strict)
        config.open = 1;
    status_check(acre_sim_create(&config, &backend), "starting the reference device");
    return backend;
}

acre_backend *backend_start(const Runtime &runtime)
{
    std::string name = variable_text("ACRE_TORCH_DEVICE", "sim");
    std::string library = variable_text("ACRE_TORCH_BACKEND", "");
    acre_backend *backend = nullptr;

    if (!library.empty()) {
        status_check(acre_backend_load(library.c_str(), &backend),
                     ("loading ACRE_TORCH_BACKEND=" + library).c_str());
        return backend;
    }

    TORCH_CHECK(name == "sim" || name == "host" || name == "opencl",
                "ACRE_TORCH_DEVICE is \"", name, "\"; it can be sim, host or opencl");
    if (name == "sim")
        return sim_start(runtime);
    status_check(acre_backend_find(name.c_str(), &backend),
                 ("starting the backend of ACRE_TORCH_DEVICE=" + name).c_str());
    return backend;
}

void devices_open(Runtime &runtime)
{
    auto info = sized<acre_device_info>();

    runtime.count = acre_backend_device_count(runtime.backend);
    TORCH_CHECK(runtime.count > 0, "the backend \"", acre_backend_name(runtime.backend),
                "\" has no device");
    for (int i = 0; i < runtime.count; i++) {
        acre_device *device = nullptr;

        status_check(acre_backend_device(runtime.backend, i, &device), "finding a device");
        runtime.devices.push_back(device);
    }
    status_check(acre_device_info_get(runtime.devices[0], &info), "asking a device");
    runtime.type = acre_device_id_of(runtime.devices[0]).type;
    runtime.has_streams = info.capabilities & ACRE_CAP_STREAMS;
    runtime.has_copies = info.capabilities & ACRE_CAP_COPY;
    runtime.has_windows = (info.capabilities & ACRE_CAP_ACCESS) != 0;
}

void caches_open(Runtime &runtime)
{
    status_check(acre_cache_allocator_create(runtime.type, nullptr, &runtime.allocator),
                 "making the caches");
    for (int i = 0; i < runtime.count; i++)
        runtime.caches.push_back(acre_cache_of_allocator(runtime.allocator, i));
    if (acre_pinned_create(runtime.devices[0], nullptr, &runtime.pinned) != ACRE_OK)
        runtime.pinned = nullptr;
}

Runtime *runtime_start()
{
    auto runtime = new Runtime;

    try {
        runtime->is_strict = variable_is_on("ACRE_TORCH_STRICT");
        runtime->backend = backend_start(*runtime);
        devices_open(*runtime);
        if (runtime->has_streams) {
            acre_stream stream;

            status_check(acre_stream_default(runtime->type, 0, &stream), "asking for streams");
            runtime->default_stream = stream.id;
        }
        caches_open(*runtime);
    } catch (...) {
        delete runtime;
        throw;
    }
    return runtime;
}

} // namespace

bool runtime_is_forked()
{
    return is_forked.load(std::memory_order_relaxed);
}

void fork_settle() noexcept
{
    if (__builtin_expect(!is_child.load(std::memory_order_relaxed), 1) || !is_child.exchange(false))
        return;
    try {
        at::set_num_threads(at::get_num_threads());
    } catch (...) {
        /* PyTorch says so itself when it starts its threads. */
    }
}

bool runtime_is_started()
{
    return the_runtime.load(std::memory_order_acquire) != nullptr;
}

Runtime &runtime()
{
    Runtime *runtime = the_runtime.load(std::memory_order_acquire);

    if (__builtin_expect(runtime && !runtime_is_forked(), 1))
        return *runtime;
    TORCH_CHECK(!runtime_is_forked(), "Cannot re-initialize ", c10::get_privateuse1_backend(),
                " in forked subprocess. To use ", c10::get_privateuse1_backend(),
                " with multiprocessing, you must use the 'spawn' start method");
    std::lock_guard<std::mutex> guard(start_mutex());
    runtime = the_runtime.load(std::memory_order_acquire);
    if (!runtime) {
        runtime = runtime_start();
        scratch_install();
        the_runtime.store(runtime, std::memory_order_release);
    }
    return *runtime;
}

int runtime_count() noexcept
{
    try {
        Runtime *runtime = the_runtime.load(std::memory_order_acquire);

        if (runtime)
            return runtime->count;
        if (variable_text("ACRE_TORCH_DEVICE", "sim") == "sim" &&
            variable_text("ACRE_TORCH_BACKEND", "").empty()) {
            acre_sim_config config = sim_settings();

            return config.devices ? static_cast<int>(config.devices) : 2;
        }
        if (variable_text("ACRE_TORCH_DEVICE", "sim") == "host")
            return 1;
        return acre_torch::runtime().count;
    } catch (...) {
        return 0;
    }
}

int current_index()
{
    int index = 0;

    status_check(acre_device_current(runtime().type, &index), "asking for the current device");
    return index;
}

acre_cache *cache_of(int index)
{
    Runtime &here = runtime();

    if (index < 0)
        index = current_index();
    TORCH_CHECK(index < here.count, "device index ", index, " is out of range: there are ",
                here.count, " devices, 0 to ", here.count - 1);
    return here.caches[index];
}

int captures_open(int difference)
{
    static std::atomic<int> count{0};

    return difference ? count += difference : count.load(std::memory_order_relaxed);
}

acre_stream stream_inner(const c10::Stream &stream)
{
    Runtime &here = runtime();
    acre_stream inner = {};

    inner.id = stream.id() == 0 ? here.default_stream : stream.id();
    inner.index = stream.device_index();
    inner.type = here.type;
    return inner;
}

c10::Stream stream_outer(const acre_stream &stream)
{
    int64_t id = stream.id == runtime().default_stream ? 0 : stream.id;

    return c10::Stream(c10::Stream::UNSAFE,
                       c10::Device(c10::DeviceType::PrivateUse1,
                                   static_cast<c10::DeviceIndex>(stream.index)), id);
}

void *stream_native(const c10::Stream &stream)
{
    void *native = nullptr;

    if (runtime().has_streams)
        status_check(acre_stream_native(stream_inner(stream), &native), "using a stream");
    return native;
}

void *current_native(int index)
{
    Runtime &here = runtime();
    acre_stream stream;
    void *native = nullptr;

    if (!here.has_streams)
        return nullptr;
    status_check(acre_stream_current(here.type, index, &stream), "asking for a stream");
    status_check(acre_stream_native(stream, &native), "using a stream");
    return native;
}

} // namespace acre_torch
