# SPDX-License-Identifier: MIT
"""Memory seen as numbers."""
import ctypes
import math
import re
from functools import partial

from . import capsule, tool_structs as structs
from .error import Error
from .handle import Handle, held
from .lease import Lease, buffer_of, lent
from .library import call, check, lib, locked
from .number import number

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
_DEVICES = {0: 1, 1: 2, 5: 4, 6: 10, 20: 12}  # types of Acre to those of DLPack
_HOST = 0  # the type of devices whose memory the host may touch
_drop = ctypes.cast(lib.acre_dlpack_object_drop, ctypes.c_void_p)
# Codes of DLPack as NumPy and the struct module spell them; formats by size in bytes.
_KINDS = {0: ("i", {1: "b", 2: "h", 4: "i", 8: "q"}), 1: ("u", {1: "B", 2: "H", 4: "I", 8: "Q"}),
          2: ("f", {2: "e", 4: "f", 8: "d"}), 5: ("c", {}), 6: ("b", {1: "?"})}


def users_of(cache):
    """How many tensors that were given away use memory of a cache."""
    return sum(block.cache is cache for block in lent())


def parse_dtype(dtype):
    """DLPack's code and bits of a type such as "float32", or of one of NumPy."""
    name = str(getattr(dtype, "name", dtype))
    match = re.fullmatch(r"([a-z]+)(\d*)", name)
    if not match or match[1] not in _CODES or not (match[2] or match[1] == "bool"):
        raise Error(f"{dtype!r} is no type of numbers; \"float32\" would be one")
    if match[2] and not (len(match[2]) < 4 and 1 <= int(match[2]) <= 255):
        raise Error(f"{dtype!r} is no type of numbers, which have 1 to 255 bits")
    return structs.dl_type(_CODES[match[1]], int(match[2] or 8), 1)


class Tensor:
    """A part of a block as numbers of one type: for numpy.from_dlpack() and the like. Where
    the host may touch the memory, numpy.asarray() and memory() give what can be written.

    Each taker shares the memory, which lives until the last is gone.
    """

    def __init__(self, block, dtype="uint8", shape=None, offset=0):
        self.block = block
        self.dtype = parse_dtype(dtype)
        self.offset = number(offset, ctypes.c_uint64, "offset").value
        size = (self.dtype.bits + 7) // 8
        self.shape = max(block.size - self.offset, 0) // size if shape is None else shape
        if not isinstance(self.shape, (tuple, list)):
            self.shape = (self.shape,)
        self.shape = tuple(number(extent, ctypes.c_int64, "extent").value for extent in self.shape)
        self.nbytes = math.prod(self.shape) * size

    def __repr__(self) -> str:
        kinds = {code: name for name, code in _CODES.items()}
        shape = " x ".join(map(str, self.shape)) or "a single value"
        kind = kinds[self.dtype.code] + (str(self.dtype.bits) if self.dtype.code != 6 else "")
        return f"<Tensor: {shape} of {kind}, in {self.block!r}>"

    def _layout(self):
        count = len(self.shape)
        numbers = (ctypes.c_int64 * max(count, 1))(*self.shape)
        layout = structs.sized(structs.dl_layout, ndim=count, dtype=self.dtype,
                               byte_offset=self.offset, bytes=self.block.size)
        layout.shape = ctypes.cast(numbers, type(layout.shape))
        return layout, numbers

    def _format(self):
        """NumPy's letter for the type and the struct module's; AttributeError for a type or
        a device that arrays of the host cannot have."""
        if self.block.cache.device.id.type != _HOST:
            raise AttributeError("the host may not touch memory of this device; read() copies it")
        if self.dtype.code not in _KINDS or self.dtype.bits % 8:
            raise AttributeError("arrays of the host do not have this type of numbers")
        letter, formats = _KINDS[self.dtype.code]
        return letter, formats.get(self.dtype.bits // 8)

    def _buffer(self):
        with held(self.block.handle):  # until closing knows the lease
            place = self.block.place(self.offset, self.nbytes)
            return buffer_of(self.block, place, self.nbytes)

    def memory(self):
        """The numbers as a memoryview that can be written, where the host may touch them."""
        letter = self._format()[1]
        if letter is None:
            raise AttributeError("memoryviews do not have this type of numbers")
        view = memoryview(self._buffer()).cast("B")
        return view.cast(letter, self.shape) if self.nbytes else view

    @property
    def __array_interface__(self):
        """For numpy.asarray(): an array that shares the memory and can be written."""
        letter = self._format()[0]
        size = self.dtype.bits // 8
        return {"version": 3, "shape": self.shape, "typestr": f"{'|' if size == 1 else '<'}"
                f"{letter}{size}", "data": self._buffer(), "offset": 0}

    def __dlpack_device__(self):
        device = self.block.cache.device.id
        return _DEVICES[device.type], max(device.index, 0)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None, **_):
        """A capsule; the versioned form for those who say that they know it."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a tensor shares memory of its own device; read() copies it")
        is_versioned = max_version is not None and max_version[0] >= 1
        name = "acre_to_dlpack_versioned" if is_versioned else "acre_to_dlpack"
        handle, device = self.block.handle, self.block.cache.device.id
        layout, _shape = self._layout()
        made, owner, lease = Handle(), structs.data_ptr(), ctypes.py_object(Lease(self.block))
        taken, filling = capsule.empty(capsule.VERSIONED if is_versioned else capsule.PLAIN, made)
        there = ctypes.byref(owner)
        owning = map(partial.__call__, (
            partial(ctypes.pythonapi.Py_IncRef, lease),  # until the owner drops it
            partial(locked.acre_data_ptr_closure, handle, _drop, ctypes.c_void_p(id(lease.value)),
                    device, there)))
        try:
            with held(handle):
                _, status = owning
                if status:
                    ctypes.pythonapi.Py_DecRef(lease)
                check(status)
            call(name, there, ctypes.byref(layout), ctypes.byref(made))
        finally:  # also where a signal interrupts this
            if made:
                tuple(filling)
            elif owner.deleter:
                locked.acre_data_ptr_clear(there)
        return taken
