/* SPDX-License-Identifier: MIT */
/* What PyTorch asks of the backend as a whole: at::PrivateUse1HooksInterface. */
#include "device/allocator.h"
#include "device/generator.h"
#include "device/runtime.h"
#include "device/status.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace acre_torch {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override
    {
        return true;
    }

    bool isAvailable() const override
    {
        return runtime_count() > 0;
    }

    bool hasPrimaryContext(c10::DeviceIndex index) const override
    {
        return runtime_is_started() && index >= 0 && index < runtime_count();
    }

    void init() const override
    {
        (void)runtime();
    }

    c10::DeviceIndex deviceCount() const override
    {
        return static_cast<c10::DeviceIndex>(runtime_count());
    }

    void setCurrentDevice(c10::DeviceIndex index) const override
    {
        status_check(acre_device_set(runtime().type, index), "choosing a device");
    }

    c10::DeviceIndex getCurrentDevice() const override
    {
        return static_cast<c10::DeviceIndex>(current_index());
    }

    c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override
    {
        int previous = 0;

        status_check(acre_device_exchange(runtime().type, index, &previous),
                     "choosing a device");
        return static_cast<c10::DeviceIndex>(previous);
    }

    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override
    {
        int previous = 0;

        status_check(acre_hook_maybe_exchange_device(runtime().type, index, &previous),
                     "choosing a device");
        return static_cast<c10::DeviceIndex>(previous);
    }

    const at::Generator &getDefaultGenerator(c10::DeviceIndex index) const override
    {
        return generator_default(index);
    }

    at::Generator getNewGenerator(c10::DeviceIndex index) const override
    {
        return generator_new(index);
    }

    at::Device getDeviceFromPtr(void *pointer) const override
    {
        acre_device_id device = {};

        status_check(acre_hook_device_of_pointer(runtime().type, pointer, &device),
                     "finding the device of a pointer");
        return at::Device(at::DeviceType::PrivateUse1,
                          static_cast<c10::DeviceIndex>(device.index));
    }

    bool isPinnedPtr(const void *pointer) const override
    {
        return runtime_is_started() && acre_hook_is_pinned(runtime().type, pointer);
    }

    at::Allocator *getPinnedMemoryAllocator() const override
    {
        return at::getHostAllocator(at::kPrivateUse1);
    }

    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override
    {
        storage_resize(storage.unsafeGetStorageImpl(), bytes);
    }
};

/* Registered when the library is loaded; PyTorch keeps it for ever. */
const bool is_hooks_registered = [] {
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
}();

} // namespace

void storage_resize(c10::StorageImpl *storage, size_t bytes)
{
    c10::Device device = storage->device();
    c10::DeviceGuard guard(device);
    size_t kept = std::min(bytes, storage->nbytes());

    TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
    c10::DataPtr fresh = allocator_get()->allocate(bytes);
    if (kept) {
        memory_copy_within(device.index(), fresh.get(), storage->data(), kept);
    }
    storage->set_data_ptr_noswap(std::move(fresh));
    storage->set_nbytes(bytes);
}

} // namespace acre_torch
