# SPDX-License-Identifier: MIT
"""Memory of a cache."""
import ctypes

from .closing import Closing
from .device import DEVICE_TO_HOST, HOST_TO_DEVICE
from .error import Error
from .lease import lent
from .handle import held
from .library import call, give_back
from .number import size
from .tensor import Tensor


class Block(Closing):
    """Bytes that Cache.alloc() gave; closing frees them. Tensors and arrays made of it
    keep it alive, and closing is refused (ACRE_ERR_BUSY) while there are any."""

    def __init__(self, cache, pointer, size):
        self.cache = cache
        self.size = size
        self._handle = pointer

    def _facts(self) -> str:
        return f"{self.size} bytes at {self.address:#x} on {self.cache.device!r}"

    def _check(self):
        used = sum(block is self for block in lent())
        if used:
            raise Error(f"arrays or tensors made of this block are still in use: {used}; it is "
                        "freed when they and the block are gone", "ACRE_ERR_BUSY", 23)

    def _end(self, handle):
        give_back("acre_cache_free", self.cache.handle, handle)

    @property
    def address(self):
        """Where it begins, as a number."""
        return self.handle.value or 0

    def place(self, offset, count):
        """The address of so many bytes at an offset; an Error when the block has fewer."""
        offset, count = size(offset, "offset").value, size(count, "count").value
        if offset + count > self.size:
            raise Error(f"{count} bytes at offset {offset} do not lie in a block of {self.size}",
                        "ACRE_ERR_RANGE", 11)
        return self.address + offset

    def write(self, data, offset=0):
        """Copies an object with bytes (bytes, bytearray, array, memoryview) to the device."""
        view = bytes(memoryview(data).cast("B"))
        if view:
            source = ctypes.cast(ctypes.c_char_p(view), ctypes.c_void_p).value
            with held(self.handle):
                self.cache.device.copy(self.place(offset, len(view)), source, len(view),
                                       HOST_TO_DEVICE)

    def read(self, count=None, offset=0):
        """Copies bytes from the device; all from the offset on when no count is given."""
        offset = size(offset, "offset").value
        count = max(self.size - offset, 0) if count is None else size(count, "count").value
        place = self.place(offset, count)
        buffer = ctypes.create_string_buffer(max(count, 1))
        if count:
            with held(self.handle):
                self.cache.device.copy(ctypes.addressof(buffer), place, count, DEVICE_TO_HOST)
        return buffer.raw[:count]

    def record_stream(self, stream):
        """Tells that a stream uses it too: a free then waits for that."""
        call("acre_cache_record_stream", self.cache.handle, self.handle, stream.handle)

    def tensor(self, dtype="uint8", shape=None, offset=0):
        """The block, or a part of it, as a tensor that DLPack knows."""
        return Tensor(self, dtype, shape, offset)

    def memory(self):
        """The bytes as a memoryview that can be written, where the host may touch them."""
        return self.tensor().memory()

    @property
    def __array_interface__(self):
        return self.tensor().__array_interface__

    def __dlpack__(self, **keywords):
        return self.tensor().__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.tensor().__dlpack_device__()
