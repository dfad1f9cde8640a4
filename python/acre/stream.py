# SPDX-License-Identifier: MIT
"""Streams of a device."""
import ctypes

from .closing import Closing
from .library import ask, call, give_back, make
from .number import number

OK, NOT_READY = 0, 21


class Stream(Closing):
    """A queue of work on a device; work queued on it is finished before it is closed."""

    def __init__(self, device, priority=0):
        self.device = device
        self._handle = make("acre_stream_native_create", device.handle, 0,
                            number(priority, ctypes.c_int, "priority"))

    def _end(self, handle):
        give_back("acre_stream_native_destroy", self.device.handle, handle)

    def synchronize(self):
        """Waits until all that was queued is done; raises what failed."""
        call("acre_stream_native_synchronize", self.device.handle, self.handle)

    def is_idle(self):
        """Whether all that was queued is done."""
        status = ask("acre_stream_native_query", self.device.handle, self.handle)
        if status not in (OK, NOT_READY):
            call("acre_stream_native_query", self.device.handle, self.handle)
        return status == OK
