# SPDX-License-Identifier: MIT
"""Operands that a GPU refuses: on different devices, or of types that do not go together.

Kernels find shapes by PyTorch's meta kernels, which ask for neither. A program that mixes
them must end as it would on a GPU instead of being told that it fits.
"""
import torch

from ..shape import tensors_in

# Operators that take operands of several devices.
_MIXED = ("aten::_foreach_", "aten::_fused_", "aten::_amp_", "aten::_nested_",
          "aten::_pack_padded", "aten::_pad_packed")
_MIXED_PARTS = ("ctc_loss", "attention", "_rnn", "copy", "is_set_to", "is_same_size")
# Indices may lie on the host; what is indexed, and what is put there, lie together.
_INDEXED = frozenset(("aten::index", "aten::_unsafe_index", "aten::index_put", "aten::index_put_",
                      "aten::_index_put_impl_", "aten::_unsafe_index_put"))
# Operands that are of one type, by position.
_SAME_TYPE = {"mm": (0, 1), "mv": (0, 1), "addmm": (1, 2, 0), "addmm_": (1, 2, 0),
              "_addmm_activation": (1, 2, 0), "addmv": (1, 2, 0), "addmv_": (1, 2, 0),
              "baddbmm": (1, 2, 0), "baddbmm_": (1, 2, 0),
              "index_add": (0, 3), "index_add_": (0, 3), "index_copy": (0, 3),
              "index_copy_": (0, 3), "scatter": (0, 3), "scatter_": (0, 3),
              "scatter_add": (0, 3), "scatter_add_": (0, 3), "scatter_reduce": (0, 3),
              "scatter_reduce_": (0, 3), "index_put": (0, 2), "index_put_": (0, 2),
              "_index_put_impl_": (0, 2), "masked_scatter": (0, 2), "masked_scatter_": (0, 2)}
_SAME_TYPE = {"aten::" + name: places for name, places in _SAME_TYPE.items()}
# Operators that CUDA has for floating point and complex numbers alone.
_NO_WHOLE = frozenset("aten::" + name for name in (
    "mm", "bmm", "mv", "dot", "addmm", "addmm_", "addmv", "addmv_", "baddbmm", "baddbmm_",
    "_softmax", "_log_softmax"))
_TARGETS = frozenset(("aten::nll_loss_forward", "aten::nll_loss2d_forward"))


def device_of(op, args, kwargs):
    """The index of the device of a call's tensors, None when no tensor lies on one; raises what
    PyTorch raises when they lie on several. A number of the host goes with all of them."""
    found = stranger = None
    for tensor in tensors_in((args, kwargs)):
        if tensor.is_cuda:
            if found is None:
                found = tensor.device
            elif tensor.device != found:
                stranger = tensor.device
        elif tensor.dim():
            stranger = tensor.device
    if stranger is not None and found is not None:
        _check_devices(op, args, found, stranger)
    return None if found is None else found.index


def _check_devices(op, args, found, stranger):
    name = op._schema.name
    if name in _INDEXED:
        own = args[0].device
        if any(tensor.device not in (own, torch.device("cpu")) for tensor in tensors_in(args[1])):
            raise RuntimeError("indices should be either on cpu or on the same device as the "
                               f"indexed tensor ({own})")
        value = args[2] if len(args) > 2 else args[0]
        if value.device == own or not value.dim():
            return
        found, stranger = own, value.device
    elif name.startswith(_MIXED) or any(part in name for part in _MIXED_PARTS):
        return
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two "
                       f"devices, {found} and {stranger}! (in {name[6:]})")


def check_types(op, args):
    """Raises what PyTorch raises when the types of operands do not go together."""
    name = op._schema.name
    places = _SAME_TYPE.get(name)
    if places is not None:
        _check_same(name[6:], [args[place] for place in places if place < len(args)
                               and isinstance(args[place], torch.Tensor)])
    if name in _NO_WHOLE and not (args[0].is_floating_point() or args[0].is_complex()):
        raise NotImplementedError(f"CUDA has no {name[6:]} for {args[0].dtype}")
    if name in _TARGETS and args[1].dtype not in (torch.int64, torch.uint8):
        raise RuntimeError("expected target dtype to be Long or Byte, but got "
                           f"{args[1].dtype}")


def _check_same(name, tensors):
    for tensor in tensors[1:]:
        if tensor.dtype != tensors[0].dtype:
            raise RuntimeError(f"{name}: expected operands to have the same dtype, but got "
                               f"{tensors[0].dtype} and {tensor.dtype}")
