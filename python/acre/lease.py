# SPDX-License-Identifier: MIT
"""Who uses memory of a block besides the block itself."""
import ctypes
import itertools

leases = {}  # blocks by the number of the lease
_numbers = itertools.count(1)


def lend(block):
    """The number of a new lease, which keeps a block alive until it is given back."""
    number = next(_numbers)
    leases[number] = block
    return number


def give_back(number, held=leases):
    """Ends a lease."""
    held.pop(number, None)


class Lease:
    """A lease that ends when nobody refers to it any more."""

    def __init__(self, block):
        self.number = lend(block)

    def __del__(self, end=give_back):
        end(self.number)


def buffer_of(block, address, size):
    """Memory of the host as an object that others may hold: it keeps a lease of the block."""
    buffer = (ctypes.c_char * size).from_address(address)
    buffer.lease = Lease(block)
    return buffer
