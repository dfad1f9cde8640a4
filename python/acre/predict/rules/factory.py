# SPDX-License-Identifier: MIT
"""Tensors from nothing, and numbers that kernels send to the device."""
import torch

from ..shape import is_scalar


def _dtype(call):
    return call.kwargs.get("dtype") or torch.get_default_dtype()


def _strides(size, form):
    """Strides in a memory format."""
    if form == torch.channels_last and len(size) == 4:
        _, channels, height, width = size
        return (channels * height * width, 1, width * channels, channels)
    if form == torch.channels_last_3d and len(size) == 5:
        _, channels, depth, height, width = size
        plane = channels * width
        return (channels * depth * height * width, 1, height * plane, plane, channels)
    return None


def empty(call):
    """aten::empty.memory_format, aten::empty_strided."""
    size = call.args[0]
    device = call.kwargs.get("device")
    if device is not None and device.index is not None:
        call.device = device.index
    stride = call.args[1] if call.op._schema.name == "aten::empty_strided" \
        else _strides(size, call.kwargs.get("memory_format"))
    return call.make(size, _dtype(call), stride)


def _none(call):
    return call.run()


def power(call):
    """pow(number, tensor): the number becomes a tensor of the device first."""
    base = call.args[0]
    if not isinstance(base, torch.Tensor):
        shape = call.shapes()
        call.temp(shape[2].itemsize)
    return call.run()


def where(call):
    """where(condition, number, tensor): the number becomes a tensor of the device, with
    the type of the result."""
    results_type = call.shapes()[2]
    for value in call.args[1:3]:
        if not isinstance(value, torch.Tensor) or is_scalar(value):
            call.temp(results_type.itemsize)
    return call.run()


def _random_permutation(call):
    """randperm: keys and a sort of them."""
    count = call.arg(0)
    out = call.kwargs.get("out")
    results = call.run() if out is not None else call.make((count,), torch.int64)
    if count > 1:
        from .sorting import sort_bytes
        call.temp(4 * count)
        call.temp(8 * count)
        call.temp(sort_bytes(count))
    return results


def _trivial_index(call):
    """tril_indices and its like: only the result."""
    return call.run()


RULES = {"aten::empty": empty, "aten::empty_strided": empty, "aten::pow": power,
         "aten::where": where, "aten::randperm": _random_permutation,
         "aten::tril_indices": _trivial_index, "aten::triu_indices": _trivial_index}
RULES.update(dict.fromkeys(("aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_",
                            "aten::bernoulli_", "aten::random_", "aten::exponential_"), _none))
