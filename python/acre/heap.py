# SPDX-License-Identifier: MIT
"""Heaps of host memory: what acre.numpy and torch_acre.cpu allocate from."""
import ctypes

from . import number, structs
from .closing import Closing
from .error import Error, choose
from .handle import held
from .history import LEVELS
from .library import ask, call, end, lib, make, text

_HUGE_PAGES, _NO_THREAD, _INTERLEAVE = 1, 2, 4
_RESOLVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(structs.frame))
NO_LIMIT = 2**64 - 1


class Heap(Closing):
    """A heap of host memory.

    limit is a cap in bytes on what it holds from the system. Memory that was not needed for
    idle_seconds goes back to the system, but for a share (keep) of what was. huge_pages asks
    the kernel for huge pages for blocks of 4 MiB and more; interleave spreads pages over all
    memory nodes.

        >>> from acre import Heap
        >>> heap = Heap(limit=64 << 20)
        >>> address = heap.alloc(1 << 20)
        >>> heap.memory_stats()["allocated_bytes.all.current"]
        1048576
        >>> heap.free(address)
        >>> heap.close()
    """

    def __init__(self, limit=None, idle_seconds=10.0, keep=0.12, huge_pages=False,
                 interleave=False, thread=True):
        flags = ((_HUGE_PAGES if huge_pages else 0) | (0 if thread else _NO_THREAD)
                 | (_INTERLEAVE if interleave else 0))
        if not 0 < idle_seconds < 4e6:
            raise Error(f"idle_seconds is {idle_seconds}; give more than 0 and less than 4,000,000")
        if not 0 <= keep <= 10:
            raise Error(f"keep is {keep}; give a share from 0 to 10")
        config = structs.sized(
            structs.hostmem_config, flags=flags, limit_bytes=limit or 0,
            idle_ms=max(1, int(idle_seconds * 1000)), keep_percent=max(1, int(keep * 100)))
        self._handle = make("acre_hostmem_create", ctypes.byref(config))

    def _end(self, handle):
        end("acre_hostmem_destroy", handle)

    def keep(self):
        """Lets the heap live as long as the process: what allocates from it may free memory after
        the interpreter has ended all modules."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        return self

    @property
    def _cache(self):
        return ctypes.c_void_p(ask("acre_hostmem_cache", self.handle))

    def alloc(self, size):
        """The address of a new block."""
        return make("acre_hostmem_alloc", self.handle, number.size(size)).value

    def free(self, address):
        """Frees a block."""
        call("acre_hostmem_free", self.handle, _pointer(address))

    def owns(self, address):
        """Whether a live block of this heap begins at address."""
        return ask("acre_hostmem_usable_bytes", self.handle, _pointer(address)) > 0

    def stats(self):
        """All statistics: name to numbers, those of the cache under "cache"."""
        stats = structs.sized(structs.hostmem_stats)
        call("acre_hostmem_stats_get", self.handle, ctypes.byref(stats))
        found = structs.plain(stats)
        found.pop("reserved2")
        return found

    def memory_stats(self):
        """All statistics under names like "allocated_bytes.all.peak", as torch.cuda has them,
        and those of the heap itself: "small_bytes", "trimmed_bytes", ..."""
        found = self.stats()
        flat = {name: value for name, value in found.items() if name != "cache"}
        _flatten("", found["cache"], flat)
        return flat

    def reset_peaks(self):
        """Sets every peak to the present level."""
        ask("acre_hostmem_stats_reset_peak", self.handle)

    @property
    def limit(self):
        """The cap on bytes held from the system, or None."""
        with held(self.handle):
            limit = lib.acre_cache_limit_get(self._cache)
        return None if limit == NO_LIMIT else limit

    @limit.setter
    def limit(self, size):
        limit = NO_LIMIT if size is None else size
        with held(self.handle):
            lib.acre_cache_limit_set(self._cache, number.number(limit, ctypes.c_uint64, "limit"))

    def trim(self, keep=0):
        """Returns idle pages to the system until at most keep bytes of free memory are
        resident; how many bytes went."""
        gone = ctypes.c_uint64()
        ask("acre_hostmem_trim", self.handle, number.number(keep, ctypes.c_uint64, "keep"),
            ctypes.byref(gone))
        return gone.value

    def record_history(self, entries=NO_LIMIT, stacks="alloc"):
        """Records what happens from now on, with stacks of Python at level "state", "alloc"
        or "all", or without any (None)."""
        config = structs.sized(structs.history_config, level=choose(LEVELS, stacks, "level"),
                               max_entries=entries, source=lib.acre_context_python())
        call("acre_hostmem_history_start", self.handle, ctypes.byref(config))

    def stop_history(self):
        """Stops recording and forgets."""
        ask("acre_hostmem_history_stop", self.handle)

    def snapshot(self):
        """A Snapshot of this moment, history included."""
        from .snapshot import Snapshot
        with held(self.handle):
            caches = (ctypes.c_void_p * 1)(self._cache)
            return Snapshot(_handle=make("acre_cache_snapshot", caches, ctypes.c_size_t(1), None))

    def report(self, count=8):
        """Who holds the memory: a few lines of text."""
        count = number.number(count, ctypes.c_uint, "count")
        length = ask("acre_hostmem_report", self.handle, count, None, ctypes.c_size_t(0)) + 4096
        buffer = ctypes.create_string_buffer(length)
        ask("acre_hostmem_report", self.handle, count, buffer, ctypes.c_size_t(length))
        return text(buffer.value)

    def top(self, count=10):
        """The places that hold most: dictionaries of bytes, count and frames (innermost
        first), from live blocks whose stacks were recorded."""
        count = number.number(count, ctypes.c_uint32, "count").value
        with held(self.handle):
            layout_handle = make("acre_cache_layout_create", self._cache)
            history_handle = make("acre_cache_history_create", self._cache)
        try:
            layout = ctypes.cast(layout_handle, ctypes.POINTER(structs.cache_layout)).contents
            history = ctypes.cast(history_handle, ctypes.POINTER(structs.history)).contents
            places = _places(layout)
            largest = sorted(places.items(), key=lambda item: -item[1][0])[:count]
            return [{"bytes": size, "count": blocks, "frames": _frames(history, stack)}
                    for stack, (size, blocks) in largest]
        finally:
            lib.acre_history_destroy(history_handle)
            lib.acre_cache_layout_destroy(layout_handle)


def _pointer(address):
    """An address as C has it; None is no memory."""
    return ctypes.c_void_p(number.size(0 if address is None else address, "address").value)


def _flatten(prefix, value, flat):
    for name, inner in value.items():
        if isinstance(inner, dict):
            _flatten(f"{prefix}{name}.", inner, flat)
        else:
            flat[prefix + name] = inner


def _places(layout):
    """Bytes and number of live blocks by stack."""
    places = {}
    for i in range(layout.block_count):
        block = layout.blocks[i]
        if block.state == 1:
            size, blocks = places.get(block.stack, (0, 0))
            places[block.stack] = (size + block.bytes, blocks + 1)
    return places


def _frames(history, index):
    """The frames of a stack, each "file:line name"; none when they were not recorded."""
    if not 0 < index < history.stack_count or not history.source.resolve:
        return []
    resolve = _RESOLVE(history.source.resolve)
    stack, names = history.stacks[index], []
    for i in range(stack.frame_count):
        frame = structs.frame()
        resolve(history.source.arg, stack.frames[i], ctypes.byref(frame))
        names.append(f"{text(frame.file)}:{frame.line} {text(frame.name)}")
    return names
