# SPDX-License-Identifier: MIT
"""Memory of other packages."""
import ctypes
import os

from . import capsule, structs
from .closing import Closing
from .error import Error
from .library import call, locked

_CALLS = {capsule.PLAIN: "acre_from_dlpack", capsule.VERSIONED: "acre_from_dlpack_versioned"}
_takers = {}  # calls that take a capsule at this moment, by its number
os.register_at_fork(after_in_child=_takers.clear)


class Imported(Closing):
    """Memory that another package owns and that lives until this is closed: address,
    size in bytes, and the id of its device."""

    def __init__(self, pointer, size):
        self.address = pointer.data or 0
        self.size = size
        self.device_id = (pointer.device.type, pointer.device.index)
        self._handle = pointer

    def _end(self, handle):
        locked.acre_data_ptr_clear(ctypes.byref(handle))


def from_dlpack(source):
    """Takes the memory of an object with __dlpack__ (an array of NumPy, a tensor of
    PyTorch) or of a capsule, without copying."""
    taken, me = source.__dlpack__() if hasattr(source, "__dlpack__") else source, object()
    try:
        is_mine = _takers.setdefault(id(taken), me) is me  # another thread may take it as well
        name = capsule.kind_of(taken) if is_mine else None
        if name is None:
            raise Error(f"{type(source).__name__} is neither an object with __dlpack__ nor a "
                        "capsule of DLPack that nobody took")
        pointer, size = structs.data_ptr(), ctypes.c_uint64()
        call(_CALLS[name], ctypes.c_void_p(capsule.address_of(taken, name)), ctypes.byref(pointer),
             ctypes.byref(size))
        capsule.mark_used(taken, name)
    finally:
        if _takers.get(id(taken)) is me:
            del _takers[id(taken)]
    return Imported(pointer, size.value)
