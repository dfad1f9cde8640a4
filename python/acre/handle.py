# SPDX-License-Identifier: MIT
"""What the library knows things by, while several threads use them.

Calls run without the interpreter's lock, so that one thread may close what another one has
just handed to a call. Each call counts itself at its handles, and an end is refused meanwhile;
from its beginning on, only the thread that ends it gets in.
"""
import ctypes
import os
import sys
from threading import RLock, get_ident
from weakref import ref

from .error import Error

NOBODY = 0  # the number of no thread

atomic = RLock()  # of all handles; a __del__ may come at any place, also while it is held
_generation = 0  # of the process; a child of fork has none of its parent's other threads


def _begin_child():
    global _generation
    atomic._at_fork_reinit()
    _generation += 1


os.register_at_fork(after_in_child=_begin_child)


class Handle(ctypes.c_void_p):
    """An address that the library gave."""

    calls = frozenset()  # that use it at this moment: references to what held() gave
    ender = None  # the thread that ends it or has ended it


class held:
    """While it is open, these do not end; an Error when one of them has ended, or does now. A
    signal may raise an exception at any place in here: what is left over then counts no more."""

    __slots__ = ("handles", "own", "thread", "frame", "generation", "__weakref__")

    def __init__(self, *handles):
        self.handles = [handle for handle in handles if isinstance(handle, Handle)]

    def __enter__(self):
        self.thread, self.frame = get_ident(), id(sys._getframe(1))
        self.own, self.generation = frozenset((ref(self),)), _generation
        with atomic:
            if any(handle.ender not in (None, self.thread) for handle in self.handles):
                raise Error("another thread closes it", "ACRE_ERR_STATE", 14)
            for handle in self.handles:
                handle.calls |= self.own

    def __exit__(self, *_):
        with atomic:
            for handle in self.handles:
                handle.calls -= self.own


def _is_used(handle):
    """Whether a call is under way. Those of this thread are in the frames that it is in."""
    frame, frames = sys._getframe(1), set()
    while frame is not None:
        frames.add(id(frame))
        frame = frame.f_back
    handle.calls = frozenset(call for call in handle.calls if call() is not None)
    return any(call is not None and (
                   call.frame in frames
                   or (call.generation == _generation and call.thread != get_ident()))
               for call in [call() for call in handle.calls])


def claim(handle):
    """Whether the calling thread is the one that ends a handle; an Error while calls use it."""
    with atomic:
        if getattr(handle, "ender", None) is not None:
            return False
        if getattr(handle, "calls", None) and _is_used(handle):
            raise Error("another thread is in a call that uses it; close it afterwards",
                        "ACRE_ERR_BUSY", 23)
        handle.ender = get_ident()
    return True


def unclaim(handle):
    """It did not end after all, if the calling thread was to end it."""
    with atomic:
        if getattr(handle, "ender", None) == get_ident():
            handle.ender = None
