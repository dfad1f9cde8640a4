# SPDX-License-Identifier: MIT
"""Memory snapshots."""
import ctypes

from . import structs
from .closing import Closing
from .library import call, encode, lib, make

_PICKLE, _JSON = 1, 2
VERDICTS = ("none", "shortage", "fragmentation", "streams", "pools")


class Snapshot(Closing):
    """Segments and blocks of caches at one moment, with the history before: of a file
    (Snapshot("x.pickle")), or of a live cache (Cache.snapshot())."""

    def __init__(self, path=None, _handle=None):
        self._handle = _handle or make("acre_snapshot_open", encode(path))

    def _end(self, handle):
        lib.acre_snapshot_close(handle)

    def info(self):
        """Counts and sums: segments, blocks, events, bytes."""
        info = structs.sized(structs.snapshot_info)
        call("acre_snapshot_info_get", self.handle, ctypes.byref(info))
        return structs.plain(info)

    def check(self):
        """Raises Error when the segments do not add up."""
        call("acre_snapshot_check", self.handle)

    def write(self, path):
        """Writes a file: JSON when the name says so, else a pickle as PyTorch writes them;
        compressed when the name ends with .gz."""
        stem = str(path).removesuffix(".gz")
        call("acre_snapshot_write", self.handle, encode(path),
             _JSON if stem.endswith(".json") else _PICKLE)

    def why(self):
        """Why memory ran out: the verdict, the figures, and one paragraph of text."""
        handle = make("acre_why_create", self.handle, None)
        try:
            found = ctypes.cast(handle, ctypes.POINTER(structs.why)).contents
            answer = structs.plain(found)
            answer["verdict"] = VERDICTS[found.verdict]
            answer["top"] = [structs.plain(found.top[i]) for i in range(found.top_count)]
            return answer
        finally:
            lib.acre_why_destroy(handle)


def why(path):
    """Snapshot.why() of a file."""
    with Snapshot(path) as snapshot:
        return snapshot.why()
