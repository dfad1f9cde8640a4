# SPDX-License-Identifier: MIT
"""Files of device memory."""
import ctypes
import os

from . import tool_structs as structs
from .closing import Closing
from .error import choose
from .library import call, encode, end, make
from .number import number, size

_FLAGS = {"r": os.O_RDONLY, "r+": os.O_RDWR, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
          "w+": os.O_RDWR | os.O_CREAT | os.O_TRUNC, "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
          "a+": os.O_RDWR | os.O_CREAT}
ENGINES = {None: 0, "plain": 1, "uring": 2}
_MAY_BUFFER = 1


class File(Closing):
    """A file that blocks are saved to and loaded from, past the page cache.

    mode is as for open(), "a+" meaning to keep what is there. Offsets and sizes are
    multiples of info()["offset_alignment"].
    """

    def __init__(self, path, mode="r", engine=None, block_bytes=0, depth=0, may_buffer=False):
        config = structs.sized(structs.file_config, flags=_MAY_BUFFER if may_buffer else 0,
                               block_bytes=block_bytes, depth=depth,
                               engine=choose(ENGINES, engine, "engine"))
        self._handle = make("acre_file_open", encode(path), choose(_FLAGS, mode, "mode"),
                            ctypes.byref(config))

    def _end(self, handle):
        end("acre_file_close", handle)

    def _move(self, name, block, offset, count):
        count = block.size if count is None else count
        block.place(0, count)
        call(name, self.handle, block.cache.device.handle, block.handle, size(count, "count"),
             number(offset, ctypes.c_uint64, "offset"))

    def save(self, block, offset=0, count=None):
        """Writes a block, or its first bytes, at an offset of the file."""
        self._move("acre_file_save", block, offset, count)

    def load(self, block, offset=0, count=None):
        """Reads into a block from an offset of the file."""
        self._move("acre_file_load", block, offset, count)

    def sync(self):
        """Waits until what was saved is on the medium."""
        call("acre_file_sync", self.handle)

    def info(self):
        """Size, alignment, engine, and whether it is direct."""
        info = structs.sized(structs.file_info)
        call("acre_file_info_get", self.handle, ctypes.byref(info))
        return structs.plain(info)
