# SPDX-License-Identifier: MIT
"""The module torch.acre: devices, streams and random numbers."""
from typing import Optional, Union

import torch

from torch_acre import _C

Device = Union[torch.device, str, int, None]


def is_available() -> bool:
    """Whether there is at least one device. Starts none."""
    return device_count() > 0


def device_count() -> int:
    """Number of devices. Starts none."""
    return _C._device_count()


def init() -> None:
    """Starts the devices; the first tensor does this by itself."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether the devices run."""
    return _C._is_started() and not _is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    return _C._is_in_bad_fork()


def _lazy_init() -> None:
    _C._init()


def current_device() -> int:
    """Index of the current device."""
    return torch.accelerator.current_device_index()


def set_device(device: Device) -> None:
    """Makes a device current."""
    torch.accelerator.set_device_index(device)


def synchronize(device: Device = None) -> None:
    """Waits for all streams of a device."""
    torch.accelerator.synchronize(device)
