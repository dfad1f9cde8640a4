/* SPDX-License-Identifier: MIT */
#include "group/memory.h"

#include "device/counted.h"

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

void list_check(const std::vector<at::Tensor> &list, int size, const at::Tensor &like,
                const char *call)
{
    TORCH_CHECK_VALUE(list.size() == static_cast<std::size_t>(size), "Acre: ", call, ": a list of ",
                      counted(list.size(), "tensor"), " was given for ", counted(size, "rank"));
    for (const at::Tensor &tensor : list) {
        tensor_check(tensor, call);
        TORCH_CHECK_VALUE(tensor.scalar_type() == like.scalar_type(), "Acre: ", call,
                          ": tensors of types ", tensor.scalar_type(), " and ",
                          like.scalar_type(), " cannot be combined");
        TORCH_CHECK_VALUE(tensor.numel() == like.numel(), "Acre: ", call, ": tensors of ",
                          tensor.numel(), " and ", like.numel(), " elements cannot be combined; "
                          "all tensors of the list must be equally large");
    }
}

void base_check(const at::Tensor &whole, const at::Tensor &part, int size, const char *call)
{
    tensor_check(whole, call);
    tensor_check(part, call);
    TORCH_CHECK_VALUE(whole.scalar_type() == part.scalar_type(), "Acre: ", call,
                      ": tensors of types ", whole.scalar_type(), " and ", part.scalar_type(),
                      " cannot be combined");
    TORCH_CHECK_VALUE(whole.numel() == part.numel() * size, "Acre: ", call, ": a tensor of ",
                      counted(whole.numel(), "element"), " does not hold ", counted(size, "part"),
                      " of ", part.numel());
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
