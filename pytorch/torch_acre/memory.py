# SPDX-License-Identifier: MIT
"""Memory of the devices, under the names of torch.cuda.memory."""
import collections
import contextlib
import os
from typing import Any, Dict, Tuple

import torch

from torch_acre import _C
from torch_acre._index import Device, index_of

__all__ = [
    "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_enable",
    "caching_allocator_disabled", "device_memory_used", "empty_cache", "empty_host_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction", "host_memory_stats", "host_memory_stats_as_nested_dict",
    "list_gpu_processes", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
    "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_host_memory_stats", "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def _flatten(prefix: str, value: Any, out: Dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _flatten(f"{prefix}.{key}" if prefix else key, part, out)
    else:
        out[prefix] = value


def _flat(nested: Dict[str, Any]) -> Dict[str, Any]:
    out: Dict[str, Any] = {}
    _flatten("", nested, out)
    return collections.OrderedDict(sorted(out.items()))


# ---- Allocating ------------------------------------------------------------------------


def caching_allocator_alloc(size: int, device: Device = None, stream=None) -> int:
    """Allocates memory that no tensor holds; returns its address."""
    if size < 0:
        raise ValueError(f"size is {size}; it cannot be negative")
    index = index_of(device)
    if stream is None:
        stream = torch.accelerator.current_stream(index)
    return _C._raw_alloc(size, index, stream if isinstance(stream, int) else stream.stream_id)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees what caching_allocator_alloc() gave."""
    _C._raw_free(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Switches caching on or off; off, each allocation goes to the device."""
    _C._caching_enable(value)


@contextlib.contextmanager
def caching_allocator_disabled():
    """Caching is off inside a with statement."""
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(True)


def empty_cache() -> None:
    """Returns all idle memory to the devices."""
    if _C._is_started():
        torch._C._accelerator_emptyCache()


def empty_host_cache() -> None:
    """Returns idle page-locked memory to the system."""
    torch._C._accelerator_emptyHostCache()


def get_allocator_backend() -> str:
    """The policy that places blocks: "acre" or "torch"."""
    return _C._policy()


# ---- Limits and options ------------------------------------------------------------------


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Caps what the cache of a device may hold at a share of the device's memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C._fraction_set(fraction, index_of(device))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The share that set_per_process_memory_fraction() set; 1.0 without one."""
    return _C._fraction_get(index_of(device))


def _set_allocator_settings(env: str) -> None:
    """Sets options of the caches, in the grammar of PYTORCH_ALLOC_CONF."""
    _C._settings_set(env)


def _get_allocator_settings() -> str:
    return _C._settings_get()


# ---- Statistics ----------------------------------------------------------------------------


def memory_stats_as_nested_dict(device: Device = None) -> Dict[str, Any]:
    """Statistics of a device's cache; {} before the devices run."""
    if not _C._is_started():
        return {}
    return _C._memory_stats(index_of(device))


def memory_stats(device: Device = None) -> Dict[str, Any]:
    """Statistics of a device's cache, with dots in the keys.

        >>> there = torch.empty(1024, device="acre")
        >>> torch.acre.memory_stats()["allocated_bytes.all.current"] >= 4096
        True
    """
    return _flat(memory_stats_as_nested_dict(device))


def memory_allocated(device: Device = None) -> int:
    """Bytes of live tensors."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """Highest memory_allocated() since the start or the last reset of peaks."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """Bytes that the cache holds from the device."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """Highest memory_reserved() since the start or the last reset of peaks."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets every peak to the present level."""
    torch._C._accelerator_resetPeakStats(index_of(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets sums and counters to zero."""
    torch._C._accelerator_resetAccumulatedStats(index_of(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def host_memory_stats_as_nested_dict() -> Dict[str, Any]:
    """Statistics of page-locked memory; {} before the devices run."""
    return _C._host_stats() if _C._is_started() else {}


def host_memory_stats() -> Dict[str, Any]:
    """Statistics of page-locked memory, with dots in the keys."""
    return _flat(host_memory_stats_as_nested_dict())


def reset_peak_host_memory_stats() -> None:
    """Sets every peak of page-locked memory to the present level."""
    _C._host_stats_reset_peak()


def reset_accumulated_host_memory_stats() -> None:
    """Sets sums and counters of page-locked memory to zero."""
    _C._host_stats_reset_accumulated()


def mem_get_info(device: Device = None) -> Tuple[int, int]:
    """Free and total bytes of a device."""
    return tuple(torch._C._accelerator_getMemoryInfo(index_of(device)))


def device_memory_used(device: Device = None) -> int:
    """Bytes of a device that are in use, by whomever."""
    free, total = mem_get_info(device)
    return total - free


def list_gpu_processes(device: Device = None) -> str:
    """Who uses a device. The device lives in this process, so nobody else does."""
    index = index_of(device)
    used = memory_reserved(index) / 2**20
    return f"GPU:{index}\nprocess {os.getpid():>10d} uses {used:>12.3f} MB GPU memory"


# ---- A table to read -------------------------------------------------------------------------

_ROWS = [
    ("Allocated memory", "allocated_bytes", True), ("Active memory", "active_bytes", True),
    ("Requested memory", "requested_bytes", True), ("GPU reserved memory", "reserved_bytes", True),
    ("Non-releasable memory", "inactive_split_bytes", True), ("Allocations", "allocation", False),
    ("Active allocs", "active", False), ("GPU reserved segments", "segment", False),
    ("Non-releasable allocs", "inactive_split", False),
]


def _size(value: int, is_bytes: bool) -> str:
    units = ["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"] if is_bytes else ["   ", "K  ", "M  "]
    step = 1024 if is_bytes else 1000
    unit = units[0]
    for following in units[1:]:
        if value < 768 * step:
            break
        unit, value = following, value // step
    return f"{value:7d} {unit}"


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Statistics of a device's cache as a table."""
    index = index_of(device)
    stats = memory_stats(index)
    line = "|" + "=" * 75 + "|"
    thin = "|" + "-" * 75 + "|"
    out = [line, f"|{f'Acre memory summary, device ID {index}':^75}|", thin,
           "|" + f"OOMs: {stats.get('num_ooms', 0)}".center(37) + "|" +
           f"retries: {stats.get('num_alloc_retries', 0)}".center(37) + "|", line,
           "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |", thin]
    for title, key, is_bytes in _ROWS:
        pools = [("all", title)] if abbreviated else \
            [("all", title), ("large_pool", "      from large pool"),
             ("small_pool", "      from small pool")]
        for pool, name in pools:
            cells = [_size(stats.get(f"{key}.{pool}.{part}", 0), is_bytes)
                     for part in ("current", "peak", "allocated", "freed")]
            out.append(f"| {name:<21} | " + " | ".join(cells) + " |")
        out.append(thin)
    for title, key in (("Oversize allocations", "oversize_allocations"),
                       ("Oversize GPU segments", "oversize_segments")):
        cells = [_size(stats.get(f"{key}.{part}", 0), False)
                 for part in ("current", "peak", "allocated", "freed")]
        out.append(f"| {title:<21} | " + " | ".join(cells) + " |")
        out.append(thin)
    out[-1] = line
    return "\n".join(out)
