# SPDX-License-Identifier: MIT
"""The caching allocator."""
import ctypes
import weakref

from . import number, structs
from .block import Block
from .closing import Closing, close_all
from .device import Device
from .error import Error, choose
from .history import LEVELS, History
from .handle import Handle, held
from .library import ask, call, encode, end, lib, make
from .snapshot import Snapshot
from .tensor import users_of


class Cache(Closing):
    """The caching allocator of a device.

    policy is "acre" or "torch", conf the options in PyTorch's grammar, limit a cap in
    bytes. Closing frees the blocks that nobody else holds, and is refused while arrays
    of other packages use one.
    """

    def __init__(self, device=None, policy=None, conf=None, limit=0):
        self.device = device or Device()
        config = structs.sized(structs.cache_config, conf=encode(conf), limit_bytes=limit,
                               policy=choose(structs.POLICIES, policy, "policy"))
        self._blocks = weakref.WeakSet()
        self._handle = make("acre_cache_create", self.device.handle, ctypes.byref(config))

    def _check(self):
        used = users_of(self)
        if used:
            raise Error(f"{used} tensors of this cache are in use elsewhere", "ACRE_ERR_BUSY", 23)

    def _end(self, handle):
        close_all(list(self._blocks))
        end("acre_cache_destroy", handle)  # and blocks that are collected from now on are gone

    def alloc(self, size, stream=None):
        """A Block of so many bytes, for a stream or for the default one."""
        size = number.size(size).value
        handle = self.handle
        with held(handle):  # until closing knows the block
            block = Block(self, Handle(), size)  # nothing yet; what it gets has an owner at once
            self._blocks.add(block)
            call("acre_cache_alloc", handle, ctypes.c_size_t(size),
                 stream.handle if stream else None, ctypes.byref(block.handle))
        return block

    def empty(self):
        """Returns idle memory to the device."""
        call("acre_cache_empty", self.handle)

    def stats(self):
        """All statistics of one moment: name to numbers."""
        stats = structs.sized(structs.cache_stats)
        call("acre_cache_stats_get", self.handle, ctypes.byref(stats))
        return structs.plain(stats)

    def reset_peaks(self):
        """Sets every peak to the present level."""
        ask("acre_cache_stats_reset_peak", self.handle)

    @property
    def limit(self):
        """The cap on bytes held from the device, or None."""
        limit = ask("acre_cache_limit_get", self.handle)
        return None if limit == 2**64 - 1 else limit

    @limit.setter
    def limit(self, size):
        size = 2**64 - 1 if size is None else size
        ask("acre_cache_limit_set", self.handle, number.number(size, ctypes.c_uint64, "limit"))

    def segments(self):
        """Segments in address order, each a dictionary with its list of blocks."""
        handle = make("acre_cache_layout_create", self.handle)
        try:
            layout = ctypes.cast(handle, ctypes.POINTER(structs.cache_layout)).contents
            return [self._segment(layout, layout.segments[i]) for i in range(layout.segment_count)]
        finally:
            lib.acre_cache_layout_destroy(handle)

    @staticmethod
    def _segment(layout, segment):
        states = ("free", "live", "waiting", "unmapped")
        blocks = [layout.blocks[segment.first_block + i] for i in range(segment.block_count)]
        return {"address": segment.base, "bytes": segment.bytes, "is_small": bool(segment.is_small),
                "blocks": [{"address": block.base, "bytes": block.bytes,
                            "requested_bytes": block.requested_bytes,
                            "state": states[block.state]} for block in blocks]}

    def record_history(self, entries=2**64 - 1, stacks=None):
        """Records what happens from now on; stacks of native code at level "state", "alloc"
        or "all"."""
        config = structs.sized(structs.history_config, level=choose(LEVELS, stacks, "level"),
                               max_entries=entries)
        call("acre_cache_history_start", self.handle, ctypes.byref(config))

    def stop_history(self):
        """Stops recording and forgets."""
        ask("acre_cache_history_stop", self.handle)

    def history(self):
        """What was recorded."""
        return History(self)

    def snapshot(self):
        """A Snapshot of this moment, history included."""
        handle = self.handle
        with held(handle):
            caches = (ctypes.c_void_p * 1)(handle)
            return Snapshot(_handle=make("acre_cache_snapshot", caches, ctypes.c_size_t(1), None))
