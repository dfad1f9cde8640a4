# SPDX-License-Identifier: MIT
"""Tensors of the device in other processes."""
import collections
import dataclasses
from typing import Tuple

import torch

from torch_acre import _C
from torch_acre._index import backend_name

# Tensors on their way to another process: kept until somebody has opened them. The oldest
# leave when there are many.
_on_their_way: "collections.OrderedDict[int, torch.Tensor]" = collections.OrderedDict()
_MOST = 1024


@dataclasses.dataclass(frozen=True)
class Shared:
    """A tensor for another process; send it by any means and give it to open()."""
    handle: bytes
    offset: int
    nbytes: int
    dtype: torch.dtype
    size: Tuple[int, ...]
    stride: Tuple[int, ...]
    storage_offset: int
    device: int
    requires_grad: bool
    is_conj: bool = False
    is_neg: bool = False


def share(tensor: torch.Tensor) -> Shared:
    """Makes a tensor of the device known to other processes of this user.

    The tensor must live until the other process has opened it. Its memory is not used again
    before the last process has let go of it.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("share: the tensor is part of a graph; call detach() first")
    plain = tensor.detach()
    handle, offset = _C._share_export(plain)
    return Shared(handle, offset, plain.untyped_storage().nbytes(), plain.dtype,
                  tuple(plain.size()), tuple(plain.stride()), plain.storage_offset(),
                  plain.device.index, tensor.requires_grad, plain.is_conj(), plain.is_neg())


def open(shared: Shared) -> torch.Tensor:
    """The tensor that another process shared; both see each other's writes."""
    raw = _C._share_open(shared.device, shared.handle, shared.offset, shared.nbytes)
    made = torch.empty(0, dtype=shared.dtype, device=raw.device)
    made.set_(raw.untyped_storage(), shared.storage_offset, shared.size, shared.stride)
    made = made.conj() if shared.is_conj else made
    made = torch._neg_view(made) if shared.is_neg else made
    return made.requires_grad_() if shared.requires_grad else made


def _keep(tensor: torch.Tensor) -> None:
    for key, held in list(_on_their_way.items()):
        if _C._share_users(held) > 0:
            del _on_their_way[key]
    while len(_on_their_way) >= _MOST:
        _on_their_way.popitem(last=False)
    _on_their_way[tensor.data_ptr()] = tensor


def _rebuild_parameter(shared: Shared) -> torch.nn.Parameter:
    return torch.nn.Parameter(open(shared).detach(), shared.requires_grad)


def _rebuild_sparse(indices: torch.Tensor, values: torch.Tensor, size: torch.Size,
                    is_coalesced: bool, requires_grad: bool) -> torch.Tensor:
    made = torch.sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced)
    return made.requires_grad_() if requires_grad else made


def _rebuild_empty(size: torch.Size, stride: Tuple[int, ...], dtype: torch.dtype, device: int,
                   requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    made = torch.empty_strided(size, stride, dtype=dtype, device=f"{backend_name()}:{device}")
    if is_parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_() if requires_grad else made


def _reduce(tensor: torch.Tensor):
    """How torch.multiprocessing sends a tensor; those of other devices as before."""
    if tensor.device.type != backend_name():
        from torch.multiprocessing import reductions
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("a tensor that is part of a graph cannot be sent to another process; "
                           "call detach() first")
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    if tensor.layout == torch.sparse_coo:
        plain = tensor.detach()
        return _rebuild_sparse, (plain._indices(), plain._values(), plain.size(),
                                 plain.is_coalesced(), tensor.requires_grad)
    if tensor.untyped_storage().nbytes() == 0:
        return _rebuild_empty, (tensor.size(), tensor.stride(), tensor.dtype,
                                tensor.device.index, tensor.requires_grad, is_parameter)
    shared = share(tensor)
    _keep(tensor.detach())
    return (_rebuild_parameter if is_parameter else open), (shared,)


def install() -> None:
    """Lets torch.multiprocessing send tensors of the device."""
    from multiprocessing.reduction import ForkingPickler
    ForkingPickler.register(torch.Tensor, _reduce)
    ForkingPickler.register(torch.nn.Parameter, _reduce)
