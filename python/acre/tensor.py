# SPDX-License-Identifier: MIT
"""Memory seen as numbers."""
import ctypes
import itertools
import math
import re

from . import capsule, structs
from .capsule import forever
from .error import Error
from .library import call, make

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
_DEVICES = {0: 1, 1: 2, 5: 4, 6: 10, 20: 12}  # types of Acre to those of DLPack
_closure = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_held = {}  # what tensors that were given away keep alive, by number
_numbers = itertools.count(1)


def _drop(number, _data, held=_held):
    held.pop(number, None)


_release = forever(_closure(_drop))


def users_of(cache):
    """How many tensors that were given away use memory of a cache."""
    return sum(block.cache is cache for block in list(_held.values()))


def parse_dtype(dtype):
    """DLPack's code and bits of a type such as "float32", or of one of NumPy."""
    name = str(getattr(dtype, "name", dtype))
    match = re.fullmatch(r"([a-z]+)(\d*)", name)
    if not match or match[1] not in _CODES or not (match[2] or match[1] == "bool"):
        raise Error(f"{dtype!r} is no type of numbers; \"float32\" would be one")
    return structs.dl_type(_CODES[match[1]], int(match[2] or 8), 1)


class Tensor:
    """A part of a block as numbers of one type: for numpy.from_dlpack() and the like.

    Each taker shares the memory, which lives until the last is gone.
    """

    def __init__(self, block, dtype="uint8", shape=None, offset=0):
        self.block = block
        self.dtype = parse_dtype(dtype)
        self.offset = offset
        size = (self.dtype.bits + 7) // 8
        self.shape = (block.size - offset) // size if shape is None else shape
        if isinstance(self.shape, int):
            self.shape = (self.shape,)
        self.nbytes = math.prod(self.shape) * size

    def _layout(self):
        count = len(self.shape)
        numbers = (ctypes.c_int64 * max(count, 1))(*self.shape)
        layout = structs.sized(structs.dl_layout, ndim=count, dtype=self.dtype,
                               byte_offset=self.offset, bytes=self.block.size)
        layout.shape = ctypes.cast(numbers, type(layout.shape))
        return layout, numbers

    def _owner(self):
        """A data pointer that keeps the block alive until it is cleared."""
        number = next(_numbers)
        owner = structs.data_ptr()
        call("acre_data_ptr_closure", self.block.handle, _release, ctypes.c_void_p(number),
             self.block.cache.device.id, ctypes.byref(owner))
        _held[number] = self.block
        return owner, number

    def __dlpack_device__(self):
        device = self.block.cache.device.id
        return _DEVICES[device.type], max(device.index, 0)

    def __dlpack__(self, stream=None, max_version=None, **_):
        """A capsule; the versioned form for those who say that they know it."""
        is_versioned = max_version is not None and max_version[0] >= 1
        layout, _shape = self._layout()
        owner, number = self._owner()
        name = "acre_to_dlpack_versioned" if is_versioned else "acre_to_dlpack"
        try:
            tensor = make(name, ctypes.byref(owner), ctypes.byref(layout))
        except Error:
            _held.pop(number, None)
            owner.context = None
            raise
        return capsule.new(tensor, capsule.VERSIONED if is_versioned else capsule.PLAIN)
