/* SPDX-License-Identifier: MIT */
/* Kernels of our own that are written with CPU operators on the device's memory. */
#pragma once

#include "device/scratch.h"
#include "ops/exchange.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>

namespace acre_torch {

/* In scope: the stream has done its work, autograd is off, CPU allocations come from the
 * device. name is that of the operator, for refusing while a graph is captured. */
class HostScope {
public:
    HostScope(c10::Device device, const char *name)
        : settled_(settle(device, name)), guard_(device), scratch_(device.index())
    {
        exchange_.device_set(device);
    }

    at::Tensor enter(const at::Tensor &tensor, bool is_write = false)
    {
        return exchange_.enter(tensor, is_write);
    }
    std::optional<at::Tensor> enter(const std::optional<at::Tensor> &tensor)
    {
        return tensor && tensor->defined() ? std::optional(exchange_.enter(*tensor))
                                           : std::nullopt;
    }
    at::Tensor leave(at::Tensor &&result)
    {
        exchange_.count(result);
        return exchange_.leave(std::move(result));
    }

private:
    static bool settle(c10::Device device, const char *name)
    {
        capture_refuse(device.index(), name);
        stream_settle(device.index());
        return true;
    }

    bool settled_;
    c10::DeviceGuard guard_;
    at::AutoDispatchBelowADInplaceOrView below_;
    Scratch scratch_;
    Exchange exchange_;
};

} // namespace acre_torch
