# SPDX-License-Identifier: MIT
"""Finding libacre.so and libacre_tools.so, and calling them.

call("acre_x", ...) calls a function that returns a status, and raises Error unless it
is done; ask("acre_x", ...) gives what the function returns. Nothing that they get is closed
meanwhile. Arguments are converted by their types in Python: whole numbers must be wrapped
where the C type is wider than int.
"""
import ctypes
import os
from threading import get_ident

from .error import Error
from .handle import NOBODY, Handle, held

_NAMES = ("libacre.so.0", "libacre.so")
_TOOLS = ("libacre_tools.so.0", "libacre_tools.so")


def _candidates():
    """Where the library may be: the environment, folders around this one (an installed
    tree, a source tree that was built), and what the system's loader knows."""
    chosen = os.environ.get("ACRE_LIBRARY")
    if chosen:
        yield chosen
        return
    folder = os.path.dirname(os.path.realpath(__file__))
    yield from _existing(folder)  # of a wheel
    for _ in range(4):
        folder = os.path.dirname(folder)
        yield from _existing(folder)
        yield from _existing(os.path.join(folder, "build"))
        for name in sorted(os.listdir(folder)):
            if "-linux-" in name:
                yield from _existing(os.path.join(folder, name))
    yield _NAMES[0]


def _existing(folder):
    """The library in a folder, under each of its names."""
    paths = (os.path.join(folder, name) for name in _NAMES)
    return [path for path in paths if os.path.exists(path)]


def _load():
    reasons = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path), path
        except OSError as reason:
            reasons.append(str(reason))
    raise ImportError("libacre.so.0 cannot be loaded; set ACRE_LIBRARY to its path ("
                      + "; ".join(reasons) + ")")


def _load_tools(beside):
    """The library of files, replays and explanations: it lies beside the other one."""
    reasons = []
    folder = os.path.dirname(os.path.realpath(beside)) if "/" in beside else None
    for name in _TOOLS:
        try:
            return ctypes.CDLL(os.path.join(folder, name) if folder else name)
        except OSError as reason:
            reasons.append(str(reason))
    raise ImportError("libacre_tools.so.0 cannot be loaded; it belongs beside libacre.so.0 ("
                      + "; ".join(reasons) + ")")


class _Both:
    """The calls of both libraries under one roof; tools are loaded when first asked for."""

    def __init__(self, runtime, beside):
        self._runtime, self._beside, self._tools = runtime, beside, None

    def __getattr__(self, name):
        try:
            found = getattr(self._runtime, name)
        except AttributeError:
            if self._tools is None:
                self._tools = _load_tools(self._beside)
            found = getattr(self._tools, name)
        setattr(self, name, found)
        return found


_runtime, path = _load()
lib = _Both(_runtime, path)
# The same library, called with the interpreter's lock held: for calls that end what
# another package owns.
locked = ctypes.PyDLL(path)

_TEXTS = ("acre_version", "acre_status_name", "acre_last_error", "acre_device_type_name",
          "acre_backend_name_at", "acre_action_name")
for _name in _TEXTS:
    getattr(lib, _name).restype = ctypes.c_char_p
lib.acre_last_native.restype = ctypes.c_long
lib.acre_cache_limit_get.restype = ctypes.c_uint64
lib.acre_hostmem_cache.restype = ctypes.c_void_p
lib.acre_hostmem_usable_bytes.restype = ctypes.c_size_t
lib.acre_context_python.restype = ctypes.c_void_p


def text(value):
    """A string of C, or None."""
    return None if value is None else value.decode("utf-8", "replace")


def ask(name, *arguments):
    """Calls a function; what it returns."""
    with held(*arguments):
        return getattr(lib, name)(*arguments)


def call(name, *arguments):
    """Calls a function that returns a status; raises Error unless it is ACRE_OK."""
    check(ask(name, *arguments))


def check(status):
    if status:
        raise Error(text(lib.acre_last_error()), text(lib.acre_status_name(status)), status,
                    lib.acre_last_native())


def end(name, handle):
    """Calls a function that ends a handle, once: it has ended although a signal raises an exception
    as the function returns."""
    handle.ender = NOBODY
    getattr(lib, name)(handle)


def give_back(name, owner, handle):
    """As end(), for a function that an owner comes before and that returns a status: raises Error
    unless it is ACRE_OK, and then the handle has not ended."""
    with held(owner):
        handle.ender = NOBODY
        status = getattr(lib, name)(owner, handle)
        if status:
            handle.ender = get_ident()
        check(status)


def make(name, *arguments):
    """Calls a function whose last parameter takes a pointer out, and returns that."""
    out = Handle()
    call(name, *arguments, ctypes.byref(out))
    return out


def encode(value):
    """A path or string for C, which would end it at its first NUL; None stays."""
    encoded = None if value is None else os.fsencode(value)
    if encoded is not None and b"\0" in encoded:
        raise ValueError(f"there is a NUL in {value!r}")
    return encoded


def version():
    """The version of the library."""
    return text(lib.acre_version())
