/* SPDX-License-Identifier: MIT */
/* Current device, streams and events: c10::impl::DeviceGuardImplInterface over Acre's. */
#include "device/allocator.h"
#include "device/runtime.h"
#include "device/status.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace acre_torch {
namespace {

int index_of(c10::Device device)
{
    return device.has_index() ? device.index() : current_index();
}

c10::Stream stream_none(c10::Device device)
{
    return c10::Stream(c10::Stream::DEFAULT, device_at(index_of(device)));
}

/* Devices without streams finish their work before a call returns; their events are done
 * from the start, and hold the time of the record. */
struct Event {
    acre_event *inner = nullptr;
    int index = -1;
    double time_ms = 0;
};

double clock_ms()
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return c10::DeviceType::PrivateUse1;
    }

    c10::Device exchangeDevice(c10::Device device) const override
    {
        int previous = current_index();

        TORCH_CHECK(device.is_privateuseone(), "expected a device of this backend, got ", device);
        if (device.index() != previous)
            setDevice(device);
        return device_at(previous);
    }

    c10::Device getDevice() const override
    {
        return device_at(current_index());
    }

    void setDevice(c10::Device device) const override
    {
        int count = runtime().count;

        TORCH_CHECK(device.is_privateuseone(), "expected a device of this backend, got ", device);
        TORCH_CHECK(device.index() >= 0 && device.index() < count,
                    "The device index is out of range. It must be in [0, ", count,
                    "), but got ", static_cast<int>(device.index()), ".");
        status_check(acre_device_set(runtime().type, device.index()), "choosing a device");
    }

    void uncheckedSetDevice(c10::Device device) const noexcept override
    {
        if (runtime_is_started() && device.index() >= 0)
            (void)acre_device_set(runtime().type, device.index());
    }

    c10::Stream getStream(c10::Device device) const override
    {
        acre_stream stream;

        if (!runtime().has_streams)
            return stream_none(device);
        status_check(acre_stream_current(runtime().type, index_of(device), &stream),
                     "asking for the current stream");
        return stream_outer(stream);
    }

    c10::Stream getDefaultStream(c10::Device device) const override
    {
        return stream_none(device);
    }

    c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high) const override
    {
        acre_stream stream;

        if (!runtime().has_streams)
            return stream_none(device);
        status_check(acre_stream_from_pool_high(runtime().type, index_of(device), is_high,
                                                &stream), "taking a stream");
        return stream_outer(stream);
    }

    c10::Stream getNewStream(c10::Device device, int priority) const override
    {
        acre_stream stream;

        if (!runtime().has_streams)
            return stream_none(device);
        status_check(acre_stream_from_pool(runtime().type, index_of(device), priority, &stream),
                     "taking a stream");
        return stream_outer(stream);
    }

    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        c10::Stream previous = getStream(stream.device());

        if (runtime().has_streams)
            status_check(acre_stream_set_current(stream_inner(stream)), "choosing a stream");
        return previous;
    }

    void *getStreamNativeHandle(const c10::Stream stream) const override
    {
        return stream_native(stream);
    }

    /* The autograd engine asks before it starts a thread for each device. */
    c10::DeviceIndex deviceCount() const noexcept override
    {
        fork_settle();
        return static_cast<c10::DeviceIndex>(runtime_count());
    }

    c10::DeviceCapability getDeviceCapability(c10::Device) const override
    {
        // Types that can be converted; quantized ones, bits and parts of bytes only lie in memory.
        c10::DeviceCapability capability;
        capability.capability_data.capability_bits = 0;
        auto &types = capability.capability_data.supported_scalar_types;
#define TYPE_SERVED(_, name) types.has_##name = 1;
        AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(TYPE_SERVED)
#undef TYPE_SERVED
        types.has_UInt16 = types.has_UInt32 = types.has_UInt64 = 1;
        return capability;
    }

    bool queryStream(const c10::Stream &stream) const override
    {
        return !runtime().has_streams || acre_stream_query(stream_inner(stream));
    }

    void synchronizeStream(const c10::Stream &stream) const override
    {
        if (runtime().has_streams)
            status_check(acre_stream_synchronize(stream_inner(stream)), "waiting for a stream");
    }

    bool isStreamCapturing(const c10::Stream &stream) const override
    {
        auto info = sized<acre_capture_info>();
        info.struct_size = sizeof info;

        return runtime().has_streams &&
               acre_capture_info_get(runtime().devices[stream.device_index()],
                                     stream_native(stream), &info) == ACRE_OK &&
               info.status != ACRE_CAPTURE_NONE;
    }

    void synchronizeDevice(const c10::DeviceIndex index) const override
    {
        if (runtime().has_streams)
            status_check(acre_device_synchronize(acre_cache_device(cache_of(index))),
                         "waiting for the device");
    }

    void recordDataPtrOnStream(const c10::DataPtr &pointer,
                               const c10::Stream &stream) const override
    {
        memory_record_stream(pointer, stream);
    }

    /* ---- Events ---- */

    void record(void **event, const c10::Stream &stream, const c10::DeviceIndex index,
                const c10::EventFlag flag) const override
    {
        auto *own = static_cast<Event *>(*event);

        TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ",
                    static_cast<int>(index), " does not match recording stream's device index ",
                    static_cast<int>(stream.device_index()), ".");
        TORCH_CHECK(flag == c10::EventFlag::PYTORCH_DEFAULT ||
                    flag == c10::EventFlag::BACKEND_DEFAULT, "an event with an unknown flag");
        if (!own)
            own = event_new(flag == c10::EventFlag::BACKEND_DEFAULT);
        *event = own;
        own->index = stream.device_index();
        own->time_ms = clock_ms();
        if (own->inner)
            status_check(acre_event_record(own->inner, stream_inner(stream)),
                         "recording an event");
    }

    void block(void *event, const c10::Stream &stream) const override
    {
        auto *own = static_cast<Event *>(event);

        if (own && own->inner)
            status_check(acre_event_block(own->inner, stream_inner(stream)),
                         "waiting for an event");
    }

    bool queryEvent(void *event) const override
    {
        auto *own = static_cast<Event *>(event);

        return !own || !own->inner || acre_event_query(own->inner);
    }

    void synchronizeEvent(void *event) const override
    {
        auto *own = static_cast<Event *>(event);

        if (own && own->inner)
            status_check(acre_event_synchronize(own->inner), "waiting for an event");
    }

    double elapsedTime(void *start, void *end, const c10::DeviceIndex) const override
    {
        auto *first = static_cast<Event *>(start), *second = static_cast<Event *>(end);
        double ms = 0;

        TORCH_CHECK(first && second,
                    "Both events must be recorded before calculating elapsed time.");
        if (!first->inner)
            return second->time_ms - first->time_ms;
        status_check(acre_event_elapsed(first->inner, second->inner, &ms), "measuring time");
        return ms;
    }

    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
    {
        auto *own = static_cast<Event *>(event);

        if (own && !runtime_is_forked())
            acre_event_destroy(own->inner);
        delete own;
    }

private:
    static Event *event_new(bool has_time)
    {
        auto own = std::make_unique<Event>();

        if (runtime().has_streams)
            status_check(acre_event_create(runtime().type, has_time ? ACRE_EVENT_TIMING : 0,
                                           &own->inner), "making an event");
        return own.release();
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

} // namespace
} // namespace acre_torch
