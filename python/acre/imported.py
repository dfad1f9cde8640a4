# SPDX-License-Identifier: MIT
"""Memory of other packages."""
import ctypes
from functools import partial

from . import capsule, structs
from .closing import Closing
from .error import Error
from .handle import atomic
from .library import check, lib, locked

_CALLS = {capsule.PLAIN: "acre_from_dlpack", capsule.VERSIONED: "acre_from_dlpack_versioned"}


class Imported(Closing):
    """Memory that another package owns and that lives until this is closed: address,
    size in bytes, and the id of its device."""

    def __init__(self, pointer, size):
        self._size = size
        self._handle = self._pointer = pointer

    @property
    def address(self):
        """Where it begins, as a number."""
        return self._pointer.data or 0

    @property
    def size(self):
        """How many bytes there are."""
        return self._size.value

    @property
    def device_id(self):
        """Type and index of its device."""
        return self._pointer.device.type, self._pointer.device.index

    def _end(self, handle):
        locked.acre_data_ptr_clear(ctypes.byref(handle))


def from_dlpack(source):
    """Takes the memory of an object with __dlpack__ (an array of NumPy, a tensor of
    PyTorch) or of a capsule, without copying."""
    taken = source.__dlpack__() if hasattr(source, "__dlpack__") else source
    pointer, size = structs.data_ptr(), ctypes.c_uint64()
    imported = Imported(pointer, size)  # nothing yet; what is taken has an owner at once
    with atomic:  # another thread may take the capsule as well
        name = capsule.kind_of(taken)
        if name is None:
            raise Error(f"{type(source).__name__} is neither an object with __dlpack__ nor a "
                        "capsule of DLPack that nobody took")
        taking = map(partial.__call__, (
            partial(capsule.rename, taken, capsule.USED[name]),
            partial(getattr(lib, _CALLS[name]), ctypes.c_void_p(capsule.address_of(taken, name)),
                    ctypes.byref(pointer), ctypes.byref(size))))
        _, status = taking  # in one step, which no signal interrupts
        if status:
            capsule.rename(taken, name)
        check(status)
    return imported
