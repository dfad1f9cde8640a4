# SPDX-License-Identifier: MIT
"""Offsets for buffers whose lifetimes are known."""
from __future__ import annotations

import ctypes
import os
from typing import Optional, Sequence, Union

from . import tool_structs as structs
from .library import call, encode, lib, make
from .number import number
from .report import CHOOSE, size_text

Path = Union[str, "os.PathLike[str]"]


class Plan:
    """A placement: offsets, one for each buffer, height, lower_bound, and is_optimal when
    nothing lower exists."""

    def __init__(self, offsets: list[int], result: ctypes.Structure):
        self.offsets = offsets
        self.height: int = result.height
        self.lower_bound: int = result.lower_bound
        self.is_optimal = bool(result.is_optimal)
        self.seconds: float = result.seconds

    def __len__(self) -> int:
        return len(self.offsets)

    def __repr__(self) -> str:
        return (f"<Plan: {len(self)} buffers, height {size_text(self.height)}, lower bound "
                f"{size_text(self.lower_bound)}>")


def _buffer(start: int, end: int, size: int) -> ctypes.Structure:
    return structs.plan_buffer(start=number(start, ctypes.c_uint64, "start"),
                               end=number(end, ctypes.c_uint64, "end"),
                               size=number(size, ctypes.c_uint64, "size"))


def _place(buffers: ctypes.Array, count: int, capacity: int, seconds: float, seed: int) -> Plan:
    config = structs.sized(structs.plan_config, capacity=capacity, seconds=seconds, seed=seed)
    result = structs.sized(structs.plan_result)
    offsets = (ctypes.c_uint64 * max(count, 1))()
    call("acre_plan_place", buffers, ctypes.c_size_t(count), ctypes.byref(config), offsets,
         ctypes.byref(result))
    return Plan(list(offsets[:count]), result)


def plan(what: Union[Path, Sequence[tuple[int, int, int]]], capacity: int = 0, seconds: float = 0,
         seed: int = 0, device: int = CHOOSE, out: Optional[Path] = None) -> Plan:
    """Places buffers as low as possible: those of a file (CSV, a trace, a snapshot with a
    history), or a list of (first moment, first moment without, bytes). out names a file for
    the rows with their offsets, where a file was read.

    >>> import acre
    >>> acre.plan([(0, 2, 100), (1, 3, 50), (2, 4, 100)]).height
    150
    """
    if not isinstance(what, (str, os.PathLike)):
        buffers = (structs.plan_buffer * max(len(what), 1))(*(_buffer(*row) for row in what))
        return _place(buffers, len(what), capacity, seconds, seed)
    table = make("acre_plan_read_device", encode(what), number(device, ctypes.c_uint32, "device"))
    try:
        count = ctypes.c_size_t()
        lib.acre_plan_buffers.restype = ctypes.POINTER(structs.plan_buffer)
        buffers = lib.acre_plan_buffers(table, ctypes.byref(count))
        found = _place(buffers, count.value, capacity, seconds, seed)
        if out is not None:
            if os.path.exists(out) and os.path.samefile(what, out):
                raise ValueError(f"{os.fspath(out)!r} is the input; write to another file")
            call("acre_plan_write", table, (ctypes.c_uint64 * max(len(found), 1))(*found.offsets),
                 encode(out))
        return found
    finally:
        lib.acre_plan_close(table)
