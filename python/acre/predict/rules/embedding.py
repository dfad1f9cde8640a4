# SPDX-License-Identifier: MIT
"""The backward pass of an embedding: few indices are added directly, many are sorted and
summed in segments."""
import torch

from .sorting import sort_bytes

_DIRECT = 3072
_ROWS = 10


def dense_backward(call):
    """aten::embedding_dense_backward."""
    gradient, indices = call.args[0], call.args[1]
    weights = call.args[2]
    count, width = indices.numel(), gradient.size(-1)
    if not gradient.is_contiguous() and count:
        call.temp(gradient.numel() * gradient.element_size())
    if count <= _DIRECT and not call.arg(4, "scale_grad_by_freq", False):
        return call.make((weights, width), gradient.dtype)
    for _ in range(3):
        call.temp(8 * count)
    sort = call.kernels.ground.alloc(sort_bytes(count), call.device)
    call.kernels.ground.free(sort, call.device)
    result = call.make((weights, width), gradient.dtype)
    call.temp(8 * count)
    call.temp(8)
    segments = min(count, weights)
    call.temp(8 * segments)
    call.temp(8 * segments)
    parts = -(-count // _ROWS) + segments
    call.temp(8 * parts)
    call.temp(4 * parts * width)
    return result


def renorm(call):
    """aten::embedding_renorm_: sorts the indices and keeps each once."""
    count = call.args[1].numel()
    call.temp(8 * count)
    call.temp(8 * count)
    return call.args[0]


def bag(call):
    return call.run()


RULES = {"aten::embedding_dense_backward": dense_backward, "aten::embedding_renorm_": renorm,
         "aten::_embedding_bag": bag, "aten::_embedding_bag_forward_only": bag,
         "aten::_embedding_bag_dense_backward": bag}
