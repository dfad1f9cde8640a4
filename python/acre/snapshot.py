# SPDX-License-Identifier: MIT
"""Memory snapshots."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Union

from . import tool_structs as structs
from .closing import Closing
from .library import call, encode, end, lib, make
from .report import Report, items, size_text

_PICKLE, _JSON = 1, 2
VERDICTS = ("none", "shortage", "fragmentation", "streams", "pools", "limit", "unused",
            "unknown")


Path = Union[str, "os.PathLike[str]"]


class Why(Report):
    """The answer of why(): a dictionary that prints as its paragraph."""


class Snapshot(Closing):
    """Segments and blocks of caches at one moment, with the history before: of a file
    (Snapshot("x.pickle")), or of a live cache (Cache.snapshot())."""

    def __init__(self, path: Optional[Path] = None, _handle: Any = None):
        self._handle = _handle or make("acre_snapshot_open", encode(path))

    def _end(self, handle):
        end("acre_snapshot_close", handle)

    def info(self) -> dict[str, Any]:
        """Counts and sums: segments, blocks, events, bytes."""
        info = structs.sized(structs.snapshot_info)
        call("acre_snapshot_info_get", self.handle, ctypes.byref(info))
        return structs.plain(info)

    def check(self) -> None:
        """Raises Error when the snapshot is inconsistent."""
        call("acre_snapshot_check", self.handle)

    def write(self, path: Path) -> None:
        """Writes a file: JSON when the name says so, else a pickle as PyTorch writes them;
        compressed when the name ends with .gz."""
        stem = str(path).removesuffix(".gz")
        call("acre_snapshot_write", self.handle, encode(path),
             _JSON if stem.endswith(".json") else _PICKLE)

    def _facts(self) -> str:
        info = self.info()
        return (f"{info['device_count']} device(s), {info['segment_count']} segments, "
                f"{size_text(info['reserved_bytes'])} held, "
                f"{size_text(info['allocated_bytes'])} in use, {info['event_count']} events")

    def why(self, device: int = -1, device_bytes: int = 0) -> Why:
        """Why memory ran out: the verdict, the figures, remedies, and one paragraph of text.
        Without a device, the one where a request failed, else the one that holds most."""
        config = structs.sized(structs.why_config, device=device, device_bytes=device_bytes)
        handle = make("acre_why_create", self.handle, ctypes.byref(config))
        try:
            found = ctypes.cast(handle, ctypes.POINTER(structs.why)).contents
            answer = structs.plain(found)
            answer["verdict"] = VERDICTS[found.verdict]
            answer["top"] = items(found.top, found.top_count, structs.plain)
            answer["sizes"] = items(found.sizes, found.size_count, structs.plain)
            answer["growth"] = items(found.growth, found.growth_count, structs.plain)
            answer["remedies"] = items(found.remedies, found.remedy_count, structs.plain)
            answer["categories"] = {share["text"]: share["bytes"] for share in items(
                found.categories, found.category_count, structs.plain)}
            return Why(answer)
        finally:
            lib.acre_why_destroy(handle)


def why(path: Path, device: int = -1, device_bytes: int = 0) -> Why:
    """Snapshot.why() of a file.

        print(acre.why("oom.pickle"))
    """
    with Snapshot(path) as snapshot:
        return snapshot.why(device, device_bytes)
