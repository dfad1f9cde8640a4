# SPDX-License-Identifier: MIT
"""Kernels of the device "cuda" that compute nothing and allocate what CUDA's would.

Every operator that reaches the device comes to Kernels.run(). Results are allocated in
the order in which the operator returns them; a rule (rules/) stands in where the CUDA
kernel allocates more, in another order, or inside. Views are those of PyTorch's CPU
kernels, which only look at sizes and strides.
"""
import functools
import warnings

import torch

from . import rules
from .rules import attention, operands, recurrent
from .shape import Described, Shapes
from .value import Values

VIEWS = ("as_strided", "view", "_reshape_alias", "unfold", "set_.source_Storage_storage_offset",
         "set_.source_Tensor", "set_.source_Storage", "view_as_real", "view_as_complex")
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
# Composite kernels that CUDA replaces by its own, beside all "_foreach_" ones.
OWN = ("copy_", "addr", "addr.out", "native_layer_norm", "native_group_norm", "_chunk_cat",
       "convolution_backward", "linalg__powsum", "norm.Scalar", "norm.ScalarOpt_dtype",
       "kthvalue", "median.dim", "nanmedian.dim", "mode.values", "isinf")
_COMPOSED = ("_foreach_copy", "_foreach_mm")


class Call:
    """One call of an operator on the device."""

    __slots__ = ("kernels", "op", "args", "kwargs", "device", "_blocks")

    def __init__(self, kernels, op, args, kwargs, device):
        self.kernels, self.op, self.args, self.kwargs = kernels, op, args, kwargs
        self.device = device
        self._blocks = []

    def arg(self, index, name=None, default=None):
        """An argument by position, or by name, or as the schema has it."""
        if index < len(self.args):
            return self.args[index]
        if name is None:
            name = self.op._schema.arguments[index].name
        if name in self.kwargs:
            return self.kwargs[name]
        for argument in self.op._schema.arguments:
            if argument.name == name:
                return argument.default_value if argument.has_default_value() else default
        return default

    def shapes(self):
        """Descriptions of the results."""
        return self.kernels.shapes.infer(self.op, self.args, self.kwargs)

    def run(self):
        """Allocates the results as they are returned."""
        return self.kernels.results(self)

    def make(self, size, dtype, stride=None):
        """A tensor of the device."""
        return self.kernels.ground.make(size, stride or compact(size), dtype, self.device)

    def temp(self, size):
        """A block that is freed when the operator ends."""
        if size > 0:
            self._blocks.append(self.kernels.ground.alloc(size, self.device))

    def keep(self, size):
        """A block that is never freed."""
        return self.kernels.ground.alloc(size, self.device)

    def end(self):
        """Frees the temporary blocks, newest first."""
        while self._blocks:
            self.kernels.ground.free(self._blocks.pop(), self.device)


def compact(size):
    """Strides of a tensor whose last dimension is the fastest."""
    strides, step = [], 1
    for length in reversed(size):
        strides.append(step)
        step *= max(length, 1)
    return strides[::-1]


def write_index(op):
    """For operators that return what they wrote to: the arguments, in order; else None."""
    schema = op._schema
    if not schema.returns:
        return ()
    places = []
    for result in schema.returns:
        alias = result.alias_info
        if alias is None or not alias.is_write:
            return None
        for index, argument in enumerate(schema.arguments):
            if argument.alias_info and argument.alias_info.is_write \
                    and argument.alias_info.before_set == alias.before_set:
                places.append((index, argument.name))
    return tuple(places)


