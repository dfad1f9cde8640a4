/* SPDX-License-Identifier: MIT */
/* Device memory: c10::DeviceAllocator over Acre's caches. */
#include "device/allocator.h"

#include "device/runtime.h"
#include "device/stat.h"
#include "device/status.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <unistd.h>

#include <atomic>
#include <cstring>

namespace acre_torch {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

acre_cache_stats stats_read(int index)
{
    acre_cache_stats stats = {};

    stats.struct_size = sizeof stats;
    status_check(acre_cache_stats_get(cache_of(index), &stats), "reading statistics");
    return stats;
}

/* Tells PyTorch's profiler that a pointer came or went. */
void profiler_tell(void *pointer, int index, int64_t bytes)
{
    acre_cache_stats stats = stats_read(index);

    c10::reportMemoryUsageToProfiler(pointer, bytes, stats.allocated_bytes.all.current,
                                     stats.reserved_bytes.all.current, device_at(index));
}

void stat_array_fill(StatArray &to, const acre_stat_array &from)
{
    stat_fill(to[static_cast<size_t>(StatType::AGGREGATE)], from.all);
    stat_fill(to[static_cast<size_t>(StatType::SMALL_POOL)], from.small_pool);
    stat_fill(to[static_cast<size_t>(StatType::LARGE_POOL)], from.large_pool);
}

void pools_fill(c10::CachingDeviceAllocator::DeviceStats &to, acre_cache *cache)
{
    std::vector<acre_pool_id> ids(64);
    size_t count = 0;

    while (acre_pool_ids(cache, ids.data(), ids.size(), &count) == ACRE_OK &&
           count > ids.size())
        ids.resize(count * 2);
    for (size_t i = 0; i < count; i++) {
        acre_pool_stats stats = {};

        stats.struct_size = sizeof stats;
        if (acre_pool_stats_get(cache, ids[i], &stats) == ACRE_OK)
            stat_array_fill(to.reserved_bytes_by_private_pools[{ids[i].graph, ids[i].user}],
                           stats.reserved_bytes);
    }
}

/* The deleter of every data pointer: the address is enough to find its cache. */
void memory_delete(void *pointer)
{
    if (__builtin_expect(c10::memoryProfilingEnabled() && !runtime_is_forked(), 0)) {
        acre_device_id device;
        uint64_t bytes = 0;

        if (acre_hook_device_of_pointer(runtime().type, pointer, &device) == ACRE_OK &&
            acre_cache_block_bytes(cache_of(device.index), pointer, &bytes) == ACRE_OK) {
            acre_allocator_raw_deallocate(runtime().allocator, pointer);
            profiler_tell(pointer, device.index, -static_cast<int64_t>(bytes));
            return;
        }
    }
    memory_free(pointer);
}

struct Allocator final : c10::DeviceAllocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        int index = current_index();
        void *pointer = memory_allocate(bytes, index);

        return {pointer, pointer, &memory_delete, device_at(index)};
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return &memory_delete;
    }

    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        if (bytes && runtime().has_copies)
            status_check(acre_allocator_copy_data(runtime().allocator, to, from, bytes),
                         "copying between two allocations");
        else if (bytes)
            std::memmove(to, from, bytes);
    }

    bool initialized() override
    {
        return runtime_is_started() && !runtime_is_forked();
    }

    void emptyCache(c10::MempoolId_t id) override
    {
        for (acre_cache *cache : runtime().caches) {
            acre_pool_id pool = {id.first, id.second};

            if (id.first == 0 && id.second == 0)
                status_check(acre_cache_empty(cache), "emptying the cache");
            else
                status_check(acre_pool_empty(cache, pool), "emptying a pool");
        }
    }

    void recordStream(const c10::DataPtr &pointer, c10::Stream stream) override
    {
        memory_record_stream(pointer, stream);
    }

    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override
    {
        c10::CachingDeviceAllocator::DeviceStats to;
        acre_cache_stats from = stats_read(index);

#define FILL(name, text) stat_array_fill(to.name, from.name);
        ACRE_CACHE_STAT_ARRAYS(FILL)
#undef FILL
#define FILL(name, text) stat_fill(to.name, from.name);
        ACRE_CACHE_STATS(FILL)
#undef FILL
#define FILL(name, text) to.name = from.name;
        ACRE_CACHE_COUNTERS(FILL)
#undef FILL
        pools_fill(to, cache_of(index));
        return to;
    }

    void resetAccumulatedStats(c10::DeviceIndex index) override
    {
        acre_cache_stats_reset_accumulated(cache_of(index));
    }

    void resetPeakStats(c10::DeviceIndex index) override
    {
        acre_cache_stats_reset_peak(cache_of(index));
    }

    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override
    {
        uint64_t free = 0, total = 0;

        status_check(acre_device_memory(acre_cache_device(cache_of(index)), &free, &total),
                     "asking for free memory");
        return {free, total};
    }
};

