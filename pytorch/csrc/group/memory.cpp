/* SPDX-License-Identifier: MIT */
#include "group/memory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace acre_torch::group {

void tensor_check(const at::Tensor &tensor, const char *call)
{
    TORCH_CHECK(tensor.defined(), "Acre: ", call, ": the tensor is undefined");
    TORCH_CHECK(tensor.layout() == c10::kStrided, "Acre: ", call, ": a tensor of layout ",
                tensor.layout(), " is not served; convert it with to_dense()");
    TORCH_CHECK(tensor.is_cpu() || tensor.is_privateuseone(), "Acre: ", call, ": a tensor on "
                "device ", tensor.device(), " is not served; process group \"acre\" serves cpu "
                "and acre: move the tensor, or add a backend for its device to "
                "init_process_group()");
}

Flat::Flat(const at::Tensor &tensor, Use use)
    : original_(tensor), is_copy_(!tensor.is_contiguous())
{
    at::NoGradGuard no_grad;

    flat_ = !is_copy_            ? tensor
            : use == Use::OUT    ? at::empty(tensor.sizes(), tensor.options())
                                 : tensor.contiguous();
    if (use == Use::IN)
        is_copy_ = false;
}

void Flat::finish()
{
    at::NoGradGuard no_grad;

    if (is_copy_)
        original_.copy_(flat_);
}

Access::Access(const std::vector<Flat> &flats)
{
    bool has_waited = false;

    for (const Flat &flat : flats) {
        if (!flat.tensor().is_privateuseone())
            continue;
        if (!has_waited)
            tensors_wait();
        has_waited = true;
        windows_.open(flat.tensor());
    }
}

void tensors_wait()
{
    if (!runtime_is_started())
        return;
    for (int i = 0; i < runtime_count(); i++)
        c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1)
            .synchronizeDevice(static_cast<c10::DeviceIndex>(i));
}

} // namespace acre_torch::group
