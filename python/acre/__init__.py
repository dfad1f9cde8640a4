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
import importlib
import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

# Modules and what the package has of them. They are imported when they are first asked for, so
# that a program that only allocates stays small.
_NAMES = {
    "advise": ("Advice", "advise"),
    "block": ("Block",),
    "cache": ("Cache",),
    "closing": ("Closing",),
    "device": ("Device", "backends", "devices"),
    "diff": ("Diff", "convert", "diff"),
    "error": ("Error",),
    "file": ("File",),
    "heap": ("Heap",),
    "history": ("History",),
    "imported": ("Imported", "from_dlpack"),
    "library": ("version",),
    "plan": ("Plan", "plan"),
    "replay": ("Replay", "Verified", "replay", "verify"),
    "report": ("CHOOSE", "Report", "size_text"),
    "snapshot": ("Snapshot", "Why", "why"),
    "stream": ("Stream",),
    "tensor": ("Tensor",),
    "view": ("view",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


class _Package(types.ModuleType):
    """The package. Some functions have the name of their module; the function counts."""

    def __getattr__(self, name):
        missing = AttributeError(f"module 'acre' has no attribute {name!r}")
        if name.startswith("_"):
            raise missing
        home = f"acre.{_HOMES.get(name, name)}"
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError as reason:
            raise missing if reason.name == home else reason
        value = getattr(module, name) if name in _HOMES else module
        setattr(self, name, value)
        return value

    def __setattr__(self, name, value):
        if name in _HOMES and isinstance(value, types.ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(__all__))


sys.modules[__name__].__class__ = _Package
