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
from . import predict
from .advise import Advice, advise
from .block import Block
from .cache import Cache
from .closing import Closing
from .device import Device, backends, devices
from .diff import Diff, convert, diff
from .error import Error
from .file import File
from .heap import Heap
from .history import History
from .imported import Imported, from_dlpack
from .library import version
from .plan import Plan, plan
from .replay import Replay, Verified, replay, verify
from .report import CHOOSE, Report, size_text
from .snapshot import Snapshot, Why, why
from .stream import Stream
from .tensor import Tensor
from .view import view

__all__ = ["Advice", "Block", "CHOOSE", "Cache", "Closing", "Device", "Diff", "Error", "File",
           "Heap", "History", "Imported", "Plan", "Replay", "Report", "Snapshot", "Stream",
           "Tensor", "Verified", "Why", "advise", "backends", "convert", "devices", "diff",
           "from_dlpack", "plan", "predict", "replay", "size_text", "verify", "version", "view",
           "why"]
