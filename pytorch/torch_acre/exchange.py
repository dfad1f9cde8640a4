# SPDX-License-Identifier: MIT
"""Tensors to and from other libraries by DLPack."""
import torch


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
