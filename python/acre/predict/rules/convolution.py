# SPDX-License-Identifier: MIT
"""Convolutions by cuDNN: the workspace depends on the algorithm that cuDNN chooses, so the
answer is a range.

A workspace as large as what the convolution touches is allocated: that is what algorithms
need that work in another layout. Its blocks are marked; spread.py replays the sequence with
less and more.
"""
import torch


def workspace(call, *tensors):
    """A block of the range."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    stacks = call.kernels.ground.stacks
    before = stacks.enter(call.op._schema.name, "range")
    call.temp(size)
    stacks.leave(before)
    call.kernels.has_range = True


def _described(call, transposed=False):
    """The result of a convolution, whatever the kernel's own name and order of arguments."""
    names = [argument.name for argument in call.op._schema.arguments]
    value = {name: call.arg(index, name) for index, name in enumerate(names)}
    tensor, weight = call.args[0], call.args[1]
    stride = value["stride"]
    return call.kernels.shapes.infer(torch.ops.aten.convolution.default, (
        tensor, weight, None, stride, value["padding"], value["dilation"], transposed,
        value.get("output_padding") or [0] * len(stride),
        value.get("groups") or weight.size(0)), {})


def forward(call):
    """cudnn_convolution, with or without an activation."""
    size, stride, dtype = _described(call, "transpose" in call.op._schema.name)
    results = call.make(size, dtype, stride)
    workspace(call, call.args[0], call.args[1], results)
    return results


def depthwise(call):
    """Kernels of PyTorch's own for one channel at a time: no workspace."""
    size, stride, dtype = _described(call)
    return call.make(size, dtype, stride)


def backward(call):
    """convolution_backward: the gradient of the input, of the weight, then of the bias."""
    gradient, tensor, weight, bias, stride, padding, dilation, transposed, extra, groups, mask = \
        call.args[:11]
    backend = torch._C._select_conv_backend(
        tensor, weight, None, stride, padding, dilation, transposed, extra, groups, bias)
    is_cudnn = "Cudnn" in str(backend)
    form = torch.channels_last if is_cudnn and (_is_last(tensor) or _is_last(weight)) \
        else torch.contiguous_format
    if tensor.dim() == 4:
        tensor = tensor.contiguous(memory_format=form) if mask[1] else tensor
        gradient = gradient.contiguous(memory_format=form)
        weight = weight.contiguous(memory_format=form)
    results = []
    for wanted, like in ((mask[0], tensor), (mask[1], weight)):
        if not wanted:
            results.append(None)
            continue
        results.append(call.make(tuple(like.size()), like.dtype, _strides(like, form)))
        if is_cudnn:
            workspace(call, tensor, weight, gradient)
            call.end()
    results.append(gradient.sum((0,) + tuple(range(2, gradient.dim()))) if mask[2] else None)
    return tuple(results)


def _is_last(tensor):
    return tensor.dim() == 4 and not tensor.is_contiguous() \
        and tensor.is_contiguous(memory_format=torch.channels_last)


def _strides(tensor, form):
    if form == torch.channels_last and tensor.dim() == 4:
        _, channels, height, width = tensor.size()
        return (channels * height * width, 1, width * channels, channels)
    return None


def plain(call):
    """Results only."""
    return call.run()


RULES = {"aten::cudnn_convolution": forward, "aten::cudnn_convolution_transpose": forward,
         "aten::cudnn_convolution_relu": forward, "aten::convolution_backward": backward,
         "aten::_conv_depthwise2d": depthwise, "aten::conv_depthwise3d": depthwise,
         "aten::cudnn_convolution_add_relu": forward}
RULES.update(dict.fromkeys((
    "aten::max_pool2d_with_indices", "aten::max_pool2d_with_indices_backward", "aten::avg_pool2d",
    "aten::avg_pool2d_backward", "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool2d_backward", "aten::upsample_nearest2d", "aten::upsample_bilinear2d",
    "aten::upsample_nearest2d_backward", "aten::upsample_bilinear2d_backward",
    "aten::reflection_pad2d", "aten::replication_pad2d", "aten::adaptive_max_pool2d",
    "aten::reflection_pad1d", "aten::reflection_pad3d", "aten::replication_pad1d",
    "aten::avg_pool3d", "aten::avg_pool3d_backward", "aten::max_pool3d_with_indices",
    "aten::max_pool3d_with_indices_backward", "aten::_adaptive_avg_pool3d",
    "aten::_adaptive_avg_pool3d_backward", "aten::upsample_bicubic2d",
    "aten::upsample_bicubic2d_backward", "aten::upsample_trilinear3d",
    "aten::upsample_trilinear3d_backward", "aten::upsample_nearest3d",
    "aten::upsample_nearest3d_backward", "aten::upsample_linear1d", "aten::upsample_nearest1d",
    "aten::grid_sampler_2d", "aten::grid_sampler_2d_backward", "aten::grid_sampler_3d",
    "aten::grid_sampler_3d_backward", "aten::im2col", "aten::col2im"), plain))
