# SPDX-License-Identifier: MIT
"""Recurrent networks by cuDNN: results, the reserve that the backward pass needs, and a
workspace whose size cuDNN does not publish."""
import torch


def _cudnn_rnn(call):
    """aten::_cudnn_rnn: output, hidden, cell, reserve, weights in one buffer."""
    names = [argument.name for argument in call.op._schema.arguments]
    value = {name: call.arg(index, name) for index, name in enumerate(names)}
    tensor, hidden = value["input"], value["hx"]
    gates = {2: 4, 3: 3}.get(value["mode"], 1)
    width, layers = value["hidden_size"], value["num_layers"]
    both = 2 if value["bidirectional"] else 1
    rows = tuple(tensor.size()[:-1])  # (steps, batch), or all steps of a packed batch in one
    elements = 1
    for length in rows:
        elements *= length
    weights = value["weight_buf"]
    if weights is None:
        weights = call.make((sum(weight.numel() for weight in value["weight"]),), tensor.dtype)
    shape = rows + (width * both,)
    output = call.make(shape, tensor.dtype)
    hy = call.make(tuple(hidden.size()), tensor.dtype)
    cy = call.make(tuple(hidden.size()) if value["cx"] is not None else (0,), tensor.dtype)
    unit = tensor.element_size() * elements * width * layers * both
    reserve = call.make((unit * (gates + 1) if value["train"] else 0,), torch.uint8)
    call.temp(unit)
    call.kernels.notes.setdefault("cuDNN recurrent workspace", set()).add(call.op._schema.name)
    return output, hy, cy, reserve, weights


def _backward(call):
    names = [argument.name for argument in call.op._schema.arguments]
    value = {name: call.arg(index, name) for index, name in enumerate(names)}
    tensor, hidden, cell = value["input"], value["hx"], value["cx"]
    call.kernels.notes.setdefault("cuDNN recurrent workspace", set()).add(call.op._schema.name)
    results = (call.make(tuple(tensor.size()), tensor.dtype),
               call.make(tuple(hidden.size()), tensor.dtype),
               call.make(tuple(cell.size()), tensor.dtype) if cell is not None else None)
    buffer = call.make(tuple(value["weight_buf"].size()), tensor.dtype)
    weights, offset = [], 0
    for weight in value["weight"]:
        weights.append(buffer.narrow(0, offset, weight.numel()).view(weight.size()))
        offset += weight.numel()
    return results + (weights,)


def _flatten(call):
    """aten::_cudnn_rnn_flatten_weight: one buffer for all weights, which become its views."""
    weights = call.args[0]
    buffer = call.make((sum(weight.numel() for weight in weights),), weights[0].dtype)
    offset = 0
    for weight in weights:
        torch.ops.aten.set_.source_Storage_storage_offset(
            weight, buffer.untyped_storage(), offset, weight.size(), weight.stride())
        offset += weight.numel()
    return buffer


MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}


def _buffer(params):
    """The buffer that all weights are views of, or None."""
    storage = params[0].untyped_storage()
    total = sum(param.numel() for param in params)
    if any(param.untyped_storage().data_ptr() != storage.data_ptr() for param in params) \
            or storage.nbytes() != total * params[0].element_size():
        return None
    return params[0].detach().new_empty(0).set_(storage, 0, (total,))


def compose(name, real, *args):
    """lstm, gru and their like, as they are composed where there is cuDNN."""
    tensor = args[0]
    is_packed = isinstance(args[1], torch.Tensor) and args[1].dtype == torch.int64 \
        and args[1].dim() == 1 and len(args) == 9
    if not tensor.is_cuda:
        return real.call_boxed(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args)
    if is_packed:
        sizes, hidden, params, has_biases, layers, dropout, train, both = args[1:9]
        batch_first, sizes = False, sizes.tolist()
    else:
        hidden, params, has_biases, layers, dropout, train, both, batch_first = args[1:9]
        sizes = []
    hx, cx = (hidden[0], hidden[1]) if name == "lstm" else (hidden, None)
    out, hy, cy, _, _ = torch.ops.aten._cudnn_rnn(
        tensor, params, 4 if has_biases else 2, _buffer(params), hx, cx, MODES[name],
        hx.size(2), 0, layers, batch_first, dropout, train, both, sizes, None)
    return (out, hy, cy) if name == "lstm" else (out, hy)


RULES = {"aten::_cudnn_rnn": _cudnn_rnn, "aten::_cudnn_rnn_backward": _backward,
         "aten::_cudnn_rnn_flatten_weight": _flatten}
