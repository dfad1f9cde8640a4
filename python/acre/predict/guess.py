# SPDX-License-Identifier: MIT
"""Answers to questions about data that is not there.

A number read back from the device is 0 (or what --item says), except where small whole
numbers are known. Tests that a program makes of itself pass: all() is true, a number is
finite. Each guess is noted with the line of the program that asked, so that the answer can
say which branches hang on one.
"""
import os
import sys

import torch

from .value import handle_of

_HERE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))


class Guesses:
    """What to answer, and who asked."""

    def __init__(self, item=0, nonzero=0.5):
        self.item = item
        self.nonzero = nonzero
        self.values = None
        self.asked = {}

    def number(self, tensor):
        """The value of a tensor of one element."""
        known = self.values.read(tensor) if self.values is not None else None
        if known is not None:
            return known.item()
        self.guess("item")
        if tensor.dtype == torch.bool:
            return self.values.presumed.get(handle_of(tensor), bool(self.item))
        if tensor.dtype.is_complex:
            return complex(self.item)
        return float(self.item) if tensor.dtype.is_floating_point else int(self.item)

    def count(self, tensor, what):
        """How many elements of a tensor are not zero."""
        known = self.values.read(tensor) if self.values is not None else None
        if known is not None:
            return int(torch.count_nonzero(known))
        self.guess(what)
        return min(tensor.numel(), max(1, round(tensor.numel() * self.nonzero)))

    def guess(self, what):
        """Notes a guess with the line of the program that asked."""
        frame = sys._getframe(1)
        place = None
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith((_HERE, _TORCH)) and not file.startswith("<frozen"):
                place = (file, frame.f_lineno)
                break
            frame = frame.f_back
        if place is None:
            place = ("PyTorch", 0)
        key = (what, *place)
        self.asked[key] = self.asked.get(key, 0) + 1
