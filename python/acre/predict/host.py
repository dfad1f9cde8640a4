# SPDX-License-Identifier: MIT
"""Host tensors: small ones are real, large ones of floating point hold nothing.

A kernel of the CPU that meets a large tensor of floating point computes nothing: its
results are new memory that nobody has touched, which costs no pages. So a model of any
size can be built on the host, while masks, positions and counters keep their values.
"""
import warnings

import torch

from .kernel import overload, write_index
from .shape import Described, Shapes, places_of_tensors, tensor_of

LARGE = 1 << 17
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_REAL = ("aten::empty", "aten::empty_strided", "aten::_local_scalar_dense", "aten::set_",
         "aten::resize_", "aten::is_pinned", "aten::_pin_memory", "aten::record_stream",
         "aten::is_set_to", "aten::_nested_tensor_size", "aten::_nested_tensor_strides",
         "aten::_efficientzerotensor")


def is_large(tensor):
    """Whether a tensor of the host holds nothing."""
    return tensor.numel() >= LARGE and (tensor.is_floating_point() or tensor.is_complex()) \
        and tensor.device.type == "cpu"


class Host:
    """Replaces kernels of the CPU by ones that look at sizes first."""

    def __init__(self):
        self.shapes = Shapes()
        self._library = None

    def register(self):
        """Puts the kernels in place; they stay until the process ends."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are replaced
            self._replace()

    def _replace(self):
        self._library = library = torch.library.Library("aten", "IMPL")
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        for name in torch._C._dispatch_get_all_op_names():
            if not name.startswith("aten::") or not has(name, "CPU"):
                continue
            op = overload(name[6:])
            if op is None or op._schema.name in _REAL or _is_view(op) or not _takes_tensors(op):
                continue
            library.impl(name[6:], self._kernel(op, torch.library.get_kernel(name, "CPU")), "CPU",
                         allow_override=True)
        real = torch.library.get_kernel("aten::copy_", "CPU")
        library.impl("copy_", self._kernel(overload("copy_"), real), "CPU")

    def _kernel(self, op, real):
        places = write_index(op)
        call = real.call_boxed
        tensor_places = places_of_tensors(op)

        def run(*args, **kwargs):
            for index, value in enumerate(args):
                if index in tensor_places and isinstance(value, (int, float, complex)):
                    args = args[:index] + (tensor_of(value, args),) + args[index + 1:]
                    continue
                if isinstance(value, torch.Tensor):
                    if is_large(value):
                        return self._empty(op, places, args, kwargs)
                elif isinstance(value, (list, tuple)) and value \
                        and isinstance(value[0], torch.Tensor) \
                        and any(is_large(item) for item in value
                                if isinstance(item, torch.Tensor)):
                    return self._empty(op, places, args, kwargs)
            return call(_CPU, *args, **kwargs)
        return run

    def _empty(self, op, places, args, kwargs):
        """What an operator returns when its tensors hold nothing."""
        if places is not None:
            found = [kwargs[name] if index >= len(args) else args[index]
                     for index, name in places]
            if op._schema.arguments[-1].is_out:
                shape = self.shapes.infer(op, args, kwargs)
                shapes = [shape] if isinstance(shape, Described) else shape
                for out, one in zip(found, shapes):
                    if isinstance(one, Described) and tuple(out.size()) != one[0]:
                        out.resize_(one[0])
            return found[0] if len(found) == 1 else tuple(found) if found else None
        is_one = len(op._schema.returns) == 1
        return _build(self.shapes.infer(op, args, kwargs), is_one)


def _is_view(op):
    return any(result.alias_info is not None and not result.alias_info.is_write
               for result in op._schema.returns)


def _takes_tensors(op):
    return any("Tensor" in str(argument.type) for argument in op._schema.arguments)


def _build(described, is_one):
    if isinstance(described, Described):
        size, stride, dtype = described
        count = 1
        for length in size:
            count *= length
        tensor = torch.empty_strided(size, stride, dtype=dtype)
        if count < LARGE or not (dtype.is_floating_point or dtype.is_complex):
            tensor.zero_()
        return tensor
    if isinstance(described, tuple):
        items = [_build(item, False) for item in described]
        return items if is_one else tuple(items)
    return described
