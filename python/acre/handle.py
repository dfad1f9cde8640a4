# SPDX-License-Identifier: MIT
"""What the library knows things by, while several threads use them.

Calls run without the interpreter's lock, so that one thread may close what another one has
just handed to a call. Each call counts itself at its handles, and an end is refused meanwhile;
from its beginning on, only the thread that ends it gets in.
"""
import contextlib
import ctypes
import os
from threading import RLock, get_ident

from .error import Error

NOBODY = 0  # the number of no thread

_lock = RLock()  # of all handles; a __del__ may come at any place, also while it is held
os.register_at_fork(after_in_child=_lock._at_fork_reinit)


class Handle(ctypes.c_void_p):
    """An address that the library gave."""

    calls = 0  # that use it at this moment
    ender = None  # the thread that ends it or has ended it


@contextlib.contextmanager
def held(*handles):
    """While it is open, these do not end; an Error when one of them has ended, or does now."""
    handles = [handle for handle in handles if isinstance(handle, Handle)]
    with _lock:
        if any(handle.ender not in (None, get_ident()) for handle in handles):
            raise Error("another thread closes it", "ACRE_ERR_STATE", 14)
        for handle in handles:
            handle.calls += 1
    try:
        yield
    finally:
        with _lock:
            for handle in handles:
                handle.calls -= 1


def claim(handle):
    """Whether the calling thread is the one that ends a handle; an Error while calls use it."""
    with _lock:
        if getattr(handle, "ender", None) is not None:
            return False
        if getattr(handle, "calls", 0):
            raise Error("another thread is in a call that uses it; close it afterwards",
                        "ACRE_ERR_BUSY", 23)
        handle.ender = get_ident()
    return True


def unclaim(handle):
    """It did not end after all."""
    handle.ender = None
