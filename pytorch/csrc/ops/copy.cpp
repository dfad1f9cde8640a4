/* SPDX-License-Identifier: MIT */
/* Copies between tensors: of the device, of two devices, and of the host.
 *
 * Two ways lead through here. What may stay in the background (non_blocking, with page-locked
 * memory on the host's side) and what a graph captures is queued on the current stream, when
 * both sides lie in memory alike. Everything else waits for the streams and lets the CPU copy
 * do the work on the same memory: strides, types and broadcasts are then as on the CPU.
 */
#include "device/allocator.h"
#include "device/pinned.h"
#include "device/runtime.h"
#include "device/status.h"
#include "ops/alias.h"
#include "ops/window.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <c10/core/Event.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

struct Sides {
    const at::Tensor &from;
    const at::Tensor &to;
    size_t bytes;

    bool is_down() const
    {
        return is_acre(from) && !is_acre(to);
    }

    bool is_up() const
    {
        return !is_acre(from) && is_acre(to);
    }
};

/* Whether the bytes of both tensors mean the same in the same order. */
bool sides_match(const Sides &sides)
{
    return sides.from.dtype() == sides.to.dtype() && sides.from.sizes() == sides.to.sizes() &&
           sides.from.strides() == sides.to.strides() &&
           sides.to.is_non_overlapping_and_dense() && sides.from.is_conj() == sides.to.is_conj() &&
           sides.from.is_neg() == sides.to.is_neg();
}

bool is_capturing(const Sides &sides)
{
    c10::Device device = is_acre(sides.to) ? sides.to.device() : sides.from.device();
    auto info = sized<acre_capture_info>();
    info.struct_size = sizeof info;

    return captures_open() > 0 && runtime().has_streams &&
           acre_capture_info_get(runtime().devices[device.index()],
                                 current_native(device.index()), &info) == ACRE_OK &&
           info.status != ACRE_CAPTURE_NONE;
}

c10::Stream stream_of(c10::Device device)
{
    return c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->getStream(device);
}

/* Later work of one stream waits for what is queued on the other now. */
void stream_follow(const c10::Stream &later, const c10::Stream &earlier)
{
    c10::Event event(c10::DeviceType::PrivateUse1);

    event.record(earlier);
    event.block(later);
}

/* Queues a copy between two devices on the source's stream; the destination's stream has
 * reached this point before, and waits for the end of the copy. */
void queue_between(const Sides &sides)
{
    Runtime &here = runtime();
    c10::Stream source = stream_of(sides.from.device()), target = stream_of(sides.to.device());
    acre_device *from = here.devices[sides.from.device().index()];
    acre_device *to = here.devices[sides.to.device().index()];
    void *target_data = sides.to.mutable_data_ptr();
    const void *source_data = sides.from.const_data_ptr();

    if (from == to) {
        status_check(acre_copy_async(from, target_data, source_data, sides.bytes,
                                     ACRE_COPY_DEVICE_TO_DEVICE, stream_native(source)),
                     "copying");
        return;
    }
    stream_follow(source, target);
    status_check(acre_copy_peer_async(from, target_data, to, source_data, from, sides.bytes,
                                      stream_native(source)), "copying between devices");
    stream_follow(target, source);
}

/* Queues a copy between the host and the device. */
void queue_host(const Sides &sides)
{
    bool is_up = sides.is_up();
    const at::Tensor &inner = is_up ? sides.to : sides.from;
    const at::Tensor &outer = is_up ? sides.from : sides.to;
    int index = inner.device().index();

    status_check(acre_copy_async(runtime().devices[index], sides.to.mutable_data_ptr(),
                                 sides.from.const_data_ptr(), sides.bytes,
                                 is_up ? ACRE_COPY_HOST_TO_DEVICE : ACRE_COPY_DEVICE_TO_HOST,
                                 current_native(index)), "copying");
    (void)pinned_record(outer.storage().data_ptr(), stream_of(inner.device()));
}

/* Whether the copy may be queued: there are streams, and host memory is page-locked. */
bool is_queueable(const Sides &sides)
{
    const at::Tensor &outer = is_acre(sides.to) ? sides.from : sides.to;

    return runtime().has_streams && sides_match(sides) &&
           (is_acre(outer) || pinned_is(outer.const_data_ptr()));
}

void copy_now(const at::Tensor &from, const at::Tensor &to)
{
    Windows windows;
    at::AutoDispatchBelowADInplaceOrView guard;

    if (is_acre(from)) {
        stream_settle(from.device().index());
        windows.open(from);
    }
    if (is_acre(to)) {
        if (!is_acre(from) || from.device() != to.device())
            stream_settle(to.device().index());
        windows.open(to);
    }
    at::Tensor source = is_acre(from) ? alias_make(from, false) : from;
    at::Tensor target = is_acre(to) ? alias_make(to, true) : to;
    target.copy_(source);
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool non_blocking)
{
    Sides sides = {from, to, to.nbytes()};

    TORCH_CHECK(from.defined() && to.defined(), "copy_: a tensor is undefined");
    TORCH_CHECK(is_acre(from) || from.device().is_cpu(), "copy_: cannot copy from ",
                from.device());
    TORCH_CHECK(is_acre(to) || to.device().is_cpu(), "copy_: cannot copy to ", to.device());
    TORCH_CHECK(from.layout() == at::kStrided && to.layout() == at::kStrided,
                "copy_: only strided tensors can be copied here, not ", from.layout(), " to ",
                to.layout());
    if (to.numel() == 0 || from.is_same(to))
        return to;
    bool captures = is_capturing(sides);
    if ((non_blocking || captures) && is_queueable(sides)) {
        c10::DeviceGuard guard(is_acre(from) ? from.device() : to.device());

        if (is_acre(from) && is_acre(to))
            queue_between(sides);
        else
            queue_host(sides);
        return to;
    }
    TORCH_CHECK(!captures, "copy_: while a graph is captured, both sides need one type, one "
                "shape and one layout, and memory on the host must be page-locked");
    copy_now(from, to);
    return to;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to)
{
    if (from.sizes() != to.sizes())
        to.resize_(from.sizes());
    return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor &self)
{
    Windows windows;

    capture_refuse(self.device().index(), "aten::_local_scalar_dense");
    stream_settle(self.device().index());
    windows.open(self);
    return at::native::_local_scalar_dense_cpu(alias_make(self, false));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", local_scalar_dense);
}

/* The CPU copy resolves both bits by itself. */
TORCH_LIBRARY_IMPL(aten, Conjugate, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

} // namespace
} // namespace acre_torch
