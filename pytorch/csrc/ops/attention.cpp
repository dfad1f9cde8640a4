/* SPDX-License-Identifier: MIT */
/* Attention: the CPU's choice between its fused kernel and plain mathematics.
 *
 * scaled_dot_product_attention() asks each device which kernel to take. The device answers as
 * the CPU does; the fused kernel has another name here ("overrideable") and is the CPU's. */
#include "ops/host.h"

#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

/* Numbers of sdp::SDPBackend. */
constexpr int64_t backend_flash = 1, backend_overrideable = 4;

int64_t choose(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
               const std::optional<at::Tensor> &mask, double dropout, bool is_causal,
               std::optional<double> scale, bool enable_gqa)
{
    /* It reads shapes and types alone, so tensors without memory (tracing) are served too. */
    int64_t choice = at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout,
                                                       is_causal, scale, enable_gqa);
    return choice == backend_flash ? backend_overrideable : choice;
}

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
                           c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

Forward forward(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                const std::optional<at::Tensor> &mask, double dropout, bool is_causal, bool,
                std::optional<double> scale)
{
    HostScope host(query.device(), "aten::_scaled_dot_product_fused_attention_overrideable");
    auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        host.enter(query), host.enter(key), host.enter(value), dropout, is_causal,
        host.enter(mask), scale);
    at::Tensor none = at::empty({0}, query.options());

    return {host.leave(std::move(output)), host.leave(std::move(logsumexp)), none, none,
            c10::SymInt(query.size(2)), c10::SymInt(key.size(2)), none, none, none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>
backward(const at::Tensor &grad, const at::Tensor &query, const at::Tensor &key,
         const at::Tensor &value, const at::Tensor &mask, std::array<bool, 4>,
         const at::Tensor &output, const at::Tensor &logsumexp, const at::Tensor &,
         const at::Tensor &, c10::SymInt, c10::SymInt, double dropout, bool is_causal,
         const at::Tensor &, const at::Tensor &, std::optional<double> scale)
{
    HostScope host(query.device(),
                   "aten::_scaled_dot_product_fused_attention_overrideable_backward");
    auto [by_query, by_key, by_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        host.enter(grad), host.enter(query), host.enter(key), host.enter(value),
        host.enter(output), host.enter(logsumexp), dropout, is_causal,
        host.enter(std::optional<at::Tensor>(mask)), scale);

    return {host.leave(std::move(by_query)), host.leave(std::move(by_key)),
            host.leave(std::move(by_value)), at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_fused_sdp_choice", choose);
    m.impl("_scaled_dot_product_fused_attention_overrideable", forward);
    m.impl("_scaled_dot_product_fused_attention_overrideable_backward", backward);
}

} // namespace
} // namespace acre_torch

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &acre_torch::choose)

} // namespace at::native
