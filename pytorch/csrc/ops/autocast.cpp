/* SPDX-License-Identifier: MIT */
/* torch.autocast: the CPU's choice of types, so that results are those of the CPU.
 *
 * Operators that have an autocast kernel on the CPU get one here, of the same kind:
 *
 *   lower     floating arguments become the type of the autocast region
 *   promote   arguments become the widest type among them
 *   float32   arguments become float32
 */
#include "ops/autocast.h"

#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <string_view>

namespace acre_torch {
namespace {

constexpr auto device_type = c10::DeviceType::PrivateUse1;

constexpr std::string_view lower_names[] = {
    "_addmm_activation", "_convolution.deprecated", "_native_multi_head_attention", "addbmm",
    "addmm", "baddbmm", "bmm", "conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d",
    "conv3d.padding", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input",
    "conv_transpose3d.input", "linalg_vecdot", "linear", "matmul", "mkldnn_rnn_layer", "mm",
    "prelu", "scaled_dot_product_attention",
};

constexpr std::string_view promote_names[] = {"cat", "stack", "index_copy"};

/* Other accelerators compute these in float32; the CPU leaves them alone. */
constexpr std::string_view float_names[] = {"acos", "asin", "cosh", "erfinv", "sinh", "tan"};

template <size_t count>
bool is_among(const std::string_view (&names)[count], std::string_view name)
{
    return std::find(names, names + count, name) != names + count;
}

void value_cast(c10::IValue &value, at::ScalarType type)
{
    auto cast = [type](const at::Tensor &tensor) {
        return at::autocast::cached_cast(type, tensor, device_type);
    };

    if (value.isTensor() && value.toTensor().defined()) {
        value = cast(value.toTensor());
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;

        for (const at::Tensor &tensor : value.toTensorList())
            list.push_back(cast(tensor));
        value = std::move(list);
    }
}

at::ScalarType widest(at::ScalarType so_far, const c10::IValue &value)
{
    auto widen = [&](const at::Tensor &tensor) {
        if (tensor.defined())
            so_far = at::autocast::prioritize(so_far, tensor, device_type);
    };

    if (value.isTensor())
        widen(value.toTensor());
    else if (value.isTensorList())
        for (const at::Tensor &tensor : value.toTensorList())
            widen(tensor);
    return so_far;
}

enum class Kind { lower, promote, float32 };

template <Kind kind>
void autocast(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::AutocastPrivateUse1);
    size_t begin = stack->size() - op.schema().arguments().size();
    at::ScalarType type = kind == Kind::float32 ? at::kFloat
                                                : at::autocast::get_autocast_dtype(device_type);

    if (kind == Kind::promote)
        for (size_t i = begin; i < stack->size(); i++)
            type = widest(type, (*stack)[i]);
    for (size_t i = begin; i < stack->size(); i++)
        value_cast((*stack)[i], type);
    op.callBoxed(stack);
}

torch::CppFunction kernel_for(std::string_view name)
{
    if (is_among(lower_names, name))
        return torch::CppFunction::makeFromBoxedFunction<&autocast<Kind::lower>>();
    if (is_among(promote_names, name))
        return torch::CppFunction::makeFromBoxedFunction<&autocast<Kind::promote>>();
    return torch::CppFunction::makeFromBoxedFunction<&autocast<Kind::float32>>();
}

at::Tensor binary_cross_entropy_refuse(const at::Tensor &, const at::Tensor &,
                                       const std::optional<at::Tensor> &, int64_t)
{
    TORCH_CHECK(false, "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe "
                "to autocast.\nMany models use a sigmoid layer right before the binary cross "
                "entropy layer.\nIn this case, combine the two layers using "
                "torch.nn.functional.binary_cross_entropy_with_logits\nor "
                "torch.nn.BCEWithLogitsLoss.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m)
{
    m.impl("binary_cross_entropy", binary_cross_entropy_refuse);
}

} // namespace

void autocast_serve()
{
    /* Kept for ever: a library that goes takes its kernels along. */
    auto *library = new torch::Library(torch::Library::IMPL, "aten",
                                       c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
    auto &dispatcher = c10::Dispatcher::singleton();

    for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
        std::string full = c10::toString(name);
        auto op = dispatcher.findOp(name);

        if (full.compare(0, 6, "aten::") != 0 || !op || !op->hasSchema() ||
            op->hasKernelForDispatchKey(c10::DispatchKey::AutocastPrivateUse1))
            continue;
        std::string_view bare = std::string_view(full).substr(6);
        if (op->hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU) ||
            is_among(float_names, bare))
            library->impl(full.c_str(), kernel_for(bare));
    }
}

} // namespace acre_torch
