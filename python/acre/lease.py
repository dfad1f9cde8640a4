# SPDX-License-Identifier: MIT
"""Who uses memory of a block besides the block itself."""
import ctypes
import itertools
from weakref import WeakValueDictionary

_leases = WeakValueDictionary()  # by their numbers
_numbers = itertools.count(1)


class Lease:
    """Keeps a block alive, and is counted, until nobody refers to it any more. No code runs at its
    beginning or end that a signal could interrupt half-way."""

    def __init__(self, block):
        self.block = block
        _leases[next(_numbers)] = self


def lent():
    """The blocks that are lent at this moment, each as often as it is."""
    return [lease.block for lease in [ref() for ref in _leases.valuerefs()] if lease is not None]


def buffer_of(block, address, size):
    """Memory of the host as an object that others may hold: it keeps a lease of the block."""
    buffer = (ctypes.c_char * size).from_address(address)
    buffer.lease = Lease(block)
    return buffer
