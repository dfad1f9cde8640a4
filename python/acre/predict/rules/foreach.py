# SPDX-License-Identifier: MIT
"""Operators over lists of tensors, as optimizers use them.

On a GPU they run in few launches, with the addresses passed beside the launch. Results, if
any, are allocated one after the other.
"""
import torch

from ..shape import tensors_in

_CHUNK = 65536


def _list(call):
    """Results in the shape of the first list, or nothing for those that work in place."""
    op = call.op
    if not op._schema.returns:
        return None
    tensors = call.args[0] if isinstance(call.args[0], (list, tuple)) else call.args[1]
    other = call.args[1] if len(call.args) > 1 else None
    results = []
    for index, tensor in enumerate(tensors):
        dtype = tensor.dtype
        if isinstance(other, (list, tuple)) and other and isinstance(other[0], torch.Tensor):
            dtype = torch.promote_types(dtype, other[index].dtype)
        elif isinstance(other, float) or (isinstance(other, (list, tuple)) and other
                                          and isinstance(other[0], float)):
            dtype = dtype if dtype.is_floating_point else torch.float32
        size = tuple(tensor.size())
        results.append(call.make(size, dtype, _dense_strides(tensor)))
    return results


def _dense_strides(tensor):
    """Strides of a result: those of the tensor where it has no gaps."""
    from .copying import _fills
    return tuple(tensor.stride()) if _fills(tensor) else None


def _norm(call):
    """A norm each: partial results of all chunks, then one result, of which views are given."""
    tensors = call.args[0]
    if not tensors:
        return []
    dtype = call.arg(2, "dtype") or tensors[0].dtype
    partial = 4 if dtype.itemsize <= 4 else 8
    chunks = max(-(-tensor.numel() // _CHUNK) for tensor in tensors)
    call.temp(partial * len(tensors) * chunks)
    return [call.make((), dtype) for _ in tensors]


def _quiet(call):
    return None if not call.op._schema.returns else call.run()


def _unscale(call):
    return None


def _scale_update(call):
    return call.args[0]


class _Foreach(dict):
    """A rule for each operator of the family, whatever its name."""

    def __init__(self):
        super().__init__()
        names = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()
                 if name.startswith("aten::_foreach_")}
        for name in names:
            self[name] = _list
        for name in ("norm", "max", "powsum"):
            self["aten::_foreach_" + name] = _norm


RULES = _Foreach()
RULES.update(dict.fromkeys(("aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_sgd_",
                            "aten::_fused_adagrad_"), _quiet))
RULES["aten::_amp_foreach_non_finite_check_and_unscale_"] = _unscale
RULES["aten::_amp_update_scale_"] = _scale_update
