# SPDX-License-Identifier: MIT
"""The ground that tensors without data stand on: caches of policy "torch" on dry devices.

open_ground(devices) makes PyTorch believe in CUDA devices; make(...) gives a tensor whose
storage is a block of the device's cache and holds nothing. A block is freed when PyTorch
drops the storage, on whatever thread that happens.
"""
import ctypes
import pathlib
import struct

import torch

from .. import library, structs
from ..error import Error
from .stack import Stacks

KNOWN = "2.13."
CUDNN = 91400
_ALLOC, _FREE_REQUESTED, _FREE_COMPLETED = 0, 1, 2
_PEAKS = ("allocated_bytes", "reserved_bytes", "segment")
_ENTRY = struct.Struct("iIQQQQQQQQ")
_RESOLVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)

_HANDLE_BIT = 1 << 62  # of a data pointer; the rest is the address that the library gave

# c10::impl::registerDeviceGuard(DeviceType, const DeviceGuardImplInterface *)
_REGISTER = ("_ZN3c104impl19registerDeviceGuardENS_10DeviceTypeEPKNS0_"
             "24DeviceGuardImplInterfaceE")

# Codes of DLPack for the numbers that it knows; others travel as bytes.
CODES = {
    torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16),
    torch.bfloat16: (4, 16), torch.int64: (0, 64), torch.int32: (0, 32), torch.int16: (0, 16),
    torch.int8: (0, 8), torch.uint8: (1, 8), torch.bool: (6, 8), torch.complex64: (5, 64),
    torch.complex128: (5, 128), torch.uint16: (1, 16), torch.uint32: (1, 32),
    torch.uint64: (1, 64),
}


def _library():
    """libacre_predict.so, which lies beside libacre.so."""
    beside = pathlib.Path(library.path).resolve().parent
    try:
        return ctypes.CDLL(str(beside / "libacre_predict.so"))
    except OSError as reason:
        raise ImportError(f"libacre_predict.so cannot be loaded: {reason}; "
                          "build it with \"make\", or set ACRE_LIBRARY to a libacre.so that "
                          "has it beside") from reason


def _table_bytes(path, symbol):
    """The size of a symbol of a shared object, read from its symbol table."""
    with open(path, "rb") as file:
        head = file.read(64)
        offset, = struct.unpack_from("<Q", head, 40)
        size, count = struct.unpack_from("<HH", head, 58)
        file.seek(offset)
        sections = [struct.unpack("<IIQQQQIIQQ", file.read(size)[:64]) for _ in range(count)]
        symbols = next(section for section in sections if section[1] == 11)
        file.seek(sections[symbols[6]][4])
        names = file.read(sections[symbols[6]][5])
        place = names.find(b"\0" + symbol + b"\0") + 1
        file.seek(symbols[4])
        for entry in struct.iter_unpack("<IBBHQQ", file.read(symbols[5])):
            if entry[0] == place:
                return entry[5]
    return 0


class _PoolId(ctypes.Structure):
    """acre_pool_id."""
    _fields_ = [("graph", ctypes.c_uint64), ("user", ctypes.c_uint64)]


class _PoolFilter(ctypes.Structure):
    """acre_pool_filter: kind 0 is this thread, 2 all allocations."""
    _fields_ = [("kind", ctypes.c_int), ("reserved", ctypes.c_uint32),
                ("stream", ctypes.c_void_p), ("fn", ctypes.c_void_p), ("arg", ctypes.c_void_p),
                ("capture_id", ctypes.c_uint64)]