class Kernels:
    """Registers the kernels and runs them."""

    def __init__(self, ground, gpu, settings):
        self.ground, self.gpu, self.settings = ground, gpu, settings
        self.shapes = Shapes()
        self.unruled = {}
        self.notes = {}
        self.counts = {}
        self.has_range = False  # whether there were convolutions by cuDNN
        self._writes = {}
        self._libraries = []
        self.rules = rules.find_all()
        self.workspaces = {}
        self.values = Values(ground)

    def register(self):
        """Puts the kernels in place; they stay until the process ends."""
        aten = torch.library.Library("aten", "IMPL")
        rest = torch.library.Library("_", "IMPL")
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        for name in torch._C._dispatch_get_all_op_names():
            if not name.startswith("aten::"):
                continue
            short = name[6:]
            is_foreach = short.startswith("_foreach_") and short not in _COMPOSED
            if not (is_foreach or short in OWN or has(name, "CPU")) or short in VIEWS:
                continue
            op = overload(short)
            if op is not None and not has(name, "CompositeImplicitAutograd"):
                aten.impl(short, self._kernel(op), "CUDA")
        for short in VIEWS:
            aten.impl(short, _view_kernel(overload(short)), "CUDA")
        rest.fallback(lambda op, *args, **kwargs: self.run(op, args, kwargs), "CUDA")
        for key in ("SparseCUDA", "SparseCsrCUDA", "QuantizedCUDA"):
            rest.fallback(_refuse, key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced
            aten.impl("scaled_dot_product_attention", functools.partial(attention.compose, self),
                      "CompositeImplicitAutograd", allow_override=True)
            aten.impl("isfinite", self._isfinite, "CompositeImplicitAutograd",
                      allow_override=True)
            for name in recurrent.MODES:
                for form in ("input", "data"):
                    real = torch.library.get_kernel(f"aten::{name}.{form}", "CPU")
                    aten.impl(f"{name}.{form}", functools.partial(recurrent.compose, name, real),
                              "CompositeImplicitAutograd", allow_override=True)
        self._libraries = [aten, rest]

    def _isfinite(self, tensor):
        """isfinite, as it is composed."""
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return torch.ones_like(tensor, dtype=torch.bool)
        result = (tensor == tensor) * (tensor.abs() != float("inf"))
        self.values.presumed.set(result, True)
        return result

    def _kernel(self, op):
        return lambda *args, **kwargs: self.run(op, args, kwargs)

    def run(self, op, args, kwargs):
        """Runs an operator: by its rule, or by the shapes of its results."""
        name = op._schema.name
        device = self.device_of(op, args, kwargs)
        operands.check_types(op, args)
        stacks = self.ground.stacks
        before = stacks.enter(name)
        call = Call(self, op, args, kwargs, device)
        self.counts[name] = self.counts.get(name, 0) + 1
        try:
            rule = self.rules.get(name)
            if rule is None:
                rules.judge(self, op)
                results = self.results(call)
            else:
                results = rule(call)
            self.values.follow(op, args, kwargs, results, self.places(op))
            return results
        finally:
            call.end()
            stacks.leave(before)

    def device_of(self, op, args, kwargs):
        """The index of the device that a call works on."""
        index = operands.device_of(op, args, kwargs)
        if index is not None:
            return index
        device = kwargs.get("device")
        if device is not None and device.index is not None:
            self.ground.check_device(device.index)
            return device.index
        return self.ground.device()

    def places(self, op):
        """Which arguments an operator writes to and returns; None when it makes new ones."""
        found = self._writes.get(op, self)
        if found is self:
            found = self._writes[op] = write_index(op)
        return found

    def results(self, call):
        """What a call returns: what it wrote to, or new tensors of the inferred shapes."""
        op = call.op
        places = self.places(op)
        if places is None:
            return self.build(call.shapes(), call)
        found = [call.kwargs[name] if index >= len(call.args) else call.args[index]
                 for index, name in places]
        if places and op._schema.name not in rules.SAME_SIZE:
            self._fit(call, found)
        return found[0] if len(found) == 1 else tuple(found) if found else None

    def _fit(self, call, outs):
        """Gives outputs that were passed in (out=) the size that they get. What is changed in
        place keeps its size and type, which the result must have."""
        if not call.op._schema.arguments[-1].is_out:
            if torch.Tag.pointwise in call.op.tags and "_foreach_" not in call.op._schema.name:
                self.shapes.check(call.op, call.args, call.kwargs)
            return
        shapes = call.shapes()
        shapes = [shapes] if isinstance(shapes, Described) else shapes
        for out, shape in zip(outs, shapes):
            if isinstance(shape, Described) and isinstance(out, torch.Tensor) \
                    and tuple(out.size()) != shape[0] and out.is_cuda:
                self.resize(out, shape[0], shape[1])

    def resize(self, tensor, size, stride=None):
        """Gives a tensor another size, and more memory when it has too little."""
        stride = stride or compact(size)
        needed = (1 + sum((length - 1) * step for length, step in zip(size, stride))
                  if all(size) else 0) * tensor.element_size()
        storage = tensor.untyped_storage()
        offset = tensor.storage_offset() * tensor.element_size()
        if needed + offset > storage.nbytes():
            fresh = self.ground.make((needed + offset,), (1,), torch.uint8,
                                     tensor.device.index)
            storage = fresh.untyped_storage()
        torch.ops.aten.set_.source_Storage_storage_offset.redispatch(
            _CPU, tensor, storage, tensor.storage_offset(), size, stride)
        return tensor

    def build(self, described, call):
        """Tensors for descriptions."""
        if isinstance(described, Described):
            return self.ground.make(described[0], described[1], described[2], call.device)
        if isinstance(described, tuple):
            items = [self.build(item, call) for item in described]
            return items if call.op._schema.returns and len(call.op._schema.returns) == 1 \
                else tuple(items)
        return described


def overload(short):
    """The operator behind "add.Tensor"; None when PyTorch hides it."""
    base, _, rest = short.partition(".")
    try:
        return getattr(getattr(torch.ops.aten, base), rest or "default")
    except AttributeError:
        return None


def _refuse(op, *args, **kwargs):
    """Tensors whose size depends on data, or whose parts are not plain."""
    raise NotImplementedError(
        f"acre predict: {op._schema.name}: sparse and quantized tensors on a GPU are not "
        "supported; use dense ones, such as Embedding(sparse=False)")


def _view_kernel(op):
    return lambda *args, **kwargs: op.redispatch(_CPU, *args, **kwargs)
