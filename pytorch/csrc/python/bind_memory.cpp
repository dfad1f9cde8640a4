/* SPDX-License-Identifier: MIT */
/* Calls on caches and on page-locked memory for torch.acre.memory. */
#include "device/allocator.h"
#include "device/pinned.h"
#include "device/runtime.h"
#include "device/status.h"
#include "python/binding.h"

#include <torch/csrc/Exceptions.h>

namespace {

using namespace acre_torch;

py::dict stat_dict(const acre_stat &stat)
{
    py::dict out;

    out["current"] = stat.current;
    out["peak"] = stat.peak;
    out["allocated"] = stat.allocated;
    out["freed"] = stat.freed;
    return out;
}

py::dict stat_array_dict(const acre_stat_array &array)
{
    py::dict out;

    out["all"] = stat_dict(array.all);
    out["small_pool"] = stat_dict(array.small_pool);
    out["large_pool"] = stat_dict(array.large_pool);
    return out;
}

/* All statistics of a device under the names that torch.cuda uses. */
py::dict memory_stats(int index)
{
    acre_cache_stats stats = {};
    py::dict out;

    stats.struct_size = sizeof stats;
    status_check(acre_cache_stats_get(cache_of(index), &stats), "reading statistics");
#define FILL(name, text) out[#name] = stat_array_dict(stats.name);
    ACRE_CACHE_STAT_ARRAYS(FILL)
#undef FILL
#define FILL(name, text) out[#name] = stat_dict(stats.name);
    ACRE_CACHE_STATS(FILL)
#undef FILL
#define FILL(name, text) out[#name] = stats.name;
    ACRE_CACHE_COUNTERS(FILL)
#undef FILL
    return out;
}

py::dict time_dict(const acre_pinned_time &time)
{
    py::dict out;

    out["total"] = time.total;
    out["max"] = time.max;
    out["min"] = time.min;
    out["count"] = time.count;
    out["avg"] = time.avg;
    return out;
}

py::dict host_stats()
{
    acre_pinned_stats stats = {};
    py::dict out;
    py::list buckets;

    stats.struct_size = sizeof stats;
    status_check(acre_pinned_stats_get(pinned_get(), &stats), "reading statistics");
#define FILL(name, text) out[#name] = stat_dict(stats.name);
    ACRE_PINNED_STATS(FILL)
#undef FILL
#define FILL(name, text) out[#name] = stats.name;
    ACRE_PINNED_COUNTERS(FILL)
#undef FILL
    out["host_alloc_time"] = time_dict(stats.host_alloc_time);
    out["host_free_time"] = time_dict(stats.host_free_time);
    for (int64_t count : stats.bucket_allocation)
        buckets.append(count);
    out["bucket_allocation"] = buckets;
    return out;
}

void settings_set(const std::string &text)
{
    std::string before;
    char buffer[4096];

    for (size_t i = 0; i < runtime().caches.size(); i++) {
        if (i == 0 && acre_cache_conf_get(runtime().caches[0], buffer, sizeof buffer) > 0)
            before = buffer;
        acre_status status = acre_cache_conf_set(runtime().caches[i], text.c_str());
        if (status == ACRE_OK && i == 0 && runtime().pinned)
            status = acre_pinned_conf_set(runtime().pinned, text.c_str());
        if (status != ACRE_OK && i > 0)
            (void)acre_cache_conf_set(runtime().caches[0], before.c_str());
        status_check(status, "setting options");
    }
}

std::string settings_get()
{
    int length = acre_cache_conf_get(runtime().caches[0], nullptr, 0);
    std::string text(static_cast<size_t>(length) + 1, '\0');

    acre_cache_conf_get(runtime().caches[0], text.data(), text.size());
    text.resize(static_cast<size_t>(length));
    return text;
}

std::string policy_get()
{
    return acre_cache_policy(runtime().caches[0]) == ACRE_POLICY_TORCH ? "torch" : "acre";
}

void fraction_set(double fraction, int index)
{
    status_check(acre_cache_memory_fraction_set(cache_of(index), fraction),
                 "setting the memory fraction");
}

py::dict device_properties(int index)
{
    auto info = sized<acre_device_info>();
    py::dict out;

    status_check(acre_device_info_get(acre_cache_device(cache_of(index)), &info),
                 "asking a device");
    out["name"] = std::string(info.name);
    out["total_memory"] = info.total_bytes;
    out["multi_processor_count"] = info.compute_units;
    out["page_bytes"] = info.page_bytes;
    out["capabilities"] = info.capabilities;
    out["backend"] = std::string(acre_backend_name(runtime().backend));
    return out;
}

uint64_t raw_alloc(size_t bytes, int index, int64_t stream)
{
    void *native = stream_native(c10::Stream(
        c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1,
                                         static_cast<c10::DeviceIndex>(index)), stream));
    void *pointer = nullptr;

    status_check(acre_cache_alloc(cache_of(index), bytes, native, &pointer), "allocating");
    return reinterpret_cast<uint64_t>(pointer);
}

void raw_free(uint64_t address)
{
    status_check(acre_cache_allocator_free(runtime().allocator,
                                           reinterpret_cast<void *>(address)), "freeing");
}

void caching_enable(bool enabled)
{
    for (acre_cache *cache : runtime().caches)
        acre_cache_enable(cache, enabled);
}

void memory_bind(py::module_ &m)
{
    m.def("_memory_stats", &memory_stats);
    m.def("_host_stats", &host_stats);
    m.def("_host_stats_reset_peak", [] { acre_pinned_stats_reset_peak(pinned_get()); });
    m.def("_host_stats_reset_accumulated",
          [] { acre_pinned_stats_reset_accumulated(pinned_get()); });
    m.def("_settings_set", &settings_set);
    m.def("_settings_get", &settings_get);
    m.def("_policy", &policy_get);
    m.def("_fraction_set", &fraction_set);
    m.def("_fraction_get", [](int index) {
        return acre_cache_memory_fraction_get(cache_of(index));
    });
    m.def("_device_properties", &device_properties);
    m.def("_raw_alloc", &raw_alloc);
    m.def("_raw_free", &raw_free);
    m.def("_threads_park", &threads_park);
    m.def("_caching_enable", &caching_enable);
    m.def("_cache_check", [](int index) {
        status_check(acre_cache_check(cache_of(index)), "checking the cache");
    });
    m.def("_peer_access", [](int from, int to) {
        bool can = false;

        status_check(acre_device_can_access_peer(acre_cache_device(cache_of(from)),
                                                 acre_cache_device(cache_of(to)), &can),
                     "asking for peers");
        return can;
    });
}

Binding memory_binding(memory_bind);

} // namespace
