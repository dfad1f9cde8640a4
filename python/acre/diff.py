# SPDX-License-Identifier: MIT
"""What changed between two snapshots."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Union

from . import tool_structs as structs
from .library import call, encode, lib, make
from .number import number
from .report import CHOOSE, Report, items
from .snapshot import Snapshot

Path = Union[str, "os.PathLike[str]"]


class Diff(Report):
    """Live memory of two snapshots compared: stacks and sizes are lists of dictionaries, what
    grew most first."""


def diff(before: Path, after: Path, device: int = CHOOSE, peak: bool = False) -> Diff:
    """Compares two snapshot files; with peak, when most was live instead of at their ends.

        print(acre.diff("step100.pickle", "step200.pickle"))
    """
    with Snapshot(before) as first, Snapshot(after) as second:
        first.check()
        second.check()
        handle = make("acre_diff_create", first.handle, second.handle,
                      number(device, ctypes.c_uint32, "device"),
                      ctypes.c_uint32(1 if peak else 0))
    try:
        found = ctypes.cast(handle, ctypes.POINTER(structs.diff)).contents
        answer: dict[str, Any] = structs.plain(found)
        answer["stacks"] = items(found.stacks, found.stack_count, structs.plain)
        answer["sizes"] = items(found.sizes, found.size_count, structs.plain)
        return Diff(answer)
    finally:
        lib.acre_diff_destroy(handle)


def _format_of(name: str) -> int:
    stem = name.removesuffix(".gz")
    for number, endings in ((1, (".trace", ".txt")), (2, (".pickle", ".pkl")), (3, (".json",))):
        if stem.endswith(endings):
            return number
    raise ValueError(f"{name!r} does not tell the format; name it .trace, .pickle or .json")


def convert(source: Path, target: Path, device: int = CHOOSE) -> None:
    """Writes what a file holds, trace or snapshot, as another; the name of the target tells
    the format: .trace, .pickle or .json, with .gz behind it compressed.

        acre.convert("oom.pickle", "oom.trace.gz")
    """
    if os.path.exists(target) and os.path.samefile(source, target):
        raise ValueError(f"{os.fspath(target)!r} is the input; write to another file")
    call("acre_convert", encode(source), encode(target), _format_of(os.fspath(target)),
         number(device, ctypes.c_uint32, "device"))
