# SPDX-License-Identifier: MIT
"""A recorded sequence, replayed by Acre under other conditions.

Sequences are lists of (action, stack, address, bytes, stream), as Ground.events() gives
them. A replay takes a file; it is written to memory that has no name.
"""
import os

from ..replay import replay


class Trace:
    """A sequence, and what Acre makes of it."""

    def __init__(self, events, empties=()):
        self.events = events
        self.empties = set(empties)  # numbers of events before which the cache was emptied

    def text(self, change=None):
        """The sequence as Acre reads it; change as in replay()."""
        lines, numbers, streams = [], {}, {}
        count = 0
        for index, (action, stack, address, size, stream) in enumerate(self.events):
            if index in self.empties:
                lines.append("e\n")
            if action == "alloc":
                size = change(stack, size, count) if change else size
                if size > 0:
                    numbers[address] = count
                    lines.append(f"a {count} {size} {streams.setdefault(stream, len(streams))}\n")
                count += 1
            elif address in numbers:
                lines.append(f"f {numbers.pop(address)}\n")
        return "".join(lines)

    def replay(self, change=None, text=None, **settings):
        """Replays; change(stack, bytes, number) gives the size of an allocation, 0 for none.
        text is what text() gave, for several replays of it."""
        handle = os.memfd_create("acre-predict")
        try:
            view = memoryview((text or self.text(change)).encode())
            while view:
                view = view[os.write(handle, view):]
            return replay(f"/proc/self/fd/{handle}", policy="torch", **settings)
        finally:
            os.close(handle)
