# SPDX-License-Identifier: MIT
"""Sorting: a radix sort takes memory that grows with the number of keys."""
import torch

_BLOCK_KEYS = 2048


def sort_bytes(count):
    """The buffer of a radix sort of (8-byte key, 8-byte value) pairs.

    Up to 2,048 pairs one block of threads sorts alone. More go through a second set of
    keys and values, a histogram for each 4,096 of them, and counters.

        >>> sort_bytes(2048), sort_bytes(4096), sort_bytes(8192)
        (1, 72191, 138751)
    """
    if count <= _BLOCK_KEYS:
        return 1
    return 16 * count + 1024 * -(-count // 4096) + 5631


def _sort(call):
    """sort: values, indices; a long row is sorted with a radix sort."""
    results = call.run()
    tensor = call.args[0]
    dim = call.arg([argument.name for argument in call.op._schema.arguments].index("dim"), "dim")
    length = tensor.size(dim) if tensor.dim() else 1
    if length > 4096:
        call.temp(8 * tensor.numel())
        call.temp(sort_bytes(min(tensor.numel(), length)))
    return results


def _topk(call):
    """topk: rows that are long enough are searched by many blocks."""
    tensor = call.args[0]
    results = call.run()
    dim = call.arg(2, "dim", -1)
    length = tensor.size(dim) if tensor.dim() else 1
    rows = tensor.numel() // max(length, 1)
    if length >= 10000 and rows <= 2 * call.kernels.gpu.sms:
        blocks = -(-length // 4096)
        call.temp(4 * rows)
        call.temp(4 * rows)
        call.temp(4 * rows * blocks * 256)
        call.temp(4 * rows * blocks)
    return results


def _scan(call):
    """cumsum and its like: a scan along the whole takes counters of blocks."""
    results = call.run()
    tensor = call.args[0]
    if tensor.dim() == 1 and tensor.numel() > 1:
        call.temp(1 if tensor.numel() <= 1024 else 511 + 16 * (-(-tensor.numel() // 1920) + 32))
    return results


def _plain(call):
    return call.run()


RULES = {"aten::sort": _sort, "aten::topk": _topk, "aten::cumsum": _scan, "aten::cumprod": _scan,
         "aten::cumsum_": _scan, "aten::_cummax_helper": _plain, "aten::_cummin_helper": _plain,
         "aten::kthvalue": _plain, "aten::median": _plain,
         "aten::searchsorted": _plain, "aten::bucketize": _plain, "aten::multinomial": _plain}
