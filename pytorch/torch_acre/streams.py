# SPDX-License-Identifier: MIT
"""Streams and events of the devices."""
from typing import Optional

import torch

from torch_acre._index import Device, backend_name, index_of


class Stream(torch.Stream):
    """A stream of a device: work on it runs in order.

        >>> side = torch.acre.Stream()
        >>> with torch.acre.stream(side):
        ...     there = torch.ones(4).pin_memory().to("acre", non_blocking=True)
        >>> side.synchronize()
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        where = torch.device(backend_name(), index_of(device))
        return super().__new__(cls, device=where, priority=priority)


# A mark in a stream; Event(enable_timing=True) tells times too. PyTorch compares events by
# their exact class, so this is its own.
Event = torch.Event


class StreamContext:
    """Makes a stream, and its device, current inside a with statement."""

    def __init__(self, stream: Optional[torch.Stream]):
        self.stream = stream
        self._device = -1
        self._streams = []

    def __enter__(self):
        if self.stream is None:
            return self
        self._device = torch.accelerator.current_device_index()
        self._streams = [torch.accelerator.current_stream(self.stream.device)]
        torch.accelerator.set_stream(self.stream)
        return self

    def __exit__(self, kind, value, trace):
        if self.stream is None:
            return
        torch.accelerator.set_stream(self._streams[0])
        torch.accelerator.set_device_index(self._device)


def stream(stream: Optional[torch.Stream]) -> StreamContext:
    """Makes a stream current inside a with statement; None changes nothing."""
    return StreamContext(stream)


def current_stream(device: Device = None) -> torch.Stream:
    """The calling thread's current stream on a device."""
    return torch.accelerator.current_stream(index_of(device))


def default_stream(device: Device = None) -> torch.Stream:
    """The default stream of a device; its id is 0."""
    return torch.Stream(stream_id=0, device_index=index_of(device),
                        device_type=int(torch._C._autograd.DeviceType.PrivateUse1))


def set_stream(stream: torch.Stream) -> None:
    """Makes a stream current on its device. Prefer the with statement."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured on the current stream."""
    return current_stream().is_capturing()
