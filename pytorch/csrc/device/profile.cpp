/* SPDX-License-Identifier: MIT */
/* Marks for PyTorch's profiler: events on the current stream. */
#include "device/runtime.h"
#include "device/status.h"

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

namespace acre_torch {
namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : ProfilerStubs {
    void record(c10::DeviceIndex *device, ProfilerVoidEventStub *event,
                int64_t *cpu_ns) const override
    {
        auto mark = std::make_shared<c10::Event>(c10::DeviceType::PrivateUse1,
                                                 c10::EventFlag::BACKEND_DEFAULT);
        c10::Device here(c10::DeviceType::PrivateUse1,
                         static_cast<c10::DeviceIndex>(current_index()));

        mark->record(c10::impl::getDeviceGuardImpl(here.type())->getStream(here));
        if (device)
            *device = here.index();
        if (cpu_ns)
            *cpu_ns = std::chrono::steady_clock::now().time_since_epoch().count();
        *event = mark;
    }

    float elapsed(const ProfilerVoidEventStub *from,
                  const ProfilerVoidEventStub *to) const override
    {
        auto *first = static_cast<c10::Event *>(from->get());
        auto *second = static_cast<c10::Event *>(to->get());

        first->synchronize();
        second->synchronize();
        return static_cast<float>(first->elapsedTime(*second) * 1000.0);
    }

    void mark(const char *) const override {}
    void rangePush(const char *) const override {}
    void rangePop() const override {}

    bool enabled() const override
    {
        return true;
    }

    void onEachDevice(std::function<void(int)> op) const override
    {
        for (int i = 0; i < runtime_count(); i++)
            op(i);
    }

    void synchronize() const override
    {
        for (int i = 0; runtime_is_started() && i < runtime_count(); i++)
            (void)acre_device_synchronize(runtime().devices[i]);
    }
};

const bool is_profile_registered = [] {
    torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
    return true;
}();

} // namespace
} // namespace acre_torch