class Ground:
    """Devices, their caches, and the stacks of what was allocated."""

    def __init__(self, device_count=1, conf=None):
        if not torch.__version__.startswith(KNOWN):
            raise Error(f"prediction knows PyTorch {KNOWN}x; this interpreter has "
                        f"{torch.__version__}: install torch=={KNOWN}0", "ACRE_ERR_UNSUPPORTED", 0)
        if torch.backends.cuda.is_built():
            raise Error("prediction needs a PyTorch without CUDA (torch.version.cuda is "
                        f"{torch.version.cuda}): install the CPU build of torch=={KNOWN}0",
                        "ACRE_ERR_UNSUPPORTED", 0)
        self.device_count = device_count
        self.stacks = Stacks()
        self.notes = []  # dictionaries by handle, whose entries end with the storage
        self.empties = []  # (device, events before it) of each emptied cache
        self.resized = self.capturing = False
        self.shares = {}  # by device: set_per_process_memory_fraction()
        self._peaks = {}  # by device: what reset_peaks() had the library forget
        self.uses = 0  # of blocks on other streams, as record_stream() told them
        self._lib = lib = _library()
        self._resolve = _RESOLVE(self._name_frame)
        for name in ("guard", "cache", "alloc", "tensor", "block"):
            getattr(lib, "acre_predict_" + name).restype = ctypes.c_void_p
        lib.acre_predict_bytes.restype = ctypes.c_uint64
        lib.acre_predict_stream.restype = ctypes.c_int64
        lib.acre_predict_tensor.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_int,
                                            ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
        lib.acre_predict_alloc.argtypes = [ctypes.c_int, ctypes.c_uint64]
        lib.acre_predict_free.argtypes = [ctypes.c_int, ctypes.c_void_p]
        lib.acre_predict_frames_set.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        lib.acre_predict_stream_set.argtypes = [ctypes.c_int, ctypes.c_int64]
        for name in ("acre_pool_id_next", "acre_pool_id_next_graph"):
            getattr(library.lib, name).restype = _PoolId
        self._capsule = ctypes.pythonapi.PyCapsule_New
        self._capsule.restype = ctypes.py_object
        self._capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        status = lib.acre_predict_open(device_count, library.encode(conf), self._resolve)
        if status:
            raise Error(library.text(library.lib.acre_last_error()),
                        library.text(library.lib.acre_status_name(status)), status)
        self._show_devices()

    def _show_devices(self):
        """Hands the guard and the hooks to PyTorch."""
        folder = pathlib.Path(torch.__file__).parent / "lib"
        base = ctypes.CDLL(str(folder / "libc10.so"))
        cpu = ctypes.CDLL(str(folder / "libtorch_cpu.so"))
        hooks_of = cpu._ZN2at6detail12getCUDAHooksEv
        hooks_of.restype = ctypes.c_void_p
        bytes_known = _table_bytes(folder / "libtorch_cpu.so", b"_ZTVN2at18CUDAHooksInterfaceE")
        allocator_of = base._ZN3c1015GetCPUAllocatorEv
        allocator_of.restype = ctypes.c_void_p
        if self._lib.acre_predict_hooks(ctypes.c_void_p(hooks_of()), ctypes.c_uint64(bytes_known),
                                        ctypes.c_long(CUDNN), ctypes.c_void_p(allocator_of())):
            raise Error(f"this build of PyTorch {torch.__version__} has other CUDA hooks than "
                        f"the known one: install torch=={KNOWN}0", "ACRE_ERR_UNSUPPORTED", 0)
        register = getattr(base, _REGISTER)
        register.argtypes = [ctypes.c_int8, ctypes.c_void_p]
        register.restype = None
        register(1, self._lib.acre_predict_guard(self.device_count))

    def _name_frame(self, _, word, out):
        """Names a frame for a snapshot: acre_frame is 256 + 256 bytes and a line."""
        name, file, line = self.stacks.frame(word)
        ctypes.memmove(out, name.encode()[:255] + b"\0", min(len(name.encode()), 255) + 1)
        ctypes.memmove(out + 256, file.encode()[:255] + b"\0", min(len(file.encode()), 255) + 1)
        ctypes.c_int32.from_address(out + 512).value = line

    # ---- allocations ---------------------------------------------------------------

    def make(self, size, stride, dtype, device):
        """A tensor without data."""
        count = 1
        for length, step in zip(size, stride):
            if length == 0:
                count = 0
                break
            count += (length - 1) * step
        known = CODES.get(dtype)
        code, bits = known or (1, 8 * dtype.itemsize if dtype.itemsize == 1 else 8)
        dims = len(size)
        numbers = (ctypes.c_int64 * (2 * dims))(*size, *stride)
        self.stacks.mark(self._lib)
        handle = self._lib.acre_predict_tensor(device, count * dtype.itemsize, code, bits, dims,
                                               numbers)
        if not handle:
            raise MemoryError(f"{count * dtype.itemsize} bytes: "
                              + library.text(library.lib.acre_last_error()))
        for note in self.notes:
            note.pop(handle | _HANDLE_BIT, None)
        tensor = torch._C._from_dlpack(self._capsule(handle, b"dltensor", None))
        return tensor if known else tensor.view(dtype)

    def alloc(self, size, device):
        """A block that a kernel uses inside; give it to free()."""
        self.stacks.mark(self._lib)
        return self._lib.acre_predict_alloc(device, size)

    def free(self, block, device):
        """Frees what alloc() gave."""
        self._lib.acre_predict_free(device, block)

    def resize(self, data, size):
        """Changes how many bytes stand behind a storage."""
        self.resized = True
        self.stacks.mark(self._lib)
        if self._lib.acre_predict_resize(ctypes.c_void_p(data), ctypes.c_uint64(size)):
            raise MemoryError(f"{size} bytes")

    def bytes_of(self, data):
        """How many bytes stand behind a storage."""
        return self._lib.acre_predict_bytes(ctypes.c_void_p(data))

    def block_of(self, data):
        """The address of a storage in histories."""
        return self._lib.acre_predict_block(ctypes.c_void_p(data))

    def record(self, data, stream):
        """Tells that a stream uses a storage, so that its free waits for that stream."""
        self.uses += 1
        self._lib.acre_predict_record(ctypes.c_void_p(data), ctypes.c_int64(stream))

    # ---- private pools ------------------------------------------------------------------

    def pool_next(self, is_graph):
        """A new id, as a pair."""
        found = library.lib.acre_pool_id_next_graph() if is_graph \
            else library.lib.acre_pool_id_next()
        return found.graph, found.user

    def pool_use(self, device, pool):
        """Makes a pool, or uses it once more."""
        library.call("acre_pool_create", self.cache(device), _PoolId(*pool), None)

    def pool_drop(self, device, pool):
        """Uses a pool once less."""
        library.call("acre_pool_release", self.cache(device), _PoolId(*pool))

    def pool_begin(self, device, pool, is_whole):
        """Allocations of this thread, or of all of them, come from a pool."""
        library.call("acre_pool_begin", self.cache(device), _PoolId(*pool),
                     ctypes.byref(_PoolFilter(2 if is_whole else 0)))

    def pool_end(self, device, pool):
        """Ends what pool_begin() began."""
        library.call("acre_pool_end", self.cache(device), _PoolId(*pool))

    def set_capturing(self, is_on):
        """Whether streams say that they are captured."""
        self.capturing = is_on
        self._lib.acre_predict_capturing_set(int(is_on))

    # ---- devices and streams of the calling thread ------------------------------------

    def device(self):
        return self._lib.acre_predict_device()

    def check_device(self, index):
        """Raises what CUDA raises when there is no device of an index."""
        if index >= self.device_count:
            raise RuntimeError(f"CUDA error: invalid device ordinal {index}; the prediction shows "
                               f"{self.device_count} (--devices)")

    def set_device(self, index):
        self._lib.acre_predict_device_set(index)

    def stream(self, device):
        return self._lib.acre_predict_stream(device)

    def set_stream(self, device, stream):
        self._lib.acre_predict_stream_set(device, stream)

    # ---- what happened ----------------------------------------------------------------

    def cache(self, device):
        """The handle of a device's cache."""
        return ctypes.c_void_p(self._lib.acre_predict_cache(device))

    def stats(self, device):
        """All statistics of a device's cache."""
        stats = structs.sized(structs.cache_stats)
        library.call("acre_cache_stats_get", self.cache(device), ctypes.byref(stats))
        return structs.plain(stats)

    def peaks(self, device):
        """The most that a device held since the beginning, whatever the program has reset: bytes
        in blocks, bytes reserved, segments."""
        stats = self.stats(device)
        now = [stats[name]["all"]["peak"] for name in _PEAKS]
        return tuple(map(max, now, self._peaks.get(device, now)))

    def reset_peaks(self, device):
        """Begins the peaks that the program sees anew; peaks() keeps those before."""
        self._peaks[device] = self.peaks(device)
        library.lib.acre_cache_stats_reset_peak(self.cache(device))

    def count(self, device):
        """How many allocations and completed frees a device has seen."""
        counts = self.stats(device)["active"]["all"]
        return counts["allocated"] + counts["freed"]

    def empty(self, device):
        self.empties.append((device, self.count(device)))
        library.call("acre_cache_empty", self.cache(device))

    def events(self, device):
        """(action, stack, address, bytes, stream) of each allocation and free, oldest first:
        action is "alloc" or "free", stack a tuple of words, stream one with its pool."""
        handle = library.make("acre_cache_history_create", self.cache(device))
        try:
            found = ctypes.cast(handle, ctypes.POINTER(structs.history)).contents
            size = ctypes.sizeof(structs.history_entry)
            raw = ctypes.string_at(found.entries, found.entry_count * size)
            stacks = _stacks_of(found)
            names = {_ALLOC: "alloc", _FREE_COMPLETED: "free"}
            return [(names[entry[0]], stacks[entry[1]], entry[2], entry[3], entry[4:7])
                    for entry in _ENTRY.iter_unpack(raw) if entry[0] in names]
        finally:
            library.lib.acre_history_destroy(handle)

    def write(self, path):
        """Writes a snapshot of all devices that were used."""
        used = [device for device in range(self.device_count)
                if device == 0 or self.stats(device)["allocation"]["all"]["allocated"]]
        caches = (ctypes.c_void_p * len(used))(*(self.cache(device).value for device in used))
        handle = library.make("acre_cache_snapshot", caches, ctypes.c_size_t(len(used)), None)
        try:
            stem = str(path).removesuffix(".gz")
            library.call("acre_snapshot_write", handle, library.encode(path),
                         2 if stem.endswith(".json") else 1)
        finally:
            library.lib.acre_snapshot_close(handle)


def _stacks_of(history):
    """The stacks of a history, each a tuple of words."""
    size = ctypes.sizeof(structs.stack)
    found = []
    for frames, length in struct.iter_unpack(
            "QQ", ctypes.string_at(history.stacks, size * history.stack_count)):
        words = ctypes.string_at(frames, 8 * length) if length else b""
        found.append(struct.unpack(f"{length}Q", words))
    return found
