# SPDX-License-Identifier: MIT
"""What an operator returns, without computing it: PyTorch's meta kernels, remembered.

infer(op, args, kwargs) calls the operator on tensors of device "meta" that have the sizes
and strides of the real ones, and returns a description of the results: for a tensor
(size, stride, dtype), for anything else the value.
"""
import functools

import torch

_META = torch.device("meta")
_HALF = torch.empty((), dtype=torch.float16)
_STAND_IN_LIMIT = 1 << 22


class Described(tuple):
    """A tensor as (size, stride, dtype)."""


class Shapes:
    """Remembers results by operator and arguments."""

    def __init__(self):
        self._known = {}
        self.stand_ins = set()  # operators whose results were learnt from zeros on the CPU

    def infer(self, op, args, kwargs):
        """Descriptions of the results of op, in the structure it returns."""
        key = _key((op, args, kwargs))
        try:
            found = self._known.get(key)
        except TypeError:
            key = found = None
        if found is None:
            found = _describe(self._run(op, args, kwargs))
            if key is not None:
                self._known[key] = found
        return found

    def check(self, op, args, kwargs):
        """Raises what an operator would say of its operands, where that is known without data."""
        try:
            if has_meta(op):
                self.infer(op, args, kwargs)
        except NotImplementedError:
            pass

    def _run(self, op, args, kwargs):
        try:
            return op(*_map(args, _to_meta), **_map(kwargs, _to_meta))
        except NotImplementedError:
            pass
        except RuntimeError:
            args, before = with_tensors(op, args), args
            if args is before:
                raise
            return op(*_map(args, _to_meta), **_map(kwargs, _to_meta))
        if sum(tensor.numel() for tensor in tensors_in((args, kwargs))) > _STAND_IN_LIMIT:
            raise NotImplementedError(
                f"{op}: this operator has no rule for shapes without data, and its tensors are "
                "too large to learn them from zeros")
        self.stand_ins.add(op.name())
        return op(*_map(args, _to_zeros), **_map(kwargs, _to_zeros))


def tensors_in(value):
    """All tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def is_scalar(tensor):
    """Whether a tensor is a number that came from the host."""
    return tensor.dim() == 0 and tensor.device.type == "cpu"


@functools.cache
def has_meta(op):
    """Whether an operator runs on tensors without data."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "Meta")


@functools.cache
def places_of_tensors(op):
    """Which arguments of an operator are tensors."""
    return frozenset(index for index, argument in enumerate(op._schema.arguments)
                     if str(argument.type) == "Tensor")


def with_tensors(op, args):
    """Arguments with numbers as tensors where the operator takes tensors: few operators take
    numbers in their place."""
    places = places_of_tensors(op)
    if not any(index in places and isinstance(value, (int, float, complex))
               for index, value in enumerate(args)):
        return args
    return type(args)([tensor_of(value, args) if index in places
                       and isinstance(value, (int, float, complex)) else value
                       for index, value in enumerate(args)])


def tensor_of(number, args):
    """A number as a tensor that leaves the type of the result as the number would."""
    other = next((value.dtype for value in args if isinstance(value, torch.Tensor)), None)
    if isinstance(number, complex):
        kind = other if other is not None and other.is_complex else torch.complex64
    elif isinstance(number, float):
        has_room = other is not None and (other.is_floating_point or other.is_complex)
        kind = other if has_room else torch.get_default_dtype()
    elif isinstance(number, bool):
        kind = other or torch.bool
    else:
        kind = other if other not in (None, torch.bool) else torch.int64
    return torch.scalar_tensor(number, dtype=kind)


def _key(value):
    if isinstance(value, torch.Tensor):
        if is_scalar(value):
            return (value.dtype, torch.result_type(value, _HALF))
        return (value.dtype, tuple(value.size()), tuple(value.stride()), value.is_conj())
    if isinstance(value, (list, tuple)):
        return tuple([_key(item) for item in value])
    if isinstance(value, dict):
        return tuple([(name, _key(item)) for name, item in value.items()])
    return (type(value), value)


def _map(value, function):
    if isinstance(value, (list, tuple)):
        return type(value)([_map(item, function) for item in value]) \
            if not isinstance(value, torch.Size) else value
    if isinstance(value, dict):
        return {name: _map(item, function) for name, item in value.items()}
    return function(value)


def _to_meta(value):
    if isinstance(value, torch.Tensor):
        if is_scalar(value):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META)
    if isinstance(value, torch.device):
        return _META
    return None if isinstance(value, torch.Generator) else value


def _to_zeros(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros(value.size(), dtype=value.dtype)
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value


def _describe(value):
    if isinstance(value, torch.Tensor):
        return Described((tuple(value.size()), tuple(value.stride()), value.dtype))
    if isinstance(value, (list, tuple)):
        return tuple([_describe(item) for item in value])
    return value
