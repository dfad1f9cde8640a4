# SPDX-License-Identifier: MIT
"""Answers to questions about data that is not there.

A number read back from the device is 0 (or what --item says), except where small whole
numbers are known. Tests that a program makes of itself pass: all() is true, a number is
finite. A token that was just chosen is not the one that ends a text: a loop that generates
until then runs to its limit, as it does at worst on a GPU. Each guess is noted with the line of
the program that asked, so that the answer can say which branches hang on one.
"""
import os
import sys

import torch

_HERE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))

# Operators by what Presumptions makes of them.
_CHOSEN = object()  # an answer about tokens, not truths
_CHOOSE = frozenset(("aten::argmax", "aten::multinomial"))
_OR = frozenset(("aten::bitwise_or", "aten::logical_or", "aten::bitwise_or_",
                 "aten::logical_or_", "aten::__or__", "aten::__ior__"))
_AND = frozenset(("aten::bitwise_and", "aten::logical_and", "aten::bitwise_and_",
                  "aten::logical_and_", "aten::__and__", "aten::__iand__"))
_SAME = frozenset(("aten::all", "aten::any", "aten::max", "aten::min", "aten::gather",
                   "aten::index_select", "aten::clone"))
_NOT = frozenset(("aten::bitwise_not", "aten::logical_not", "aten::bitwise_not_",
                  "aten::logical_not_"))


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
            return self.values.presumed.get(tensor, bool(self.item))
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


class Presumptions:
    """One answer for all elements of a tensor of truths, by the handle of its storage, beside the
    values that are known."""

    def __init__(self, values, handle_of, notes):
        self._values, self._handle_of = values, handle_of
        self._answers, self._chosen = {}, {}
        notes += [self._answers, self._chosen]

    def set(self, tensor, answer):
        """Presumes all elements of a tensor of the device to be true, or false."""
        if tensor.is_cuda and tensor.numel():
            self._answers[self._handle_of(tensor)] = answer

    def get(self, tensor, otherwise=None):
        """What is presumed of a tensor."""
        return self._answers.get(self._handle_of(tensor), otherwise)

    def forget(self, tensor):
        """Nothing is presumed of a tensor any more."""
        handle = self._handle_of(tensor)
        self._answers.pop(handle, None)
        self._chosen.pop(handle, None)

    def judge(self, name, args, result):
        """What is to be presumed of the result of an operator on values that are not known, from
        its operands as they were before: give it to note()."""
        if not isinstance(result, torch.Tensor) or not result.is_cuda or not result.numel():
            return None
        if name in _CHOOSE or (name == "aten::gather" and self._is_chosen(args[2])):
            return _CHOSEN
        answer = self._answer(name, args, result) if result.dtype == torch.bool else None
        return True if answer is None and name == "aten::all" and result.numel() == 1 else answer

    def note(self, result, answer):
        """Keeps what judge() said."""
        if answer is _CHOSEN:
            self._chosen[self._handle_of(result)] = True
        elif answer is not None:
            self.set(result, answer)

    def _answer(self, name, args, result):
        if name in ("aten::eq", "aten::ne", "aten::isin"):
            return self._of_comparison(name == "aten::ne", name == "aten::isin", *args[:2])
        if name in _SAME:
            return self._of(args[0])
        if name == "aten::cat":
            answers = {self._of(tensor) for tensor in args[0]}
            return answers.pop() if len(answers) == 1 else None
        if name in _NOT:
            answer = self._of(args[0])
            return None if answer is None else not answer
        if name in _OR or name in _AND:
            both = self._of(args[0]), self._of(args[1])
            absorbing = name in _OR
            if absorbing in both:
                return absorbing
            # One truth decides on a loop: the part that is not known leaves it to the other.
            leaves = result.numel() == 1 and any(
                isinstance(value, torch.Tensor) and value.is_cuda and self.get(value) is not None
                for value in args[:2])
            return None if None in both and not leaves else not absorbing
        return None

    def _of_comparison(self, is_ne, is_in, tensor, other):
        """Whole numbers differ from one that they are compared with, unless that is 0 or 1: so
        masks are asked for, and truths."""
        if not isinstance(tensor, torch.Tensor) or tensor.dtype.is_floating_point \
                or tensor.dtype == torch.bool:
            return None
        if not (is_in or self._is_chosen(tensor)):
            if isinstance(other, torch.Tensor):
                known = self._values.read(other) if other.numel() == 1 else None
                other = 0 if known is None else known.item()
            if other in (0, 1):
                return None
        return is_ne

    def _is_chosen(self, tensor):
        return tensor.is_cuda and self._handle_of(tensor) in self._chosen

    def _of(self, value):
        """The one answer of an operand: as it is known for all elements, or presumed."""
        if not isinstance(value, torch.Tensor):
            return bool(value)
        known = self._values.read(value) if value.dtype == torch.bool else None
        if known is None:
            return self.get(value) if value.is_cuda else None
        return True if bool(known.all()) else False if not bool(known.any()) else None
