# SPDX-License-Identifier: MIT
"""Whole numbers on their way to C, which would drop the bits it has no room for."""
import ctypes
import operator

from .error import Error

_SIGNED = (ctypes.c_int8, ctypes.c_int16, ctypes.c_int32, ctypes.c_int64)
_UNSIGNED = (ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64)


def limits(kind):
    """The least and the greatest number of a type of ctypes; None for other types.

    >>> limits(ctypes.c_uint8)
    (0, 255)
    """
    bits = 8 * ctypes.sizeof(kind)
    if kind in _SIGNED:
        return -1 << (bits - 1), (1 << (bits - 1)) - 1
    return (0, (1 << bits) - 1) if kind in _UNSIGNED else None


def number(value, kind, what):
    """The value as that type of C; an Error when it is no whole number or does not fit.

    >>> number(7, ctypes.c_size_t, "size").value
    7
    """
    least, greatest = limits(kind)
    try:
        whole = operator.index(value)
    except TypeError:
        raise Error(f"{what} is a whole number, not {value!r}") from None
    if not least <= whole <= greatest:
        raise Error(f"{what} {whole} is not between {least} and {greatest}")
    return kind(whole)


def size(value, what="size"):
    """The value as a size_t."""
    return number(value, ctypes.c_size_t, what)
