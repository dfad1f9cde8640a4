/* SPDX-License-Identifier: MIT */
#include "ops/call.h"

#include "device/generator.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace acre_torch {
namespace {

/* Operators that take tensors of the host beside those of the device, as on other
 * accelerators: indices, lengths, shapes of nested tensors, and steps of optimizers. What is
 * indexed lies on the device. */
bool takes_host(std::string_view name)
{
    static constexpr std::string_view names[] = {
        "aten::index", "aten::index_put", "aten::index_put_",
    };
    static constexpr std::string_view prefixes[] = {
        "aten::_index_put_impl_", "aten::_unsafe_index", "aten::_unsafe_masked",
        "aten::_pack_padded", "aten::_pad_packed", "aten::lstm", "aten::gru", "aten::rnn",
        "aten::_ctc_loss", "aten::ctc_loss", "aten::_fused_", "aten::_foreach_",
        "aten::segment_reduce", "aten::_segment_reduce", "aten::_thnn_", "aten::_nested_",
    };

    if (std::find(std::begin(names), std::end(names), name) != std::end(names))
        return true;
    for (std::string_view prefix : prefixes)
        if (name.starts_with(prefix))
            return true;
    return false;
}

} // namespace

/* ---- The device ---------------------------------------------------------------------- */

void Call::see_tensor(const at::Tensor &tensor, bool is_write)
{
    if (!tensor.defined())
        return;
    if (!tensor.device().is_privateuseone()) {
        if ((tensor.dim() > 0 || is_write) && tensor.device().is_cpu())
            has_host_ = true;
        return;
    }
    has_sparse_ |= tensor.is_sparse();
    has_nested_ |= tensor.is_nested();
    if (!has_device_) {
        has_device_ = true;
        device_ = tensor.device();
    }
    TORCH_CHECK(device_ == tensor.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                device_, " and ", tensor.device(), "! (when checking arguments of ",
                op_.operator_name(), ")");
}

void Call::see_value(const c10::IValue &value, bool is_write)
{
    if (value.isTensor()) {
        see_tensor(value.toTensor(), is_write);
    } else if (value.isTensorList()) {
        for (const at::Tensor &tensor : value.toTensorList())
            see_tensor(tensor, is_write);
    } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorList())
            if (tensor)
                see_tensor(*tensor, is_write);
    }
}

/* A tensor of the host is not indexed by tensors of the device: where the result would lie
 * depends on who looks. */
void Call::indexed_check(const torch::jit::Stack &stack, size_t begin) const
{
    if (stack.size() < begin + 2 || !stack[begin].isTensor() ||
        !stack[begin].toTensor().device().is_cpu() || !stack[begin + 1].isOptionalTensorList())
        return;
    for (const std::optional<at::Tensor> &index : stack[begin + 1].toOptionalTensorList())
        TORCH_CHECK(!index || !index->defined() || !index->device().is_privateuseone(),
                    "indices should be either on cpu or on the same device as the indexed tensor "
                    "(cpu)");
}

void Call::find_device(const torch::jit::Stack &stack, size_t begin)
{
    const auto &arguments = op_.schema().arguments();

    for (size_t i = begin; i < stack.size(); i++) {
        const c10::AliasInfo *info = arguments[i - begin].alias_info();

        see_value(stack[i], info && info->isWrite());
    }
    for (size_t i = begin; !has_device_ && i < stack.size(); i++)
        if (stack[i].isDevice() && stack[i].toDevice().is_privateuseone()) {
            has_device_ = true;
            device_ = stack[i].toDevice();
        }
    if (!device_.has_index())
        device_.set_index(static_cast<c10::DeviceIndex>(current_index()));
    TORCH_CHECK(!has_host_ || takes_host(op_.schema().name()),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                device_, " and cpu! (when checking arguments of ", op_.operator_name(), ")");
    indexed_check(stack, begin);
}

/* ---- Arguments ----------------------------------------------------------------------- */

at::Tensor Call::tensor_enter(const at::Tensor &tensor, bool is_write)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!is_acre(tensor) || tensor.layout() == at::kStrided ||
                                    tensor.is_sparse(),
                                "Operator '", op_.operator_name(), "' is not served on this "
                                "device for tensors of layout ", tensor.layout(), ".");
    return exchange_.enter(tensor, is_write);
}

void Call::value_enter(c10::IValue &value, bool is_write)
{
    if (value.isTensor()) {
        if (is_acre(value.toTensor()))
            value = tensor_enter(value.toTensor(), is_write);
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;

        for (const at::Tensor &tensor : value.toTensorList())
            list.push_back(tensor_enter(tensor, is_write));
        value = std::move(list);
    } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;

        for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorList())
            list.push_back(tensor ? std::optional<at::Tensor>(tensor_enter(*tensor, is_write))
                                  : std::nullopt);
        value = std::move(list);
    } else if (value.isDevice() && value.toDevice().is_privateuseone()) {
        value = c10::Device(c10::DeviceType::CPU);
    } else if (value.isGenerator()) {
        value = generator_twin(value.toGenerator(), device_.index());
    }
}

void Call::enter(torch::jit::Stack &stack, size_t begin)
{
    const auto &arguments = op_.schema().arguments();

    exchange_.device_set(device_);
    for (size_t i = 0; i < arguments.size(); i++) {
        c10::IValue &value = stack[begin + i];
        const c10::AliasInfo *info = arguments[i].alias_info();

        if (!value.isNone())
            value_enter(value, info && info->isWrite());
        else if (*arguments[i].type() == *c10::OptionalType::create(c10::GeneratorType::get()))
            value = generator_twin({}, device_.index());
    }
}

/* ---- Results ------------------------------------------------------------------------- */

void Call::result_check(const at::Tensor &result) const
{
    TORCH_CHECK_NOT_IMPLEMENTED(
        !result.defined() || result.is_sparse() ||
            (result.layout() == at::kStrided && !result.is_quantized()) ||
            !result.device().is_cpu(),
        "Operator '", op_.operator_name(), "' is not served on this device: its result is a "
        "tensor of layout ", result.layout(), " and type ", result.dtype());
}

void Call::leave(torch::jit::Stack &stack, size_t begin)
{
    exchange_.update();
    for (size_t i = begin; i < stack.size(); i++) {
        if (stack[i].isTensor())
            result_check(stack[i].toTensor());
        if (stack[i].isTensor())
            exchange_.count(stack[i].toTensor());
        else if (stack[i].isTensorList())
            for (const at::Tensor &tensor : stack[i].toTensorList())
                exchange_.count(tensor);
    }
    for (size_t i = begin; i < stack.size(); i++) {
        if (stack[i].isTensor()) {
            stack[i] = exchange_.leave(std::move(stack[i]).toTensor());
        } else if (stack[i].isTensorList()) {
            std::vector<at::Tensor> results = stack[i].toTensorVector();
            c10::List<at::Tensor> list;

            stack[i] = c10::IValue();
            for (at::Tensor &result : results)
                list.push_back(exchange_.leave(std::move(result)));
            stack[i] = std::move(list);
        }
    }
}

} // namespace acre_torch
