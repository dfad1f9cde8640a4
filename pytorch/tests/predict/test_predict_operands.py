# SPDX-License-Identifier: MIT
"""Operands that a GPU refuses are refused, and those that it takes are taken."""
from predicting import run

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
there, half = {"device": "cuda"}, {"device": "cuda", "dtype": torch.float16}
zeros = torch.zeros(3, dtype=torch.long)
x, y, h = torch.randn(3, 3, **there), torch.randn(3, 3), torch.randn(3, 3, **half)
q, k = torch.randn(1, 2, 3, 8, **there), torch.randn(1, 2, 3, 8, **half)
"""
SAME = "Expected all tensors to be on the same device"
TYPE = "to have the same dtype"
REFUSED = {
    "x + y": SAME, "y + x": SAME, "x[0] * y": SAME, "y + x.sum()": SAME, "x.mul_(y)": SAME,
    "x ** y": SAME, "x == y": SAME, "x.lerp(y, 0.5)": SAME, "x.clamp(min=y)": SAME,
    "x @ y": SAME, "y @ x": SAME, "x @ y[0]": SAME, "torch.einsum('ij,jk', x, y)": SAME,
    "x + x.to('cuda:1')": SAME, "x @ x.to('cuda:1')": SAME,
    "nn.Linear(3, 3).cuda()(y)": SAME, "nn.Linear(3, 3)(x)": SAME,
    "nn.LayerNorm(3).cuda()(y)": SAME, "nn.BatchNorm1d(3)(x)": SAME,
    "nn.Embedding(9, 3).cuda()(zeros)": SAME, "nn.Embedding(9, 3)(zeros.cuda())": SAME,
    "F.cross_entropy(x, zeros)": SAME, "F.mse_loss(x, y)": SAME,
    "F.binary_cross_entropy_with_logits(x, y)": SAME, "F.kl_div(x, y)": SAME,
    "torch.cat([x, y])": SAME, "torch.stack([y, x])": SAME, "torch.where(y > 0, x, x)": SAME,
    "x.masked_fill(y > 0, 0.0)": SAME, "x.masked_select(y > 0)": SAME,
    "x.gather(0, zeros[None])": SAME, "x.index_select(0, zeros)": SAME,
    "x.scatter_(0, zeros[None], 1.0)": SAME, "x.index_add_(0, zeros.cuda(), y)": SAME,
    "x[zeros] = y": SAME, "torch.add(x, x, out=y)": SAME, "torch.isin(x, y)": SAME,
    "y[zeros.cuda()]": "indices should be either on cpu or on the same device",
    "F.scaled_dot_product_attention(q, q.cpu(), q)": "the same device type",
    "F.scaled_dot_product_attention(q, q, q, attn_mask=y)": SAME,
    "F.scaled_dot_product_attention(q, k, q)": TYPE,
    "x @ h": TYPE, "x @ h[0]": TYPE, "nn.Linear(3, 3).cuda()(h)": TYPE,
    "torch.addmm(h[0], x, x)": TYPE, "nn.Linear(3, 3).cuda()(zeros.cuda())": TYPE,
    "x.index_add_(0, zeros.cuda(), h)": TYPE, "x.scatter_add_(0, zeros[None].cuda(), h)": TYPE,
    "zeros.cuda()[None] @ zeros.cuda()[:, None]": "CUDA has no",
    "F.softmax(zeros.cuda(), 0)": "CUDA has no",
    "F.cross_entropy(x, zeros.int().cuda())": "Long or Byte",
    "zeros.cuda().add_(1.5)": "Promotion of int", "x.add_(x[:2])": "broadcast",
    "x[0].add_(x)": "doesn't match the broadcast shape",
}
TAKEN = """
x * torch.tensor(3.0), torch.tensor(3.0) - x, torch.where(x > 0, x, torch.tensor(0.0))
x.masked_fill_(x > 0, torch.tensor(0.0))
x.copy_(y), x.copy_(y.half()), x.copy_(y[0]), y.copy_(h), x.to("cuda:1").copy_(x)
x[zeros], x[zeros.cuda()], x[y > 0], x[torch.tensor(1)]
x[0] = y[0]
x[zeros] = torch.tensor(2.0)
h.add_(x).mul_(2).div_(x[0]).clamp_(0).relu_(), h + x, x * 2, zeros.cuda().add_(1)
(x > 0).logical_and_(x), F.dropout(x, inplace=True), F.silu(x, True), x.pow_(2).lerp_(x, 0.5)
with torch.autocast("cuda"):
    x @ h, nn.Linear(3, 3).cuda()(h), F.scaled_dot_product_attention(q, k, q)
nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 4, **there), torch.tensor([3, 2]))
F.ctc_loss(torch.randn(5, 2, 4, **there).log_softmax(-1), torch.ones(2, 2, **there).long(),
           torch.tensor([5, 5]), torch.tensor([2, 2]))
torch.tensor_split(x, torch.tensor([1, 2])), torch.searchsorted(x[0], 0.5)
F.cross_entropy(x, zeros.cuda())
nn.Linear(3, 3).cuda()(x).sum().backward(torch.tensor(1.0))
nn.utils.clip_grad_norm_([nn.Parameter(x), nn.Parameter(y)], 1.0, foreach=False)
torch.nn.LSTM(3, 3).cuda()(x)[0].sum().backward()
for options in ({}, {"foreach": False}, {"fused": True}):
    parameter = nn.Parameter(torch.ones(3, **there))
    parameter.grad = torch.ones(3, **there)
    torch.optim.AdamW([parameter], **options).step()
"""


def test_a_gpu_takes_or_refuses_operands(tmp_path):
    lines = [HEAD, TAKEN, "def attempt(text, said):", "    try:", "        exec(text, globals())",
             "        print('taken:', text)", "    except RuntimeError as error:",
             "        if said not in str(error): print(f'{text}: {error}')"]
    lines += [f"attempt({text!r}, {said!r})" for text, said in REFUSED.items()]
    path = tmp_path / "operands.py"
    path.write_text("\n".join(lines) + "\nprint('done')\n")
    done = run("--devices", "2", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("done\n"), done.stdout


def test_a_program_that_mixes_devices_does_not_fit():
    done = run("--", "python", "-c", "import torch; torch.ones(3, device='cuda') + torch.ones(3)")
    assert done.returncode == 2
    assert "found at least two devices, cuda:0 and cpu! (in add)" in done.stderr
    assert done.stdout.startswith("The program failed")
