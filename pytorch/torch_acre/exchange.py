# SPDX-License-Identifier: MIT
"""Tensors to and from other libraries by DLPack."""
import torch

# DLPack's number for devices that are somebody's own.
_EXT_DEV = 12


def to_dlpack(tensor: torch.Tensor):
    """A DLPack capsule of a tensor of the device."""
    return torch.utils.dlpack.to_dlpack(tensor)


def from_dlpack(source) -> torch.Tensor:
    """A tensor on the memory of a capsule, or of an object with __dlpack__.

        >>> there = torch.ones(3, device="acre")
        >>> torch.acre.from_dlpack(torch.acre.to_dlpack(there)).data_ptr() == there.data_ptr()
        True
    """
    if isinstance(source, torch.Tensor):
        return torch.utils.dlpack.from_dlpack(to_dlpack(source))
    if hasattr(source, "__dlpack__"):
        source = source.__dlpack__()
    return torch.utils.dlpack.from_dlpack(source)


def dlpack_device(tensor: torch.Tensor):
    """What Tensor.__dlpack_device__ answers: PyTorch looks for the old name of the backend."""
    if tensor.device.type == torch._C._get_privateuse1_backend_name():
        return _EXT_DEV, tensor.device.index or 0
    return None
