# SPDX-License-Identifier: MIT
"""Operators whose answer depends on data that is not there."""
import torch


def item(call):
    """A number read back from the device."""
    return call.kernels.settings.number(call.args[0])


def nonzero(call):
    """As many as the setting says: a share of all elements."""
    tensor = call.args[0]
    count = call.kernels.settings.count(tensor, "nonzero")
    call.temp(4)
    call.temp(8)
    # Found row by row, then transposed: (rank, count) of which a view is returned.
    rank = tensor.dim()
    result = call.make((count, rank), torch.int64, (1, max(count, 1)))
    if tensor.numel():
        call.temp(1 if tensor.numel() <= 2048 else tensor.numel() // 512 * 8 + 1024)
    return result


def masked_select(call):
    """The mask becomes indices, then an index picks."""
    tensor, mask = call.args[0], call.args[1]
    shape = torch.broadcast_shapes(tensor.size(), mask.size())
    total = 1
    for length in shape:
        total *= length
    count = min(call.kernels.settings.count(mask, "masked_select"), total)
    call.temp(8 * count * max(len(shape), 1))
    return call.make((count,), tensor.dtype)


def unique(call):
    """unique: as if all values were different."""
    tensor = call.args[0]
    call.kernels.settings.guess("unique")
    count = tensor.numel() if call.op._schema.name != "aten::unique_dim" \
        else tensor.size(call.args[1])
    values = call.make((count,) if call.op._schema.name != "aten::unique_dim"
                       else tuple(tensor.size()), tensor.dtype)
    has_inverse = any(argument.name == "return_inverse" and call.arg(index, "return_inverse")
                      for index, argument in enumerate(call.op._schema.arguments))
    inverse = call.make(tuple(tensor.size()) if has_inverse else (0,), torch.int64)
    if call.op._schema.name == "aten::_unique":
        return values, inverse
    counts = call.make((count,) if call.arg(len(call.op._schema.arguments) - 1) else (0,),
                       torch.int64)
    return values, inverse, counts


def repeat_interleave(call):
    """As many as output_size says, or one for each."""
    repeats = call.args[0]
    count = call.kwargs.get("output_size")
    if count is None:
        call.kernels.settings.guess("repeat_interleave")
        count = repeats.numel()
    call.temp(8 * repeats.numel())
    return call.make((count,), repeats.dtype)


def bincount(call):
    minimum = call.arg(2, "minlength", 0)
    call.kernels.settings.guess("bincount")
    weights = call.arg(1, "weights")
    return call.make((max(minimum, 1),), torch.int64 if weights is None else weights.dtype)


def equal(call):
    """Whether two tensors are equal: the comparison, then whether all of it holds."""
    call.temp(call.args[0].numel())
    call.temp(1)
    call.kernels.settings.guess("equal")
    return call.args[0].size() == call.args[1].size()


RULES = {"aten::_local_scalar_dense": item, "aten::nonzero": nonzero,
         "aten::masked_select": masked_select, "aten::_unique": unique, "aten::_unique2": unique,
         "aten::unique_dim": unique, "aten::unique_consecutive": unique,
         "aten::repeat_interleave": repeat_interleave, "aten::bincount": bincount,
         "aten::equal": equal}
