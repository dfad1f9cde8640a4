# SPDX-License-Identifier: MIT
"""Stacks: where in the user's program an allocation was made, and by which operator.

A frame is a number. The first frame of every stack is the operator, with its role in
place of a file: "workspace", "range", "backward", "step" (of an optimizer) or "". The
rest are lines of Python, innermost first. On threads of autograd the lines are those of
the call that started the backward pass.
"""
import array
import os
import sys
import threading

import torch

DEPTH = 60
_HERE = os.path.dirname(os.path.abspath(__file__))


class Stacks:
    """Numbers for frames, and the operator that is running on each thread."""

    def __init__(self):
        self._numbers = {}
        self._frames = [("??", "", 0)]
        self._lines = {}
        self._local = threading.local()
        self.backward = ()
        self.phase = ""
        self.calls = 0
        self._node = getattr(torch._C, "_current_autograd_node", lambda: None)

    def number(self, frame):
        """The number of a frame (name, file, line)."""
        found = self._numbers.get(frame)
        if found is None:
            found = self._numbers[frame] = len(self._frames)
            self._frames.append(frame)
        return found

    def frame(self, number):
        """The frame behind a number."""
        return self._frames[number] if number < len(self._frames) else self._frames[0]

    def enter(self, operator, role=""):
        """Names the operator that the calling thread runs; returns the one before."""
        before = getattr(self._local, "operator", ("??", ""))
        self._local.operator = (operator, role)
        return before

    def leave(self, before):
        """Goes back to the operator before."""
        self._local.operator = before

    def lines(self):
        """Lines of Python of the calling thread, innermost first, as numbers."""
        found = []
        frame = sys._getframe(1)
        known = self._lines
        while frame is not None and len(found) < DEPTH:
            code = frame.f_code
            key = (code, frame.f_lineno)
            number = known.get(key)
            if number is None:
                file = code.co_filename
                is_ours = file.startswith((_HERE, "<frozen runpy")) \
                    or file.endswith("/torch/_ops.py")
                number = 0 if is_ours else self.number((code.co_name, file, frame.f_lineno or 0))
                known[key] = number
            if number:
                found.append(number)
            frame = frame.f_back
        return found

    def mark(self, lib):
        """Hands the present stack to the library, for the next allocation."""
        operator, role = getattr(self._local, "operator", ("??", ""))
        words = self.lines()
        if not role:
            role = "backward" if self._node() is not None else self.phase
        if not words:
            words = list(self.backward)
        words.insert(0, self.number((operator, role, 0)))
        self.calls += 1
        buffer = array.array("Q", words)
        lib.acre_predict_frames_set(buffer.buffer_info()[0], len(words))
