# SPDX-License-Identifier: MIT
"""Capsules: how Python hands DLPack's structs from one package to another."""
import ctypes

from .library import lib

PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
_KINDS = (PLAIN, VERSIONED)
# Capsules end while exceptions are on their way, when no code in Python may run.
_destructor = ctypes.cast(lib.acre_dlpack_capsule_destroy, ctypes.c_void_p)
_api = ctypes.pythonapi

_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)


def new(address, name):
    """A capsule around a tensor that it owns until somebody takes it."""
    return _api.PyCapsule_New(address, name, _destructor)


def kind_of(capsule):
    """PLAIN, VERSIONED, or None for a capsule that is neither or was taken already."""
    return next((name for name in _KINDS if _api.PyCapsule_IsValid(capsule, name)), None)


def address_of(capsule, name):
    """The address of the tensor in it."""
    return _api.PyCapsule_GetPointer(capsule, name)


# A capsule does not copy its name, and may outlive this module: the names live for ever.
_USED = {name: b"used_" + name for name in _KINDS}
for _name in (*_KINDS, *_USED.values()):
    _api.Py_IncRef(ctypes.py_object(_name))


def mark_used(capsule, name):
    """Tells that the tensor was taken: the capsule owns nothing any more."""
    _api.PyCapsule_SetName(capsule, _USED[name])
