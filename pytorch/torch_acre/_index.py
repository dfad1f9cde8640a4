# SPDX-License-Identifier: MIT
"""Which device a caller means."""
from typing import Union

import torch

from torch_acre import _C

Device = Union[torch.device, str, int, None]


def backend_name() -> str:
    """The name under which PyTorch knows the device."""
    return torch._C._get_privateuse1_backend_name()


def index_of(device: Device, optional: bool = True) -> int:
    """Index of a device; None, and a device without index, mean the current one.

    Raises ValueError for a device of another type, RuntimeError for a wrong index.
    """
    if device is None:
        if not optional:
            raise ValueError("a device is needed, not None")
        return torch.accelerator.current_device_index()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != backend_name():
            raise ValueError(f"Expected a {backend_name()} device, but got: {device}")
        if device.index is None:
            return torch.accelerator.current_device_index()
        device = device.index
    count = _C._device_count()
    if not 0 <= int(device) < count:
        raise RuntimeError("The device index is out of range. It must be in "
                           f"[0, {count}), but got {int(device)}.")
    return int(device)
