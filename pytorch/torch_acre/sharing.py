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
                  plain.device.index, tensor.requires_grad)


def open(shared: Shared) -> torch.Tensor:
    """The tensor that another process shared; both see each other's writes."""
    raw = _C._share_open(shared.device, shared.handle, shared.offset, shared.nbytes)
    made = torch.empty(0, dtype=shared.dtype, device=raw.device)
    made.set_(raw.untyped_storage(), shared.storage_offset, shared.size, shared.stride)
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


def _reduce(tensor: torch.Tensor):
    """How torch.multiprocessing sends a tensor; those of other devices as before."""
    if tensor.device.type != backend_name() or tensor.layout != torch.strided or \
            tensor.untyped_storage().nbytes() == 0:
        return _reduce_before(tensor)
    shared = share(tensor)
    _keep(tensor.detach())
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return (_rebuild_parameter if is_parameter else open), (shared,)


def _reduce_before(tensor: torch.Tensor):
    from torch.multiprocessing import reductions
    if tensor.device.type == backend_name():
        return torch.empty, (tensor.size(),), {"dtype": tensor.dtype}
    return reductions.reduce_tensor(tensor)


def install() -> None:
    """Lets torch.multiprocessing send tensors of the device."""
    from multiprocessing.reduction import ForkingPickler
    ForkingPickler.register(torch.Tensor, _reduce)
    ForkingPickler.register(torch.nn.Parameter, _reduce)
