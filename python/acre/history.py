# SPDX-License-Identifier: MIT
"""What happened in a cache."""
import ctypes

from . import structs
from .library import lib, make, text

LEVELS = {None: 0, "state": 1, "alloc": 2, "all": 3}


class History:
    """A copy of the events of a cache, oldest first: a list of dictionaries."""

    def __init__(self, cache):
        handle = make("acre_cache_history_create", cache.handle)
        try:
            found = ctypes.cast(handle, ctypes.POINTER(structs.history)).contents
            self.entries = [self._entry(found.entries[i]) for i in range(found.entry_count)]
        finally:
            lib.acre_history_destroy(handle)

    @staticmethod
    def _entry(entry):
        return {"action": text(lib.acre_action_name(entry.action)), "address": entry.address,
                "bytes": entry.bytes, "stream": entry.stream or 0, "pool": tuple(entry.pool),
                "time_us": entry.time_us}

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)
