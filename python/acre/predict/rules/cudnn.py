# SPDX-License-Identifier: MIT
"""Operators that exist for GPUs only, beside convolutions and recurrent networks: normalisation
across ranks, cells, samplers. None allocates more than its results."""
import torch


def _wide(dtype):
    """The type in which sums are kept."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _like(call, tensor):
    return call.make(tuple(tensor.size()), tensor.dtype, tuple(tensor.stride()))


def _pair(call):
    """batch_norm_stats and its like: mean and inverse deviation of each channel."""
    tensor = call.args[0]
    return tuple(call.make((tensor.size(1),), _wide(tensor.dtype)) for _ in range(2))


def _elements(call):
    """batch_norm_elemt: as the input."""
    return _like(call, call.args[0])


def _sums(call):
    """batch_norm_backward_reduce: two sums, the gradients of weight and bias."""
    tensor = call.args[1]
    weight, wanted = call.args[4], call.args[5:8]
    size, dtype = (tensor.size(1),), _wide(tensor.dtype)
    results = [call.make(size, dtype) if wanted[0] else None for _ in range(2)]
    like = weight.dtype if weight is not None else dtype
    return tuple(results + [call.make(size, like) if want else None for want in wanted[1:3]])


def _gradient(call):
    """batch_norm_backward_elemt: as the input."""
    return _like(call, call.args[1])


def _gru_cell(call):
    """The next state, and what the backward pass needs of the gates."""
    hidden = call.args[2]
    batch, width = hidden.size()
    return call.make((batch, width), hidden.dtype), call.make((batch, 5 * width), hidden.dtype)


def _gru_cell_backward(call):
    gradient, has_bias = call.args[0], call.args[2]
    batch, width = gradient.size()
    results = [call.make((batch, 3 * width), gradient.dtype) for _ in range(2)]
    results.append(call.make((batch, width), gradient.dtype))
    return tuple(results + [call.make((3 * width,), gradient.dtype) if has_bias else None
                            for _ in range(2)])


def _sampler(call):
    tensor, grid = call.args[0], call.args[1]
    return call.make((tensor.size(0), tensor.size(1)) + tuple(grid.size()[1:3]), tensor.dtype)


def _sampler_backward(call):
    return tuple(call.make(tuple(tensor.size()), tensor.dtype) for tensor in call.args[:2])


def _no(_):
    """Whether cuDNN computes a loss: PyTorch's own kernel is taken."""
    return False


def _plain(call):
    return call.run()


RULES = {"aten::batch_norm_stats": _pair, "aten::batch_norm_gather_stats": _pair,
         "aten::batch_norm_gather_stats_with_counts": _pair, "aten::batch_norm_elemt": _elements,
         "aten::batch_norm_backward_reduce": _sums, "aten::batch_norm_backward_elemt": _gradient,
         "aten::_thnn_fused_gru_cell": _gru_cell,
         "aten::_thnn_fused_gru_cell_backward": _gru_cell_backward,
         "aten::cudnn_grid_sampler": _sampler,
         "aten::cudnn_grid_sampler_backward": _sampler_backward,
         "aten::_use_cudnn_ctc_loss": _no, "aten::_use_miopen_ctc_loss": _no,
         "aten::_thnn_fused_lstm_cell": _plain,
         "aten::_thnn_fused_lstm_cell_backward_impl": _plain,
         "aten::_weight_norm_interface": _plain, "aten::_weight_norm_interface_backward": _plain}
