# SPDX-License-Identifier: MIT
"""Devices of this machine."""
import ctypes

from . import structs
from .error import choose
from .library import call, lib, make, text
from .number import number, size

TYPES = {"cpu": 0, "cuda": 1, "opencl": 5, "hip": 6, "openreg": 20}
CAPABILITIES = ("streams", "copies", "launch", "values", "virtual", "share", "multicast",
                "capture", "host", "pointers", "peers", "access", "ipc", "current", "ipc-users")
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


class Device:
    """One device: Device("cuda", 1), Device("openreg"). It belongs to the library and is
    never closed."""

    def __init__(self, kind="openreg", index=-1, _handle=None):
        self.handle = _handle or make("acre_device_get", choose(TYPES, kind, "type of device"),
                                      number(index, ctypes.c_int, "index"))

    @property
    def id(self):
        """Type and index as the library numbers them."""
        lib.acre_device_id_of.restype = structs.device_id
        return lib.acre_device_id_of(self.handle)

    @property
    def kind(self):
        """The name of its type, such as "cuda"."""
        return text(lib.acre_device_type_name(self.id.type))

    @property
    def index(self):
        """Its index among those of its type."""
        return self.id.index

    def info(self):
        """Name, capacity, granularity, and the names of what it can do."""
        info = structs.sized(structs.device_info)
        call("acre_device_info_get", self.handle, ctypes.byref(info))
        facts = structs.plain(info)
        facts["capabilities"] = [name for bit, name in enumerate(CAPABILITIES)
                                 if info.capabilities >> bit & 1]
        return facts

    def memory(self):
        """Bytes that are free, and bytes in all."""
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        call("acre_device_memory", self.handle, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def synchronize(self):
        """Waits for all its streams."""
        call("acre_device_synchronize", self.handle)

    def copy(self, to, source, count, kind):
        """Copies between addresses: kind is HOST_TO_DEVICE or DEVICE_TO_HOST."""
        call("acre_copy", self.handle, ctypes.c_void_p(size(to, "address").value),
             ctypes.c_void_p(size(source, "address").value), size(count, "count"),
             number(kind, ctypes.c_int, "kind"))

    def __repr__(self):
        return f"acre.Device({self.kind!r}, {self.index})"


def backends():
    """The backends this build knows: name to Backend handle, or to the reason (a string)
    why it is not there."""
    found, index = {}, 0
    while (name := lib.acre_backend_name_at(index)) is not None:
        backend = ctypes.c_void_p()
        is_there = lib.acre_backend_find(name, ctypes.byref(backend)) == 0
        found[text(name)] = backend if is_there else text(lib.acre_last_error())
        index += 1
    return found


def devices():
    """All devices of all backends that are there."""
    found = []
    for backend in backends().values():
        if isinstance(backend, str):
            continue
        for index in range(lib.acre_backend_device_count(backend)):
            found.append(Device(_handle=make("acre_backend_device", backend, index)))
    return found
