# SPDX-License-Identifier: MIT
"""A transformer language model written out, and one recorded step of it, as a program for a
GPU does it: the job behind the recordings.

    medium.py --context 128 --mode training --snapshot snapshot.pickle
"""
import argparse
import math

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.trunc_normal_(self.weight)

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class Embedding(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, width))
        nn.init.trunc_normal_(self.weight)

    def forward(self, tokens):
        return self.weight[tokens]


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        x = x * scale
        return (self.weight * x).to(dtype)


class Rotary(nn.Module):
    def __init__(self, context, width, theta=10000.0):
        super().__init__()
        angle = theta ** -(torch.arange(0, width, 2) / width)
        turns = torch.einsum("i,j->ij", torch.arange(context), angle)
        self.register_buffer("table", torch.stack((torch.cos(turns), torch.sin(turns))),
                             persistent=False)

    def forward(self, x):
        even, odd = x.view(*x.shape[:-1], -1, 2).movedim(-1, 0)
        cos, sin = self.table[:, :x.shape[-2]]
        first = cos * even - sin * odd
        second = sin * even + cos * odd
        return torch.cat((first.unsqueeze(-1), second.unsqueeze(-1)), -1).flatten(-2)


def softmax(x, dim):
    shifted = x - torch.max(x, dim=dim, keepdim=True)[0]
    powers = torch.exp(shifted)
    return powers / torch.sum(powers, dim=dim, keepdim=True)


class Attention(nn.Module):
    def __init__(self, width, heads, rotary):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))
        self.output = Linear(width, width)
        self.rotary = rotary

    def forward(self, x):
        batch, length, _ = x.shape
        query = self.query(x)
        key = self.key(x)
        value = self.value(x)
        query, key, value = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                             for t in (query, key, value))
        query = self.rotary(query)
        key = self.rotary(key)
        positions = torch.arange(length, device=x.device)
        mask = positions.view(1, 1, -1, 1) >= positions.view(1, 1, 1, -1)
        mixed = attend(query, key, value, mask)
        mixed = mixed.transpose(1, 2).contiguous().view(batch, length, -1)
        return self.output(mixed)


def attend(query, key, value, mask):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(key.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores, dim=-1)
    return torch.einsum("...qk,...kd->...qd", weights, value)


def silu(x):
    return x * torch.sigmoid(x)


class SwiGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.first, self.second = Linear(width, inner), Linear(inner, width)
        self.third = Linear(width, inner)

    def forward(self, x):
        return self.second(silu(self.first(x)) * self.third(x))


class Block(nn.Module):
    def __init__(self, width, heads, inner, rotary):
        super().__init__()
        self.attention = Attention(width, heads, rotary)
        self.inner = SwiGLU(width, inner)
        self.before, self.between = RMSNorm(width), RMSNorm(width)

    def forward(self, x):
        attended = self.attention(self.before(x))
        attended_sum = x + attended
        inner = self.inner(self.between(attended_sum))
        return attended_sum + inner


class Model(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads, inner):
        super().__init__()
        rotary = Rotary(context, width // heads)
        self.embedding = Embedding(vocabulary, width)
        self.rotary = rotary
        self.layers = nn.ModuleList([Block(width, heads, inner, rotary) for _ in range(layers)])
        self.last = RMSNorm(width)
        self.head = Linear(width, vocabulary)

    def forward(self, tokens):
        x = embedded = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        x = self.last(x)
        return self.head(x)


def log_softmax(x, dim):
    largest = torch.max(x, dim=dim, keepdim=True)[0]
    x = x - largest
    return x - torch.log(torch.sum(torch.exp(x), dim=dim, keepdim=True))


def cross_entropy(logits, targets):
    negative = -log_softmax(logits, -1)
    return torch.mean(torch.gather(negative, -1, targets.unsqueeze(-1)))


class AdamW(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "decay": decay})

    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                grad = p.grad.data
                t = state.get("t", 1)
                rate = group["lr"] * math.sqrt(1 - second ** t) / (1 - first ** t)
                p.data -= group["lr"] * group["decay"] * p.data
                old_m = state.get("m", torch.zeros_like(p))
                old_v = state.get("v", torch.zeros_like(p))
                m = first * old_m + (1 - first) * grad
                v = second * old_v + (1 - second) * torch.square(grad)
                p.data -= rate * m / (torch.sqrt(v) + group["eps"])
                state["m"], state["v"], state["t"] = m, v, t + 1


MEMORY = torch.cuda.memory


def infer(model, options, cast):
    """Five forward passes, then one that is recorded."""
    shape = (options.batch, options.context)
    warm = torch.randint(0, 10000, (5, *shape), device="cuda")
    inputs = torch.randint(0, 10000, (1, *shape), device="cuda")
    model.eval()
    with torch.inference_mode():
        for index in range(5):
            with cast():
                model(warm[index])
        torch.cuda.synchronize()
        MEMORY._record_memory_history(max_entries=1000000)
        with cast():
            model(inputs[0])


def train(model, options, cast):
    """Five training steps, then one that is recorded."""
    optimizer = AdamW(model.parameters())
    shape = (options.batch, options.context)
    warm = torch.randint(0, 10000, (5, *shape), device="cuda")
    inputs = torch.randint(0, 10000, (1, *shape), device="cuda")
    warm_targets = torch.randint(0, 10000, (5, *shape), device="cuda")
    targets = torch.randint(0, 10000, (1, *shape), device="cuda")
    model.train()
    for index in range(5):
        with cast():
            outputs = model(warm[index])
            loss = cross_entropy(outputs, warm_targets[index])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del outputs, loss
    optimizer.zero_grad(set_to_none=True)
    MEMORY._record_memory_history(max_entries=1000000)
    with cast():
        outputs = model(inputs[0])
        loss = cross_entropy(outputs, targets[0])
    loss.backward()
    optimizer.step()
    return outputs, loss


def accumulate(model, options, cast):
    """Five forward and backward passes that add up gradients, then one that is recorded."""
    shape = (options.batch, options.context)
    inputs = torch.randint(0, 10000, shape).to("cuda")
    targets = torch.randint(0, 10000, shape).to("cuda")
    for index in range(6):
        if index == 5:
            MEMORY._record_memory_history(max_entries=1000000)
        with cast():
            outputs = model(inputs)
            loss = cross_entropy(outputs, targets)
        loss.backward()
    return outputs, loss


MODES = {"inference": infer, "training": train, "gradients": accumulate}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=MODES, default="training")
    parser.add_argument("--bfloat16", action="store_true")
    for name, value in (("context", 128), ("batch", 4), ("width", 1024), ("inner", 4096),
                        ("layers", 24), ("heads", 16)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--snapshot", default=None)
    options = parser.parse_args()
    model = Model(10000, options.context, options.width, options.layers, options.heads,
                  options.inner).to("cuda")

    def cast():
        return torch.autocast("cuda", torch.bfloat16, enabled=options.bfloat16)

    kept = MODES[options.mode](model, options, cast)  # as names of a script live to its end
    torch.cuda.synchronize()
    if options.snapshot:
        MEMORY._dump_snapshot(options.snapshot)
    MEMORY._record_memory_history(enabled=None)
    del kept


if __name__ == "__main__":
    main()
