/* SPDX-License-Identifier: MIT */
/* Page-locked host memory: at::HostAllocator over Acre's pinned cache. */
#include "device/pinned.h"

#include "device/runtime.h"
#include "device/stat.h"
#include "device/status.h"

#include <ATen/core/CachingHostAllocator.h>

namespace acre_torch {
namespace {

using c10::CachingAllocator::DurationStat;

void pinned_delete(void *pointer)
{
    if (!runtime_is_forked())
        (void)acre_pinned_free(runtime().pinned, pointer);
}

void time_fill(DurationStat &to, const acre_pinned_time &from)
{
    to.total = from.total;
    to.max = from.max;
    to.min = from.min;
    to.count = from.count;
}

struct PinnedAllocator final : at::HostAllocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        void *pointer = nullptr;

        status_check(acre_pinned_alloc(pinned_get(), bytes, &pointer),
                     "allocating page-locked host memory");
        return {pointer, pointer, &pinned_delete, c10::Device(c10::DeviceType::CPU)};
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return &pinned_delete;
    }

    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        std::memcpy(to, from, bytes);
    }

    bool record_event(void *pointer, void *context, c10::Stream stream) override
    {
        bool is_known = false;

        if (!runtime().has_streams)
            return false;
        status_check(acre_pinned_record_event(pinned_get(), pointer, context,
                                              stream_inner(stream), &is_known),
                     "recording a use of page-locked memory");
        return is_known;
    }

    void empty_cache() override
    {
        if (runtime_is_started() && runtime().pinned)
            status_check(acre_pinned_empty(runtime().pinned), "emptying the host cache");
    }

    at::HostStats get_stats() override
    {
        acre_pinned_stats from = {};
        at::HostStats to;

        from.struct_size = sizeof from;
        status_check(acre_pinned_stats_get(pinned_get(), &from), "reading statistics");
        stat_fill(to.active_requests, from.active_requests);
        stat_fill(to.active_bytes, from.active_bytes);
        stat_fill(to.allocations, from.allocations);
        stat_fill(to.allocated_bytes, from.allocated_bytes);
        time_fill(to.host_alloc_time, from.host_alloc_time);
        time_fill(to.host_free_time, from.host_free_time);
        to.num_host_alloc = from.num_host_alloc;
        to.num_host_free = from.num_host_free;
        for (size_t i = 0; i < to.bucket_allocation.size() && i < ACRE_PINNED_BUCKETS; i++)
            to.bucket_allocation[i] = from.bucket_allocation[i];
        return to;
    }

    void reset_accumulated_stats() override
    {
        acre_pinned_stats_reset_accumulated(pinned_get());
    }

    void reset_peak_stats() override
    {
        acre_pinned_stats_reset_peak(pinned_get());
    }

    void begin_allocate_to_pool(c10::MempoolId_t id,
                                std::function<bool(c10::Stream)> filter) override
    {
        status_check(acre_pinned_pool_begin(pinned_get(), {id.first, id.second}, nullptr),
                     "opening a pool of host memory");
    }

    void end_allocate_to_pool(c10::MempoolId_t id) override
    {
        status_check(acre_pinned_pool_end(pinned_get(), {id.first, id.second}),
                     "closing a pool of host memory");
    }

    void release_pool(c10::MempoolId_t id) override
    {
        status_check(acre_pinned_pool_release(pinned_get(), {id.first, id.second}),
                     "releasing a pool of host memory");
    }
};

/* Never destroyed, as the allocator of device memory. */
PinnedAllocator &pinned_allocator = *new PinnedAllocator;

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &pinned_allocator)

} // namespace

acre_pinned *pinned_get()
{
    acre_pinned *pinned = runtime().pinned;

    TORCH_CHECK(pinned, "the backend \"", acre_backend_name(runtime().backend),
                "\" has no page-locked host memory; leave pin_memory out");
    return pinned;
}

bool pinned_record(const c10::DataPtr &pointer, const c10::Stream &stream)
{
    return pointer.get_deleter() == &pinned_delete &&
           pinned_allocator.record_event(pointer.get(), pointer.get_context(), stream);
}

bool pinned_is(const void *pointer)
{
    return runtime().pinned && acre_hook_is_pinned(runtime().type, pointer);
}

} // namespace acre_torch
