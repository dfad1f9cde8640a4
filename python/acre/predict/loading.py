# SPDX-License-Identifier: MIT
"""Weights in files: their shapes are read, their bytes are not."""
import functools

import torch


def install():
    """torch.load maps files instead of reading them, and moves nothing that has no data."""
    load = torch.load
    torch.load = functools.partial(_load, load)
    functools.update_wrapper(torch.load, load)
    torch.serialization.load = torch.load


def _load(load, f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None,
          **rest):
    """torch.load with the data left in the file where its format allows that."""
    is_path = isinstance(f, (str, bytes)) or hasattr(f, "__fspath__")
    extra = dict(rest)
    if pickle_module is not None:
        extra["pickle_module"] = pickle_module
    if is_path and torch.serialization._is_zipfile(open_close(f)):
        mmap = True
    target = _target(map_location)
    found = load(f, map_location="cpu" if target is not None else map_location,
                 weights_only=weights_only, mmap=mmap, **extra)
    return _move(found, target) if target is not None else found


class _Peek:
    """The first bytes of a file, as a file."""

    def __init__(self, data):
        self.data, self.place = data, 0

    def tell(self):
        return self.place

    def seek(self, place, whence=0):
        self.place = place

    def read(self, count):
        piece = self.data[self.place:self.place + count]
        self.place += len(piece)
        return piece


def open_close(path):
    """The beginning of a file."""
    with open(path, "rb") as file:
        return _Peek(file.read(64))


def _target(map_location):
    """The device that everything goes to, or None."""
    if isinstance(map_location, (str, torch.device)):
        device = torch.device(map_location)
        return device if device.type == "cuda" else None
    if isinstance(map_location, int):
        return torch.device("cuda", map_location)
    return None


def _move(value, device, known=None):
    """Everything in nested containers on a device; tensors that share memory go once each."""
    known = {} if known is None else known
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            moved = value.detach().to(device)
            if isinstance(value, torch.nn.Parameter):
                moved = torch.nn.Parameter(moved, value.requires_grad)
            known[id(value)] = moved
        return known[id(value)]
    if isinstance(value, dict):
        for key in list(value):
            value[key] = _move(value[key], device, known)
        return value
    if isinstance(value, list):
        value[:] = [_move(item, device, known) for item in value]
        return value
    if type(value) is tuple:
        return tuple(_move(item, device, known) for item in value)
    if isinstance(value, torch.nn.Module):
        return value.to(device)
    return value


