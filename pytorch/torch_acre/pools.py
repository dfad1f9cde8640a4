# SPDX-License-Identifier: MIT
"""Private pools of memory, and pools that sleep."""
import contextlib
from typing import Tuple

from torch_acre import _C
from torch_acre._index import Device, index_of


class MemPool:
    """A private pool: what is allocated in it stays apart from other memory.

    A pool with a tag can sleep: torch.acre.sleep(tag) gives its memory back to the device,
    torch.acre.wake(tag) brings it back at the same addresses with the same contents.

        >>> pool = torch.acre.MemPool()
        >>> with torch.acre.use_mem_pool(pool):
        ...     weights = torch.ones(1000, device="acre")
        >>> pool.stats()["live_count"]
        1
    """

    def __init__(self, allocator=None, use_on_oom: bool = False, no_split: bool = False,
                 tag: str = ""):
        if allocator is not None:
            raise ValueError("MemPool: an allocator of its own is not possible here; leave it out")
        self.id: Tuple[int, int] = _C._pool_id_next()
        self.tag = tag
        self._flags = (_C.POOL_USE_ON_OOM if use_on_oom else 0) | \
            (_C.POOL_NO_SPLIT if no_split else 0) | (_C.POOL_STITCHED if tag else 0)
        self._devices = set()

    def _on(self, index: int) -> None:
        """Makes the pool on a device when it is first used there."""
        if index not in self._devices:
            _C._pool_create(index, self.id, self._flags, self.tag)
            self._devices.add(index)

    def use_count(self, device: Device = None) -> int:
        """How often the pool is used on a device."""
        index = index_of(device)
        return _C._pool_use_count(index, self.id) if index in self._devices else 1

    def stats(self, device: Device = None) -> dict:
        """Live allocations and memory held on a device."""
        index = index_of(device)
        self._on(index)
        return _C._pool_stats(index, self.id)

    def snapshot(self, include_traces: bool = True) -> list:
        """The segments of the pool."""
        from torch_acre.recording import memory_snapshot
        return memory_snapshot(self.id, include_traces)

    def __del__(self):
        for index in getattr(self, "_devices", ()):
            if not _C._is_in_bad_fork():
                _C._pool_release(index, self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None):
    """Allocations of this thread come from the pool inside a with statement."""
    index = index_of(device)
    pool._on(index)
    _C._pool_begin(index, pool.id)
    try:
        yield
    finally:
        _C._pool_end(index, pool.id)


def sleep(tag: str, discard: bool = False) -> None:
    """Gives the memory of all pools with a tag back to the devices.

    Their tensors keep their addresses and cannot be used until wake(tag). Contents are kept
    in host memory, unless discard is True. All pools go to sleep, or none does.
    """
    _C._pools_sleep(tag, discard)


def wake(tag: str) -> None:
    """Brings the memory of sleeping pools back: same addresses, same contents."""
    _C._pools_wake(tag)
