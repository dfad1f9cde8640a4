# SPDX-License-Identifier: MIT
"""Reductions: results first, then the buffer and the semaphores of a split."""
import torch

from .split import buffers

# Bytes of a partial result where it is not that of the result's own arithmetic.
_PAIRS = {"aten::max": 16, "aten::min": 16, "aten::argmax": 16, "aten::argmin": 16,
          "aten::aminmax": 8, "aten::var": 16, "aten::std": 16, "aten::var_mean": 16,
          "aten::std_mean": 16, "aten::_aminmax": 8, "aten::var_mean_out": 16}
_SMALL = (torch.float16, torch.bfloat16)


def reduced_dims(call):
    """The dimensions that a reduction goes over."""
    rank = call.args[0].dim()
    for argument in call.op._schema.arguments:
        if argument.name in ("dim", "dims"):
            given = call.arg(call.op._schema.arguments.index(argument), argument.name)
            if given is None or given == []:
                break
            given = [given] if isinstance(given, int) else given
            return tuple(sorted({index % rank if rank else 0 for index in given}))
    return tuple(range(rank))


def accumulator_bytes(call, tensor):
    """Bytes of one partial result."""
    name = call.op._schema.name
    dtype = call.kwargs.get("dtype") or tensor.dtype
    is_pair = name in _PAIRS and not (name in ("aten::max", "aten::min")
                                      and len(call.op._schema.returns) == 1)
    if is_pair:
        return _PAIRS[name] + (16 if dtype in (torch.float64,) and "var" in name else 0)
    if name in ("aten::any", "aten::all"):
        return 1
    if dtype in (torch.bool, torch.int32, torch.int16, torch.int8, torch.uint8) \
            and name in ("aten::sum", "aten::prod", "aten::nansum"):
        return 8
    return 4 if dtype in _SMALL else dtype.itemsize


def split(call, tensor, dims, accumulator):
    """The buffer and the semaphores of a split, kept until the operator ends."""
    for size in buffers(tuple(tensor.size()), tuple(tensor.stride()), dims, accumulator,
                        call.kernels.gpu):
        call.temp(size)


def reduce(call):
    """One reduction."""
    results = call.run()
    tensor = call.args[0]
    if tensor.dim():
        split(call, tensor, reduced_dims(call), accumulator_bytes(call, tensor))
    return results


def _norm(call):
    """A norm: of low precision it is computed in float32 without a copy."""
    return reduce(call)


def _nothing(call):
    return call.run()


RULES = dict.fromkeys((
    "aten::sum", "aten::mean", "aten::prod", "aten::nansum", "aten::amax", "aten::amin",
    "aten::max", "aten::min", "aten::argmax", "aten::argmin", "aten::any", "aten::all",
    "aten::var", "aten::std", "aten::var_mean", "aten::std_mean", "aten::aminmax"), reduce)
RULES.update(dict.fromkeys(("aten::linalg_vector_norm", "aten::norm"), _norm))
# One block of threads a row, no memory beside the results.
RULES.update(dict.fromkeys((
    "aten::_softmax", "aten::_log_softmax", "aten::_softmax_backward_data",
    "aten::_log_softmax_backward_data", "aten::logsumexp", "aten::count_nonzero"), _nothing))
