# SPDX-License-Identifier: MIT
"""Scaled dot-product attention: which kernel a GPU takes, and what it keeps.

Flash attention takes 16-bit numbers without a mask, on GPUs from compute capability 8.0.
The memory-efficient kernel takes the rest, masks included. Both keep the output and, for a
backward pass, the logarithm of the sum of exponentials (float32, one a row); flash attention
keeps two numbers for dropout as well.
"""
import torch

MATH, FLASH, EFFICIENT = 0, 1, 2
_SHORT = (torch.float16, torch.bfloat16)


def choose(kernels, query, key, value, mask, grouped):
    """The kernel that the GPU takes."""
    backends = torch.backends.cuda
    width = query.size(-1)
    same_heads = query.dim() == 4 and query.size(-3) == key.size(-3)
    can_flash = (query.dim() == 4 and query.dtype in _SHORT and mask is None and width <= 256
                 and value.size(-1) == width and kernels.gpu.capability >= 80
                 and (same_heads or grouped) and backends.flash_sdp_enabled())
    if can_flash:
        return FLASH
    align = 4 if query.dtype == torch.float32 else 8
    can_save = (query.dim() == 4 and (query.dtype in _SHORT or query.dtype == torch.float32)
                and same_heads and width % align == 0 and value.size(-1) % align == 0
                and kernels.gpu.capability >= 50 and backends.mem_efficient_sdp_enabled()
                and all(t.size(0) == query.size(0) for t in (key, value)) and query.numel() > 0
                and not (mask is not None and mask.requires_grad))
    return EFFICIENT if can_save else MATH


def fused_choice(call):
    """aten::_fused_sdp_choice."""
    query, key, value = call.args[:3]
    return choose(call.kernels, query, key, value, call.arg(3, "attn_mask"),
                  call.arg(7, "enable_gqa", False))


def compose(kernels, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *,
            scale=None, enable_gqa=False):
    """scaled_dot_product_attention, as it is composed on a GPU."""
    aten = torch.ops.aten
    _check(query, key, value, attn_mask)
    chosen = choose(kernels, query, key, value, attn_mask, enable_gqa) if query.is_cuda else MATH
    if chosen == FLASH:
        width = query.size(-1)
        rest = -width % 8
        if rest:
            query, key, value = (torch.nn.functional.pad(tensor, (0, rest))
                                 for tensor in (query, key, value))
        output = aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, False, scale=scale or width ** -0.5)[0]
        return output[..., :width] if rest else output
    if chosen == EFFICIENT:
        mask = _fit_mask(attn_mask, query, key)
        saves = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad
                                             or value.requires_grad)
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, saves, dropout_p, is_causal, scale=scale)[0]
    return aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p,
                                                   is_causal, scale=scale,
                                                   enable_gqa=enable_gqa)[0]


def _check(query, key, value, mask):
    """Raises what PyTorch raises for operands that do not go together."""
    for what, of in (("dtype", [tensor.dtype for tensor in (query, key, value)]),
                     ("device type", [tensor.device for tensor in (query, key, value)])):
        if len(set(of)) > 1:
            raise RuntimeError(f"Expected query, key, and value to have the same {what}, but got "
                               f"query: {of[0]}, key: {of[1]}, value: {of[2]}")
    if mask is not None and mask.device != query.device and mask.dim():
        raise RuntimeError("Expected all tensors to be on the same device, but found at least two "
                           f"devices, {query.device} and {mask.device}! (attn_mask)")


def _fit_mask(mask, query, key):
    """A mask as the memory-efficient kernel wants it: added, expanded, its rows aligned."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        blocked = mask.logical_not()
        mask = torch.zeros_like(mask, dtype=query.dtype)
        mask.masked_fill_(blocked, float("-inf"))
        del blocked
    last = mask.size(-1)
    if last % 16:
        mask = torch.nn.functional.pad(mask, (0, -last % 16))[..., :last]
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))


def _output(call, query, value):
    """The output lies as (batch, length, heads, width)."""
    batch, heads, length, width = query.size(0), query.size(1), query.size(2), value.size(-1)
    return call.make((batch, heads, length, width), query.dtype,
                     (length * heads * width, width, heads * width, 1))


def flash(call):
    """aten::_scaled_dot_product_flash_attention."""
    query, key, value = call.args[:3]
    batch, heads, length = query.size()[:3]
    output = _output(call, query, value)
    lse = call.make((batch, heads, length), torch.float32)
    state = call.make((2,), torch.uint64)
    unused = call.make((), torch.uint64)
    debug = call.make((0,), query.dtype)
    return output, lse, None, None, length, key.size(2), state, unused, debug


def flash_backward(call):
    """Gradients of query, key, value; a sum over each row, and a float32 gradient of the
    query that several blocks add to."""
    query, key, value = call.args[1:4]
    batch, heads, length, width = query.size()
    padded, wide = -(-length // 128) * 128, -(-width // 32) * 32
    grads = [_like(call, tensor) for tensor in (query, key, value)]
    call.temp(4 * batch * heads * padded)
    call.temp(4 * batch * padded * heads * wide)
    if key.size(1) != heads:
        for tensor in (key, value):
            call.temp(tensor.element_size() * batch * tensor.size(2) * heads * width)
    return tuple(grads)


def _like(call, tensor):
    """A gradient that lies as (batch, length, heads, width)."""
    batch, heads, length, width = tensor.size()
    return call.make((batch, heads, length, width), tensor.dtype,
                     (length * heads * width, width, heads * width, 1))


def _number(call):
    """Where dropout stands in the random numbers: on the host, on the device in a capture."""
    if call.kernels.ground.capturing:
        return call.make((), torch.int64)
    return torch.zeros((), dtype=torch.int64)


def efficient(call):
    """aten::_scaled_dot_product_efficient_attention."""
    query, key, value = call.args[:3]
    batch, heads, length = query.size()[:3]
    output = _output(call, query, value)
    rows = -(-length // 32) * 32 if call.arg(4, "compute_log_sumexp") else 0
    lse = call.make((batch, heads, rows), torch.float32)
    return output, lse, _number(call), _number(call)


def efficient_backward(call):
    """Gradients of query, key, value, and of the mask where it is wanted; a sum over each
    row; a float32 workspace where the gradients are of 16 bits."""
    gradient, query, key, value, mask = call.args[:5]
    wanted = call.args[10] if len(call.args) > 10 else call.arg(10)
    batch, heads, length, width = query.size()
    grads = [_like(call, tensor) for tensor in (query, key, value)]
    grad_mask = None
    if mask is not None and wanted[3]:
        last = -(-mask.size(-1) // 16) * 16
        grad_mask = call.make(tuple(mask.size()[:-1]) + (last,), query.dtype)[..., :mask.size(-1)]
    call.temp(4 * batch * heads * length)
    if query.element_size() < 4:
        call.temp(4 * batch * heads * (-(-length // 64) * 64) * width)
    else:
        call.temp(4 * batch * heads * 2 * 64 * width if length > 64 else 0)
    return grads[0], grads[1], grads[2], grad_mask


RULES = {"aten::_fused_sdp_choice": fused_choice,
         "aten::_scaled_dot_product_flash_attention": flash,
         "aten::_scaled_dot_product_flash_attention_backward": flash_backward,
         "aten::_scaled_dot_product_efficient_attention": efficient,
         "aten::_scaled_dot_product_efficient_attention_backward": efficient_backward}
