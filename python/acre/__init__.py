# SPDX-License-Identifier: MIT
"""Acre from Python: device memory, its statistics, snapshots, replays and files.

    import acre

    with acre.Cache(acre.Device("openreg")) as cache:
        block = cache.alloc(1 << 20)
        block.write(b"hello")
        print(cache.stats()["allocated_bytes"]["all"]["current"])

The package is a thin layer over libacre.so by ctypes and needs nothing else; arrays
travel by DLPack, so NumPy is welcome and not required. Every failure is an acre.Error
with the library's own sentence. ACRE_LIBRARY names the library where it is not found.
"""
from .advise import Advice, advise
from .block import Block
from .cache import Cache
from .closing import Closing
from .device import Device, backends, devices
from .error import Error
from .file import File
from .history import History
from .imported import Imported, from_dlpack
from .library import version
from .replay import Replay, replay, verify
from .snapshot import Snapshot, why
from .stream import Stream
from .tensor import Tensor

__all__ = ["Advice", "Block", "Cache", "Closing", "Device", "Error", "File", "History", "Imported",
           "Replay", "Snapshot", "Stream", "Tensor", "advise", "backends", "devices",
           "from_dlpack", "replay", "verify", "version", "why"]
