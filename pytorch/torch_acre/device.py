# SPDX-License-Identifier: MIT
"""The module torch.acre: devices, streams, random numbers, memory."""
from types import SimpleNamespace
from typing import List, Tuple

import torch

from torch_acre import _C, memory, pools, random, recording, sharing, streams
from torch_acre._index import Device, backend_name, index_of
from torch_acre.exchange import from_dlpack, to_dlpack
from torch_acre.memory import *  # noqa: F401,F403
from torch_acre.pools import MemPool, sleep, use_mem_pool, wake
from torch_acre.random import (get_rng_state, get_rng_state_all, initial_seed, manual_seed,
                               manual_seed_all, seed, seed_all, set_rng_state,
                               set_rng_state_all)
from torch_acre.recording import advise, memory_snapshot, view
from torch_acre.sharing import open, share
from torch_acre.streams import (Event, Stream, StreamContext, current_stream, default_stream,
                                is_current_stream_capturing, set_stream, stream)

# torch.acre.memory has what torch.cuda.memory has, recordings and pools included.
for _part in (recording, pools):
    for _name in dir(_part):
        if _name in ("_record_memory_history", "_snapshot", "_dump_snapshot", "memory_snapshot",
                     "_set_memory_metadata", "_get_memory_metadata", "MemPool",
                     "use_mem_pool"):
            setattr(memory, _name, getattr(_part, _name))

# torch.load asks torch.<name>._utils for the index of a location.
_utils = SimpleNamespace(
    _get_device_index=lambda device, optional=False, allow_cpu=False: index_of(device))


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
    """Makes a device current; a negative index changes nothing."""
    if isinstance(device, int) and device < 0:
        return
    torch.accelerator.set_device_index(index_of(device))


def synchronize(device: Device = None) -> None:
    """Waits for all streams of a device."""
    torch.accelerator.synchronize(index_of(device))


class device:
    """Makes a device current inside a with statement; None and -1 change nothing."""

    def __init__(self, device: Device):
        is_none = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if is_none else index_of(device)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = torch.accelerator.current_device_index()
            torch.accelerator.set_device_index(self.idx)

    def __exit__(self, kind, value, trace):
        if self.idx >= 0:
            torch.accelerator.set_device_index(self.prev_idx)
        return False


class device_of(device):
    """Makes the device of a tensor current; tensors of other devices change nothing."""

    def __init__(self, tensor: torch.Tensor):
        is_ours = tensor.device.type == backend_name()
        super().__init__(tensor.device.index if is_ours else -1)


def get_device_properties(device: Device = None) -> SimpleNamespace:
    """Facts about a device: name, total_memory, multi_processor_count, page_bytes, ..."""
    facts = _C._device_properties(index_of(device))
    return SimpleNamespace(major=1, minor=0, **facts)


def get_device_name(device: Device = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> Tuple[int, int]:
    """The generation of a device: (1, 0)."""
    index_of(device)
    return 1, 0


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether one device reaches the memory of another."""
    return _C._peer_access(index_of(device), index_of(peer_device))


def get_amp_supported_dtype() -> List[torch.dtype]:
    """Types that torch.autocast may use on this device."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 is computed by the host's kernels."""
    return True


def __getattr__(name: str):
    if name == "default_generators":
        return getattr(random, name)
    if name == "_initialized":  # asked by torch.utils.checkpoint before it keeps random states
        return is_initialized()
    raise AttributeError(f"module 'torch.{backend_name()}' has no attribute {name!r}")
