/* SPDX-License-Identifier: MIT */
/* Cells of recurrent networks: PyTorch takes fused kernels on accelerators, and the CPU has
 * none, so these are ours.
 *
 *   LSTM   i, f, o = sigmoid, c = tanh of the gates; cy = f * cx + i * c; hy = o * tanh(cy)
 *          workspace: the four gates after their functions
 *   GRU    r, i = sigmoid; n = tanh(in + r * hn); hy = n + i * (hx - n)
 *          workspace: r, i, n, hx, hn
 */
#include "ops/host.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Maybe = std::optional<at::Tensor>;

at::Tensor gates_with(const at::Tensor &gates, const Maybe &bias)
{
    return bias ? gates + *bias : gates;
}

/* What flows back through a sigmoid and a tanh whose results are known. */
at::Tensor sigmoid_back(const at::Tensor &grad, const at::Tensor &result)
{
    return grad * (1 - result) * result;
}

at::Tensor tanh_back(const at::Tensor &grad, const at::Tensor &result)
{
    return grad * (1 - result * result);
}

Three lstm_cell(const at::Tensor &input, const at::Tensor &hidden, const at::Tensor &cx,
                const Maybe &input_bias, const Maybe &hidden_bias)
{
    HostScope host(input.device(), "aten::_thnn_fused_lstm_cell");
    at::Tensor gates = gates_with(host.enter(hidden), host.enter(hidden_bias)) +
                       gates_with(host.enter(input), host.enter(input_bias));
    std::vector<at::Tensor> parts = gates.chunk(4, 1);
    at::Tensor in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]);
    at::Tensor cell = at::tanh(parts[2]), out = at::sigmoid(parts[3]);
    at::Tensor cy = forget * host.enter(cx) + in * cell;
    at::Tensor hy = out * at::tanh(cy);
    at::Tensor workspace = at::cat({in, forget, cell, out}, 1);

    return {host.leave(std::move(hy)), host.leave(std::move(cy)),
            host.leave(std::move(workspace))};
}

Three lstm_cell_back(const Maybe &grad_hy, const Maybe &grad_cy, const at::Tensor &cx,
                     const at::Tensor &cy, const at::Tensor &workspace, bool has_bias)
{
    HostScope host(cx.device(), "aten::_thnn_fused_lstm_cell_backward_impl");
    std::vector<at::Tensor> parts = host.enter(workspace).chunk(4, 1);
    at::Tensor reached = at::tanh(host.enter(cy)), old = host.enter(cx);
    at::Tensor by_hidden = host.enter(grad_hy).value_or(at::zeros_like(old));
    at::Tensor by_cell = host.enter(grad_cy).value_or(at::zeros_like(old)) +
                         tanh_back(by_hidden * parts[3], reached);
    at::Tensor gates = at::cat({sigmoid_back(by_cell * parts[2], parts[0]),
                                sigmoid_back(by_cell * old, parts[1]),
                                tanh_back(by_cell * parts[0], parts[2]),
                                sigmoid_back(by_hidden * reached, parts[3])}, 1);
    at::Tensor by_old = by_cell * parts[1];
    at::Tensor bias = has_bias ? gates.sum(0) : at::Tensor();

    return {host.leave(std::move(gates)), host.leave(std::move(by_old)),
            host.leave(std::move(bias))};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor &input, const at::Tensor &hidden,
                                            const at::Tensor &hx, const Maybe &input_bias,
                                            const Maybe &hidden_bias)
{
    HostScope host(input.device(), "aten::_thnn_fused_gru_cell");
    std::vector<at::Tensor> in =
        gates_with(host.enter(input), host.enter(input_bias)).chunk(3, 1);
    std::vector<at::Tensor> back =
        gates_with(host.enter(hidden), host.enter(hidden_bias)).chunk(3, 1);
    at::Tensor old = host.enter(hx);
    at::Tensor reset = at::sigmoid(back[0] + in[0]), update = at::sigmoid(back[1] + in[1]);
    at::Tensor fresh = at::tanh(in[2] + back[2] * reset);
    at::Tensor hy = (old - fresh) * update + fresh;
    at::Tensor workspace = at::cat({reset, update, fresh, old, back[2]}, 1);

    return {host.leave(std::move(hy)), host.leave(std::move(workspace))};
}

Five gru_cell_back(const at::Tensor &grad_hy, const at::Tensor &workspace, bool has_bias)
{
    HostScope host(grad_hy.device(), "aten::_thnn_fused_gru_cell_backward");
    std::vector<at::Tensor> parts = host.enter(workspace).chunk(5, 1);
    at::Tensor grad = host.enter(grad_hy);
    at::Tensor by_update = sigmoid_back(grad * (parts[3] - parts[2]), parts[1]);
    at::Tensor by_fresh = tanh_back(grad * (1 - parts[1]), parts[2]);
    at::Tensor by_reset = sigmoid_back(by_fresh * parts[4], parts[0]);
    at::Tensor input = at::cat({by_reset, by_update, by_fresh}, 1);
    at::Tensor hidden = at::cat({by_reset, by_update, by_fresh * parts[0]}, 1);
    at::Tensor by_old = grad * parts[1];
    at::Tensor input_bias = has_bias ? input.sum(0) : at::Tensor();
    at::Tensor hidden_bias = has_bias ? hidden.sum(0) : at::Tensor();

    return {host.leave(std::move(input)), host.leave(std::move(hidden)),
            host.leave(std::move(by_old)), host.leave(std::move(input_bias)),
            host.leave(std::move(hidden_bias))};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_thnn_fused_lstm_cell", lstm_cell);
    m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_back);
    m.impl("_thnn_fused_gru_cell", gru_cell);
    m.impl("_thnn_fused_gru_cell_backward", gru_cell_back);
}

} // namespace
} // namespace acre_torch
