# SPDX-License-Identifier: MIT
"""Copies between host and device: what is not dense, or of another type, passes through a
dense copy on the device."""
import torch


def _is_dense(tensor):
    return tensor.is_contiguous()


def copy(call):
    """aten::copy_."""
    target, source = call.args[0], call.args[1]
    if not isinstance(source, torch.Tensor) or target.numel() == 0:
        return target
    call.kernels.values.copy(target, source)
    if target.is_cuda == source.is_cuda:
        return target
    is_plain = target.dtype == source.dtype and (
        (target.is_contiguous() and source.is_contiguous())
        or (target.stride() == source.stride() and target.size() == source.size()
            and _fills(target)))
    if is_plain:
        return target
    if target.is_cuda:
        if not _is_dense(target):
            call.temp(target.numel() * target.element_size())
    else:
        if source.dtype != target.dtype or not _is_dense(source):
            call.temp(target.numel() * target.element_size())
    return target


def _fills(tensor):
    """Whether the elements lie without gaps, in whatever order."""
    dims = sorted((stride, size) for size, stride in zip(tensor.size(), tensor.stride())
                  if size > 1)
    expected = 1
    for stride, size in dims:
        if stride != expected:
            return False
        expected *= size
    return True


RULES = {"aten::copy_": copy}
