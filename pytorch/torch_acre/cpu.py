# SPDX-License-Identifier: MIT
"""CPU tensors on a heap of Acre.

    >>> import torch, torch_acre.cpu
    >>> torch_acre.cpu.enable()
    >>> values = torch.ones(1 << 20)
    >>> torch_acre.cpu.memory_stats()["allocated_bytes.all.current"] >= values.nbytes
    True
    >>> torch_acre.cpu.disable()

Each tensor is freed where it was allocated, so enable() and disable() may come at any time.
Tensors in shared memory (torch.multiprocessing, share_memory_) and memory of other packages
are not concerned. ACRE_TORCH_CPU=1 enables it when torch_acre is imported.
"""
import ctypes
import os
import threading
from typing import Any, Optional

from acre.error import Error
from acre.heap import Heap
from acre.library import lib, path
from acre.snapshot import Snapshot

from torch_acre import _C

_state: dict[str, Any] = {"heap": None, "is_enabled": False}
_lock = threading.Lock()
os.register_at_fork(after_in_child=_lock._at_fork_reinit)


def _check_library() -> None:
    """One copy of the library: the package acre and the extension use the same."""
    mark = ctypes.cast(lib.acre_hostmem_create, ctypes.c_void_p).value
    if mark != _C._cpu_library_mark():
        raise Error(f"the package acre uses {path}, and torch_acre another copy of libacre.so; "
                    "set ACRE_LIBRARY to the copy that torch_acre was built with",
                    "ACRE_ERR_STATE", 14)


def enable(limit_bytes: Optional[int] = None, **options: Any) -> None:
    """Lets CPU tensors come from Acre from now on.

    limit_bytes caps what is held from the system: a tensor beyond it is a
    torch.OutOfMemoryError that names who holds the memory. The options of acre.Heap apply to
    the first call; the heap stays for the life of the process. Huge pages are asked for, for
    tensors of 4 MiB and more, unless huge_pages says otherwise.
    """
    options.setdefault("huge_pages", True)
    with _lock:
        heap = _state["heap"]
        if heap is None:
            _check_library()
            heap = Heap(limit=limit_bytes, **options)  # which ends where PyTorch does not take it
        elif limit_bytes is not None:
            heap.limit = limit_bytes
        _C._cpu_enable(heap.handle.value)
        if _state["heap"] is None:
            _state["heap"] = heap.keep()
        _state["is_enabled"] = True


def disable() -> None:
    """Lets CPU tensors come from PyTorch's own allocator. Those on Acre stay there."""
    with _lock:
        if _state["is_enabled"]:
            _C._cpu_disable()
            _state["is_enabled"] = False


def is_enabled() -> bool:
    """Whether enable() is in force."""
    return _state["is_enabled"]


def heap() -> Heap:
    """The acre.Heap behind the tensors; an Error before the first enable()."""
    if _state["heap"] is None:
        raise Error("torch_acre.cpu is not enabled; call torch_acre.cpu.enable() first",
                    "ACRE_ERR_STATE", 14)
    return _state["heap"]


def memory_stats() -> dict[str, int]:
    """Statistics under the names of torch.cuda.memory_stats(); see Heap.memory_stats()."""
    return heap().memory_stats()


def memory_allocated() -> int:
    """Bytes of live tensors: large ones by block, small ones by slot."""
    stats = heap().stats()
    return (stats["cache"]["allocated_bytes"]["all"]["current"] - stats["slab_bytes"]
            + stats["small_bytes"])


def memory_reserved() -> int:
    """Bytes held from the system."""
    return heap().stats()["cache"]["reserved_bytes"]["all"]["current"]


def reset_peak_memory_stats() -> None:
    """Sets every peak to the present level."""
    heap().reset_peaks()


def limit(size: Optional[int]) -> None:
    """Caps what is held from the system; None lifts the cap."""
    heap().limit = size


def empty_cache() -> int:
    """Returns all idle pages to the system; how many bytes went."""
    return heap().trim(0)


def record_history(entries: int = 2**64 - 1, stacks: Optional[str] = "alloc") -> None:
    """Records allocations with Python's stacks; see Heap.record_history()."""
    heap().record_history(entries, stacks)


def stop_history() -> None:
    """Stops recording and forgets."""
    heap().stop_history()


def snapshot(file: Optional[str] = None) -> Snapshot:
    """A Snapshot of all CPU tensors; written to a file when one is given. "acre view" and
    PyTorch's viewer open the file; acre.diff() compares two of them."""
    taken = heap().snapshot()
    if file is not None:
        taken.write(file)
    return taken


def top(count: int = 10) -> list[dict[str, Any]]:
    """The lines of Python that hold most; see Heap.top(). Record a history first."""
    return heap().top(count)


def report(count: int = 8) -> str:
    """Who holds the memory: a few lines of text."""
    return heap().report(count)


def _enable_by_environment() -> None:
    """What ACRE_TORCH_CPU asks for: 1, or a limit in bytes behind "limit:"."""
    wish = os.environ.get("ACRE_TORCH_CPU", "")
    if wish in ("", "0"):
        return
    if wish == "1":
        enable()
    elif wish.startswith("limit:") and wish[6:].isdigit():
        enable(limit_bytes=int(wish[6:]))
    else:
        raise Error(f"ACRE_TORCH_CPU is {wish!r}; set it to 0, 1 or limit:BYTES",
                    "ACRE_ERR_CONFIG", 52)
