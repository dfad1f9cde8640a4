# SPDX-License-Identifier: MIT
"""NumPy's arrays on a heap of Acre.

    >>> import acre.numpy, numpy
    >>> acre.numpy.enable()
    >>> values = numpy.ones(1 << 20)
    >>> acre.numpy.memory_stats()["allocated_bytes.all.current"] >= values.nbytes
    True
    >>> acre.numpy.disable()

NumPy asks a memory handler for the data of its arrays (NEP 49). enable() puts one there
that allocates from a Heap; arrays below 1024 bytes stay with NumPy. Each array is freed by
the handler that made it, so enable() and disable() may come at any time.

NumPy keeps its handler in a context variable: each thread starts with NumPy's own handler.
While Acre is enabled, threads of the module threading enable it for themselves when they
start; other threads call enable().

NumPy is not imported before enable().
"""
import ctypes
import importlib
import os
import threading

from .error import Error
from .heap import Heap
from .library import make

# Places of functions in NumPy's table, part of its binary interface from 1.22 on.
_SET_HANDLER, _DEFAULT_HANDLER = 304, 306
_CAPSULE = b"mem_handler"

_state = {"heap": None, "capsule": None, "is_enabled": False}
_lock = threading.Lock()
os.register_at_fork(after_in_child=_lock._at_fork_reinit)
_thread_start = threading.Thread.start


def _module(name):
    """A module of NumPy's core, which 2.0 moved."""
    import numpy
    major = int(numpy.__version__.split(".")[0])
    return importlib.import_module(f"numpy.{'_core' if major >= 2 else 'core'}.{name}")


def _table():
    """NumPy's table of functions."""
    import numpy
    version = tuple(int(part) for part in numpy.__version__.split(".")[:2])
    if version < (1, 22):
        raise Error(f"NumPy {numpy.__version__} has no memory handlers; install 1.24 or later",
                    "ACRE_ERR_UNSUPPORTED", 20)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(_module("_multiarray_umath")._ARRAY_API, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p)), pointer


def _install(capsule):
    """Sets the handler of the calling context; None: NumPy's own."""
    table, _ = _table()
    install = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    if capsule is None:
        capsule = ctypes.cast(table[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))[0]
    install(capsule)


def _start(thread):
    """threading.Thread.start while Acre is enabled: the new thread sets the handler too."""
    run = thread.run

    def run_enabled():
        thread.__dict__.pop("run", None)  # gone already where a start failed before
        if _state["is_enabled"]:
            _install(_state["capsule"])
        run()

    thread.run = run_enabled
    _thread_start(thread)


def _capsule(heap):
    """The handler of a heap as NumPy wants it."""
    table, pointer = _table()
    default = ctypes.cast(table[_DEFAULT_HANDLER], ctypes.POINTER(ctypes.py_object))[0]
    handler = make("acre_hostmem_numpy_handler", heap.handle,
                   ctypes.c_void_p(pointer(default, _CAPSULE)))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(handler.value, _CAPSULE, None)


def _error_class():
    return _module("_exceptions")._ArrayMemoryError


def _error_text(self):
    """NumPy's sentence, and who holds the memory."""
    said = type(self)._acre_text(self)
    return f"{said}\n{self._acre_report}" if getattr(self, "_acre_report", "") else said


def _error_made(self, *arguments):
    type(self)._acre_made(self, *arguments)
    self._acre_report = report() if is_enabled() else ""


def _errors_wrap():
    """Lets NumPy's MemoryError tell who holds the memory."""
    kind = _error_class()
    if not hasattr(kind, "_acre_text"):
        kind._acre_text, kind._acre_made = kind.__str__, kind.__init__
        kind.__str__, kind.__init__ = _error_text, _error_made


def _errors_unwrap():
    kind = _error_class()
    if hasattr(kind, "_acre_text"):
        kind.__str__, kind.__init__ = kind._acre_text, kind._acre_made
        del kind._acre_text, kind._acre_made


def enable(limit_bytes=None, **options):
    """Lets NumPy allocate from Acre from now on.

    limit_bytes caps what is held from the system: an array beyond it is a MemoryError that
    names who holds the memory. The options of Heap apply to the first call; the heap stays
    for the life of the process. Huge pages are asked for, as NumPy does by itself, unless
    huge_pages or NUMPY_MADVISE_HUGEPAGE says otherwise.
    """
    options.setdefault("huge_pages", os.environ.get("NUMPY_MADVISE_HUGEPAGE", "1") != "0")
    with _lock:
        if _state["heap"] is None:
            heap = Heap(limit=limit_bytes, **options)  # which ends where NumPy takes no handler
            _state["capsule"] = _capsule(heap)
            _state["heap"] = heap.keep()
        elif limit_bytes is not None:
            _state["heap"].limit = limit_bytes
        _install(_state["capsule"])
        if not _state["is_enabled"]:
            _state["is_enabled"] = True
            threading.Thread.start = _start
            _errors_wrap()


def disable():
    """Lets NumPy allocate as before, in the calling thread and in threads that start later.
    Arrays that live on Acre stay there."""
    with _lock:
        if _state["is_enabled"]:
            _state["is_enabled"] = False
            threading.Thread.start = _thread_start
            _errors_unwrap()
            _install(None)


def is_enabled():
    """Whether enable() is in force."""
    return _state["is_enabled"]


def heap():
    """The Heap behind the arrays; an Error before the first enable()."""
    if _state["heap"] is None:
        raise Error("acre.numpy is not enabled; call acre.numpy.enable() first",
                    "ACRE_ERR_STATE", 14)
    return _state["heap"]


def memory_stats():
    """Statistics of the arrays; see Heap.memory_stats()."""
    return heap().memory_stats()


def reset_peaks():
    """Sets every peak to the present level."""
    heap().reset_peaks()


def limit(size):
    """Caps what is held from the system; None lifts the cap."""
    heap().limit = size


def trim(keep=0):
    """Returns idle pages to the system; see Heap.trim()."""
    return heap().trim(keep)


def record_history(entries=2**64 - 1, stacks="alloc"):
    """Records allocations with Python's stacks; see Heap.record_history()."""
    heap().record_history(entries, stacks)


def stop_history():
    """Stops recording and forgets."""
    heap().stop_history()


def snapshot(path=None):
    """A Snapshot of all arrays; written to a file when a path is given. "acre view" and
    PyTorch's viewer open the file."""
    taken = heap().snapshot()
    if path is not None:
        taken.write(path)
    return taken


def top(count=10):
    """The lines of Python that hold most; see Heap.top(). Record a history first."""
    return heap().top(count)


def report(count=8):
    """Who holds the memory: a few lines of text."""
    return heap().report(count)
