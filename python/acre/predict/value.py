# SPDX-License-Identifier: MIT
"""Values of small whole numbers and truths, kept beside tensors that hold no data.

Lengths, positions, masks and counters decide how a program goes on. A small tensor of the
device that came from the host, or from numbers alone, keeps its values in host memory; an
operator on tensors whose values are all known is computed there as well.
"""
import threading

import torch

from .guess import Presumptions
from .shape import with_tensors

SMALL, SMALL_FLOAT = 1 << 16, 1 << 10
# What these leave does not depend on what was there before.
_OVERWRITE = frozenset(("aten::fill_", "aten::zero_", "aten::copy_"))
_RANDOM = frozenset(("aten::normal_", "aten::uniform_", "aten::random_", "aten::bernoulli_",
                     "aten::exponential_", "aten::native_dropout", "aten::multinomial",
                     "aten::randperm", "aten::empty", "aten::empty_strided", "aten::resize_",
                     "aten::_local_scalar_dense"))


_ABSORBING = {"aten::bitwise_or": True, "aten::logical_or": True, "aten::bitwise_and": False,
              "aten::logical_and": False, "aten::mul": False, "aten::bitwise_or_": True,
              "aten::bitwise_and_": False, "aten::mul_": False, "aten::__or__": True,
              "aten::__and__": False}


class _Unknown(Exception):
    """A value is not known."""


def handle_of(tensor):
    """The handle of a tensor's storage. The storage itself must not be asked for: a Python
    object for it counts as one more user, and autograd then adds gradients out of place."""
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def is_small(tensor):
    """Whether values of a tensor are worth keeping."""
    limit = SMALL_FLOAT if tensor.dtype.is_floating_point or tensor.dtype.is_complex else SMALL
    return tensor.numel() <= limit


class Values:
    """Host memory with the values of storages of the device, by the storage's handle."""

    def __init__(self, ground):
        self._ground = ground
        self._known = {}
        self._busy = threading.local()
        ground.notes.append(self._known)
        self.presumed = Presumptions(self, handle_of, ground.notes)

    def read(self, tensor):
        """The values of a tensor on the host, or None."""
        if not tensor.is_cuda:
            return tensor
        if tensor.numel() == 0:
            return torch.empty(tensor.size(), dtype=tensor.dtype)
        held = self._known.get(handle_of(tensor))
        if held is None:
            return None
        view = torch.empty(0, dtype=tensor.dtype)
        return view.set_(held, tensor.storage_offset(), tensor.size(), tensor.stride())

    def write(self, tensor, values):
        """Keeps the values of a tensor, if it is all of its storage and small."""
        handle = handle_of(tensor)
        if tensor.storage_offset() == 0 and is_small(tensor) and tensor.numel() \
                and tensor.numel() * tensor.element_size() == self._ground.bytes_of(handle):
            held = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
            held.copy_(values)
            self._known[handle] = held.untyped_storage()

    def forget(self, tensor):
        """The values of a tensor are not known any more."""
        if tensor.is_cuda:
            self._known.pop(handle_of(tensor), None)
            self.presumed.forget(tensor)

    def copy(self, target, source):
        """A copy from source to target happened, one of them on the host or both not."""
        known = self.read(source) if is_small(source) and is_small(target) else None
        if known is None:
            presumed = self.presumed.get(source) if source.is_cuda else None
            if target.is_cuda:
                self.forget(target)
                if presumed is not None:
                    self.presumed.set(target, presumed)
            elif target.numel() < 1 << 20:
                target.fill_(presumed or 0)
            return
        held = self.read(target)
        if held is not None:
            held.copy_(known)
        else:
            self.write(target, known)

    def follow(self, op, args, kwargs, results, places):
        """An operator ran: its results become known when all it read is known."""
        name = op._schema.name
        if name == "aten::copy_" or getattr(self._busy, "is_", False):
            return
        written = [kwargs[key] if index >= len(args) else args[index]
                   for index, key in places or ()]
        if name in _RANDOM:
            self._forget_all(written)
            self.presumed.note(results, self.presumed.judge(name, args, results))
            return
        try:
            is_fresh = name in _OVERWRITE or (places and op._schema.arguments[-1].is_out)
            fresh = {id(tensor) for tensor in written} if is_fresh else set()
            host_args = [self._host(value, fresh) for value in args]
            host_kwargs = {key: self._host(value, fresh) for key, value in kwargs.items()}
        except _Unknown:
            answer = self.presumed.judge(name, args, results)
            known = self._absorb(name, args) if self._known else None
            self._forget_all(written)
            self.presumed.note(results, answer)
            if known is not None and isinstance(results, torch.Tensor) \
                    and results.size() == known.size():
                self.write(results, known)
            return
        self._compute(op, (host_args, host_kwargs), results, (written, is_fresh, places))

    def _compute(self, op, arguments, results, writing):
        written, is_fresh, places = writing
        self._busy.is_ = True
        try:
            found = op(*with_tensors(op, arguments[0]), **arguments[1])
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            self._forget_all(written)
            return
        finally:
            self._busy.is_ = False
        if places is not None and not is_fresh:
            return
        found = [found] if isinstance(found, torch.Tensor) else found
        results = [results] if isinstance(results, torch.Tensor) else results
        for result, values in zip(results or (), found or ()):
            if isinstance(result, torch.Tensor) and isinstance(values, torch.Tensor) \
                    and result.is_cuda and result.size() == values.size():
                self.write(result, values)

    def _absorb(self, name, args):
        """The result of "or" with what is true, or of "and" and "*" with what is 0, whatever
        the other operand is; None when that does not hold."""
        wanted = _ABSORBING.get(name)
        for value in args[:2] if wanted is not None else ():
            known = self.read(value) if isinstance(value, torch.Tensor) and value.is_cuda \
                and is_small(value) else None
            if known is not None and bool((known.bool() == wanted).all()) \
                    and (not wanted or known.dtype == torch.bool):
                return known.clone()
        return None

    def _forget_all(self, tensors):
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor):
                self.forget(tensor)
            elif isinstance(tensor, (list, tuple)):
                self._forget_all(tensor)

    def _host(self, value, fresh):
        if isinstance(value, torch.Tensor):
            if not is_small(value):
                raise _Unknown
            if not value.is_cuda:
                return value
            if id(value) in fresh:
                return torch.empty(value.size(), dtype=value.dtype)
            known = self.read(value)
            if known is None:
                raise _Unknown
            return known
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            return [self._host(item, fresh) for item in value]
        return torch.device("cpu") if isinstance(value, torch.device) else value
