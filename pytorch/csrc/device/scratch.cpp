/* SPDX-License-Identifier: MIT */
#include "device/scratch.h"

#include "device/allocator.h"
#include "ops/window.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace acre_torch {
namespace {

/* The device that serves this thread's CPU allocations; -1: none. */
thread_local int scratch_index = -1;

/* What is behind the allocator in front, once that is installed. */
std::atomic<c10::Allocator *> the_base{nullptr};

/* Held while one of the two changes. Not destroyed at exit. */
std::mutex &base_mutex = *new std::mutex;

/* Beats the priority of anything that PyTorch installs by itself. */
constexpr uint8_t PRIORITY = 255;

/* With ACRE_TORCH_STRICT=1: scratch memory and its window. It is open while the memory lives;
 * that of an owner only while somebody works with the owner. */
struct Opened {
    int index;
    size_t bytes;
    const void *owner; /* NULL: none */
    bool is_open;
};

/* Never destroyed: memory may be freed after main. */
struct OpenedTable {
    std::mutex mutex;
    std::unordered_map<void *, Opened> all;
    std::unordered_map<const void *, int> users; /* how many work with an owner now */

    void owner_switch(const void *owner, bool is_open)
    {
        for (auto &[pointer, entry] : all) {
            if (entry.owner != owner || entry.is_open == is_open)
                continue;
            if (is_open)
                Windows::memory_open(entry.index, pointer, entry.bytes);
            else
                Windows::memory_close(entry.index, pointer, entry.bytes);
            entry.is_open = is_open;
        }
    }
};
OpenedTable &opened = *new OpenedTable;

/* Whose memory this thread's scratch memory is. */
thread_local const void *scratch_owner = nullptr;

void scratch_open(void *pointer, int index, size_t bytes)
{
    if (!Windows::are_needed())
        return;
    Windows::memory_open(index, pointer, bytes);
    std::lock_guard<std::mutex> guard(opened.mutex);
    opened.all[pointer] = {index, bytes, scratch_owner, true};
}

void scratch_close(void *pointer)
{
    if (!Windows::are_needed())
        return;
    std::lock_guard<std::mutex> guard(opened.mutex);
    auto found = opened.all.find(pointer);

    if (found == opened.all.end())
        return;
    if (found->second.is_open)
        Windows::memory_close(found->second.index, pointer, found->second.bytes);
    opened.all.erase(found);
}

void scratch_delete(void *pointer)
{
    scratch_close(pointer);
    memory_free(pointer);
}

/* Frees by address alone; for the few callers that hold bare pointers. */
void raw_delete(void *pointer)
{
    acre_device_id device;

    if (runtime_is_started() && !runtime_is_forked() &&
        acre_hook_device_of_pointer(runtime().type, pointer, &device) == ACRE_OK)
        scratch_delete(pointer);
    else
        scratch_base()->raw_deleter()(pointer);
}

struct ScratchAllocator final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        if (scratch_index < 0 || bytes == 0)
            return scratch_base()->allocate(bytes);
        void *pointer = memory_allocate(bytes, scratch_index);

        scratch_open(pointer, scratch_index, bytes);
        return {pointer, pointer, &scratch_delete, c10::Device(c10::DeviceType::CPU)};
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return scratch_base()->raw_deleter() ? &raw_delete : nullptr;
    }

    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        std::memcpy(to, from, bytes);
    }
};

ScratchAllocator &scratch_instance = *new ScratchAllocator;

} // namespace

Scratch::Scratch(int index) : previous_(scratch_index)
{
    scratch_index = index;
}

Scratch::~Scratch()
{
    scratch_index = previous_;
}

ScratchOwner::ScratchOwner(const void *owner) : owner_(owner), previous_(scratch_owner)
{
    if (!Windows::are_needed())
        return;
    std::lock_guard<std::mutex> guard(opened.mutex);

    if (opened.users[owner]++ == 0)
        opened.owner_switch(owner, true);
    scratch_owner = owner;
}

ScratchOwner::~ScratchOwner()
{
    if (!Windows::are_needed())
        return;
    std::lock_guard<std::mutex> guard(opened.mutex);

    scratch_owner = previous_;
    if (--opened.users[owner_] == 0) {
        opened.owner_switch(owner_, false);
        opened.users.erase(owner_);
    }
}

void scratch_install()
{
    std::lock_guard<std::mutex> guard(base_mutex);
    c10::Allocator *present = c10::GetAllocator(c10::DeviceType::CPU);

    if (present == &scratch_instance)
        return;
    the_base = present;
    c10::SetAllocator(c10::DeviceType::CPU, &scratch_instance, PRIORITY);
}

c10::Allocator *scratch_allocator()
{
    return &scratch_instance;
}

c10::Allocator *scratch_base()
{
    c10::Allocator *base = the_base.load(std::memory_order_acquire);

    return base ? base : c10::GetAllocator(c10::DeviceType::CPU);
}

void scratch_base_set(c10::Allocator *base)
{
    std::lock_guard<std::mutex> guard(base_mutex);

    if (c10::GetAllocator(c10::DeviceType::CPU) == &scratch_instance)
        the_base = base;
    else
        c10::SetAllocator(c10::DeviceType::CPU, base, PRIORITY);
}

c10::DataPtr scratch_take(c10::DataPtr &from, c10::Device device)
{
    if (from.get_deleter() != &scratch_delete)
        return {};
    void *pointer = from.release_context();

    scratch_close(pointer);
    return {pointer, pointer, memory_deleter(), device};
}

} // namespace acre_torch
