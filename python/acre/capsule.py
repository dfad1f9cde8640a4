# SPDX-License-Identifier: MIT
"""Capsules: how Python hands DLPack's structs from one package to another."""
import ctypes
from functools import partial

from .library import lib

PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
_KINDS = (PLAIN, VERSIONED)
# Capsules end while exceptions are on their way, when no code in Python may run.
_destructor = ctypes.cast(lib.acre_dlpack_capsule_destroy, ctypes.c_void_p)
_api = ctypes.pythonapi

_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_SetPointer.argtypes = (ctypes.py_object, ctypes.c_void_p)
_api.PyCapsule_SetDestructor.argtypes = (ctypes.py_object, ctypes.c_void_p)
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)


def empty(name, tensor):
    """A capsule that owns nothing yet, and an iterator that, run to its end, gives it the tensor
    that a handle has by then: in one step, which no signal interrupts."""
    capsule = _api.PyCapsule_New(_destructor, name, None)  # wants an address, of whatever it is
    return capsule, map(partial.__call__, (
        partial(_api.PyCapsule_SetPointer, capsule, tensor),
        partial(_api.PyCapsule_SetDestructor, capsule, _destructor)))


def kind_of(capsule):
    """PLAIN, VERSIONED, or None for a capsule that is neither or was taken already."""
    return next((name for name in _KINDS if _api.PyCapsule_IsValid(capsule, name)), None)


def address_of(capsule, name):
    """The address of the tensor in it."""
    return _api.PyCapsule_GetPointer(capsule, name)


rename = _api.PyCapsule_SetName  # to USED[name] for one that was taken: it owns nothing any more
# A capsule does not copy its name, and may outlive this module: the names live for ever.
USED = {name: b"used_" + name for name in _KINDS}
for _name in (*_KINDS, *USED.values()):
    _api.Py_IncRef(ctypes.py_object(_name))
