# SPDX-License-Identifier: MIT
"""Indexing by tensors: masks become indices first; adding at indices sorts them."""
import torch

from ..shape import Described
from .sorting import sort_bytes


def expand_masks(call, position):
    """Arguments of the call with boolean indices replaced by positions."""
    indices = list(call.args[position])
    if not any(index is not None and index.dtype in (torch.bool, torch.uint8)
               for index in indices):
        return call.args
    found = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            places = torch.nonzero(index) if index.is_cuda else torch.zeros(
                (call.kernels.settings.count(index, "index"), index.dim()), dtype=torch.int64)
            found.extend(places.select(1, dim) for dim in range(index.dim()))
        else:
            found.append(index)
    return call.args[:position] + (found,) + call.args[position + 1:]


def index(call):
    """aten::index: integers of 32 bits are converted, then one result."""
    call.args = expand_masks(call, 1)
    for tensor in call.args[1]:
        if tensor is not None and tensor.is_cuda and tensor.dtype == torch.int32:
            call.temp(8 * tensor.numel())
    return call.run()


def index_put(call):
    """aten::_index_put_impl_: with accumulate, positions are computed and sorted."""
    call.args = expand_masks(call, 1)
    target, indices = call.args[0], [i for i in call.args[1] if i is not None]
    if not call.arg(3, "accumulate", False) or not indices:
        return target
    count = 1
    for length in torch.broadcast_shapes(*[i.size() for i in indices]):
        count *= length
    # Linear positions, sorted positions, their order, and two inside the computation.
    for _ in range(5):
        call.temp(8 * count)
    if count:
        call.temp(sort_bytes(count))
    return target


def _one(call):
    return call.run()


RULES = {"aten::index": index, "aten::_index_put_impl_": index_put}
# No memory beside the results, unless deterministic algorithms are asked for.
RULES.update(dict.fromkeys((
    "aten::gather", "aten::scatter", "aten::scatter_", "aten::scatter_add", "aten::scatter_add_",
    "aten::scatter_reduce", "aten::scatter_reduce_", "aten::index_select", "aten::index_add",
    "aten::index_add_", "aten::index_copy", "aten::index_copy_", "aten::index_fill_", "aten::take",
    "aten::masked_fill_", "aten::masked_scatter_", "aten::put_", "aten::cat", "aten::roll",
    "aten::flip", "aten::tril", "aten::triu", "aten::tril_", "aten::triu_",
    "aten::nll_loss_forward",
    "aten::nll_loss_backward", "aten::nll_loss2d_forward", "aten::nll_loss2d_backward",
    "aten::gather_backward", "aten::arange", "aten::eye", "aten::linspace", "aten::diag_embed",
    "aten::triu_indices", "aten::index_fill", "aten::isin", "aten::histc", "aten::_chunk_cat",
    "aten::split_with_sizes_copy"), _one))
