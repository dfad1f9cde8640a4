/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_allocator.h"

#include "device/scratch.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstring>
#include <string>

namespace acre_torch {
namespace {

/* The heap of all tensors; set once. */
std::atomic<acre_hostmem *> heap_now{nullptr};

/* Tells torch.profiler about a block, with the size of the block on both occasions. */
C10_NOINLINE void block_report(acre_hostmem *heap, void *pointer, int sign)
{
    auto bytes = static_cast<int64_t>(acre_hostmem_usable_bytes(heap, pointer));

    c10::reportMemoryUsageToProfiler(pointer, sign * bytes, 0, 0,
                                     c10::Device(c10::DeviceType::CPU));
}

void block_free(void *pointer)
{
    acre_hostmem *heap = heap_now.load(std::memory_order_relaxed);

    if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
        block_report(heap, pointer, -1);
    acre_hostmem_free(heap, pointer);
}

[[noreturn]] void allocation_failed(acre_hostmem *heap, size_t bytes)
{
    std::string text = acre_last_error();
    char report[4096];

    acre_hostmem_report(heap, 8, report, sizeof report);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU tensor of ", bytes, " bytes: ", text, "\n",
                     report);
}

class CpuAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t bytes) override
    {
        acre_hostmem *heap = heap_now.load(std::memory_order_relaxed);
        void *pointer = nullptr;

        if (C10_UNLIKELY(acre_hostmem_alloc(heap, bytes, &pointer) != ACRE_OK))
            allocation_failed(heap, bytes);
        if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
            block_report(heap, pointer, 1);
        return {pointer, pointer, &block_free, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return &block_free;
    }
    void copy_data(void *to, const void *from, std::size_t bytes) const override
    {
        std::memcpy(to, from, bytes);
    }
};

/* What served before. */
c10::Allocator *allocator_before = nullptr;

} // namespace

void cpu_enable(acre_hostmem *heap)
{
    static auto *allocator = new CpuAllocator;
    acre_hostmem *none = nullptr;

    TORCH_CHECK(heap_now.compare_exchange_strong(none, heap) || none == heap,
                "CPU tensors have another heap already");
    if (!allocator_before)
        allocator_before = scratch_base();
    scratch_base_set(allocator);
}

void cpu_disable()
{
    if (allocator_before)
        scratch_base_set(allocator_before);
}

uintptr_t cpu_library_mark()
{
    return reinterpret_cast<uintptr_t>(&acre_hostmem_create);
}

} // namespace acre_torch