/* The interpreter ends: threads that allocate from now on stay where they are. Python ends
 * such threads in the middle of PyTorch's calls otherwise, which aborts the process. */
std::atomic<bool> is_ending{false};
thread_local bool is_ending_here = false;

/* Never destroyed: tensors of other threads and of static objects outlive main. */
Allocator &device_allocator = *new Allocator;

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &device_allocator)

} // namespace

c10::Allocator *allocator_get()
{
    return &device_allocator;
}

bool memory_is_ours(const c10::DataPtr &pointer)
{
    return pointer.get_deleter() == &memory_delete;
}

c10::DeleterFnPtr memory_deleter()
{
    return &memory_delete;
}

void threads_park()
{
    is_ending_here = true;
    is_ending.store(true);
}

void *memory_allocate(size_t bytes, int index)
{
    Runtime &here = runtime();
    void *pointer = nullptr;
    acre_status status;

    if (__builtin_expect(is_ending.load(std::memory_order_relaxed) && !is_ending_here, 0))
        for (;;)
            pause();

    if (bytes == 0)
        return nullptr;
    status = acre_cache_alloc(here.caches[index], bytes, current_native(index), &pointer);
    if (__builtin_expect(status != ACRE_OK, 0)) {
        std::string said = acre_last_error();
        acre_cache_stats stats = stats_read(index);

        if (status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_REJECTED) {
            c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes),
                                             stats.allocated_bytes.all.current,
                                             stats.reserved_bytes.all.current,
                                             device_at(index));
            TORCH_CHECK_WITH(OutOfMemoryError, false, said);
        }
        status_throw(status, "allocating");
    }
    if (__builtin_expect(c10::memoryProfilingEnabled(), 0)) {
        uint64_t rounded = bytes;

        acre_cache_block_bytes(here.caches[index], pointer, &rounded);
        profiler_tell(pointer, index, static_cast<int64_t>(rounded));
    }
    return pointer;
}

void memory_free(void *pointer)
{
    if (__builtin_expect(runtime_is_forked(), 0))
        return; /* it is memory of the parent, whose tensors this process only inherited */
    static const acre_deleter deleter = acre_allocator_raw_deleter(runtime().allocator);

    deleter(pointer);
}

void memory_copy_within(int index, void *to, const void *from, size_t bytes)
{
    if (runtime().has_copies)
        status_check(acre_copy_async(runtime().devices[index], to, from, bytes,
                                     ACRE_COPY_DEVICE_TO_DEVICE, current_native(index)),
                     "copying");
    else
        std::memmove(to, from, bytes);
}

void memory_record_stream(const c10::DataPtr &pointer, const c10::Stream &stream)
{
    acre_data_ptr inner;

    if (!pointer.get() || !memory_is_ours(pointer) || !runtime().has_streams)
        return;
    acre_data_ptr_make(&inner, pointer.get(), pointer.get_context(),
                       acre_allocator_raw_deleter(runtime().allocator),
                       {runtime().type, pointer.device().index()});
    status_check(acre_allocator_record_stream(runtime().allocator, &inner,
                                              stream_inner(stream)),
                 "recording a stream");
}

} // namespace acre_torch
