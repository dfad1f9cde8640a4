# SPDX-License-Identifier: MIT
"""Normalisations and dropout: what they save, and partial sums of their backward passes."""
import torch


def _dense(call, tensor):
    """The copy that a kernel makes of a tensor that is not dense."""
    if not tensor.is_contiguous():
        call.temp(tensor.numel() * tensor.element_size())


def layer_norm(call):
    """The result, dense, then mean and inverse deviation of each row in float32."""
    tensor, shape = call.args[0], call.args[1]
    _dense(call, tensor)
    output = call.make(tuple(tensor.size()), tensor.dtype)
    rows = tuple(tensor.size())[:tensor.dim() - len(shape)] + (1,) * len(shape)
    kind = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return output, call.make(rows, kind), call.make(rows, kind)


def layer_norm_backward(call):
    """Gradients of input, weight and bias; many rows are summed in two steps."""
    gradient, tensor, shape = call.args[0], call.args[1], call.args[2]
    weight, bias, mask = call.args[5], call.args[6], call.args[7]
    width = 1
    for length in shape:
        width *= length
    rows = tensor.numel() // max(width, 1)
    _dense(call, gradient)
    _dense(call, tensor)
    results = [call.make(tuple(tensor.size()), tensor.dtype) if mask[0] else None]
    results += [call.make(tuple(like.size()), like.dtype) if wanted and like is not None else None
                for wanted, like in ((mask[1], weight), (mask[2], bias))]
    # Sums over rows: many rows in parts, where the columns are too few to fill the GPU.
    parts = min(64, rows // 256)
    if parts > 1 and -(-width // 32) < call.kernels.gpu.sms:
        for result in results[1:]:
            if result is not None:
                call.temp(4 * parts * width)
                call.temp(result.element_size() * width)
    return tuple(results)


def group_norm_backward(call):
    """Two sums over each group, and their halves."""
    tensor = call.args[1]
    batch, channels = call.args[5], call.args[6]
    call.temp(4 * batch * channels)
    call.temp(4 * batch * channels)
    return call.run()


def batch_norm(call):
    """cuDNN's batch normalisation: the output, the saved mean and variance, a reserve."""
    tensor, weight = call.args[0], call.args[1]
    output = call.make(tuple(tensor.size()), tensor.dtype, tuple(tensor.stride()))
    count = weight.numel() if call.args[5] else 0
    mean = call.make((count,), weight.dtype)
    variance = call.make((count,), weight.dtype)
    return output, mean, variance, call.make((0,), torch.uint8)


def batch_norm_backward(call):
    """Gradients of the input, the weight and the bias."""
    tensor, weight = call.args[0], call.args[2]
    return (call.make(tuple(tensor.size()), tensor.dtype, tuple(tensor.stride())),
            call.make(tuple(weight.size()), weight.dtype),
            call.make(tuple(weight.size()), weight.dtype))


def native_dropout(call):
    """Result, then the mask of one byte an element."""
    return call.run()


def _plain(call):
    return call.run()


RULES = {"aten::native_layer_norm": layer_norm,
         "aten::native_layer_norm_backward": layer_norm_backward,
         "aten::native_group_norm_backward": group_norm_backward,
         "aten::native_dropout": native_dropout, "aten::cudnn_batch_norm": batch_norm,
         "aten::cudnn_batch_norm_backward": batch_norm_backward}
RULES.update(dict.fromkeys((
    "aten::native_group_norm", "aten::native_batch_norm",
    "aten::native_batch_norm_backward",
    "aten::_fused_dropout", "aten::_fused_rms_norm", "aten::_fused_rms_norm_backward",
    "aten::_native_batch_norm_legit", "aten::_batch_norm_with_update",
    "aten::batch_norm_backward"), _plain))
