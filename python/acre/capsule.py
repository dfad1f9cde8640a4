# SPDX-License-Identifier: MIT
"""Capsules: how Python hands DLPack's structs from one package to another."""
import ctypes

from . import tool_structs as structs

PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
_KINDS = {PLAIN: structs.dl_managed, VERSIONED: structs.dl_versioned}
_api = ctypes.pythonapi

_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)

# For destructors, which see a capsule that nobody owns any more: by address.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api))
_deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


# Names are bound as defaults: what is left at the end of the interpreter has no module.
def _destroy(capsule, is_valid=_is_valid, pointer_of=_pointer_of, kinds=tuple(_KINDS.items()),
             deleter=_deleter):
    """Ends a tensor that nobody took out of its capsule."""
    for name, kind in kinds:
        if is_valid(capsule, name):
            address = pointer_of(capsule, name)
            function = kind.from_address(address).deleter
            if function:
                deleter(function)(address)


def forever(function):
    """Keeps a callback beyond the end of its module: C may call it until the process ends."""
    _api.Py_IncRef(ctypes.py_object(function))
    return function


_destructor = forever(ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy))


def new(address, name):
    """A capsule around a tensor that it owns until somebody takes it."""
    return _api.PyCapsule_New(address, name, ctypes.cast(_destructor, ctypes.c_void_p))


def kind_of(capsule):
    """PLAIN, VERSIONED, or None for a capsule that is neither or was taken already."""
    return next((name for name in _KINDS if _api.PyCapsule_IsValid(capsule, name)), None)


def address_of(capsule, name):
    """The address of the tensor in it."""
    return _api.PyCapsule_GetPointer(capsule, name)


# A capsule does not copy its name, so these live as long as the module.
_USED = {name: b"used_" + name for name in _KINDS}


def mark_used(capsule, name):
    """Tells that the tensor was taken: the capsule owns nothing any more."""
    _api.PyCapsule_SetName(capsule, _USED[name])
