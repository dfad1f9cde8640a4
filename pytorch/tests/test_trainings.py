# SPDX-License-Identifier: MIT
"""Trainings on acre, bit for bit as on the CPU; out of memory and sleep in the middle."""
import copy
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 50


class Residual(nn.Module):
    """A small residual conv net."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.relu(x + self.second(x))
        return self.last(x.mean((2, 3)))


class Gpt(nn.Module):
    """Six layers of attention, small ones."""

    def __init__(self, width=32, heads=4, layers=6, words=50, length=12):
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(width), nn.Linear(width, 3 * width),
                           nn.Linear(width, width), nn.LayerNorm(width),
                           nn.Linear(width, 4 * width), nn.Linear(4 * width, width)])
            for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.words(x) + self.places
        for first, qkv, out, second, up, down in self.blocks:
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                       for part in qkv(first(x)).chunk(3, -1))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out(seen.transpose(1, 2).flatten(2))
            x = x + down(F.gelu(up(second(x))))
        return self.head(x).flatten(0, 1)


def perceptron():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5))


class Bag(nn.Module):
    """Embeddings with sparse gradients."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(100, 16, mode="sum")
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        return self.last(self.bag(x))


MODELS = {
    "perceptron": (perceptron, lambda: torch.randn(8, 16), 5, 8),
    "residual": (Residual, lambda: torch.randn(4, 3, 8, 8), 5, 4),
    "gpt": (Gpt, lambda: torch.randint(50, (2, 12)), 50, 24),
    "bag": (Bag, lambda: torch.randint(100, (6, 4)), 5, 6),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
}


def train(model, device, make, make_input, classes, count, autocast=False):
    """The losses of some steps; inputs come by pinned copies on a side stream on acre."""
    torch.manual_seed(11)
    optimizer = make(model.parameters())
    side = torch.Stream(device="acre") if device == "acre" else None
    losses = []
    for _ in range(STEPS):
        x, y = make_input(), torch.randint(classes, (count,))
        if side is not None:
            with side:
                x = x.pin_memory().to(device, non_blocking=True)
                y = y.pin_memory().to(device, non_blocking=True)
            current = torch.accelerator.current_stream()
            current.wait_stream(side)
            x.record_stream(current)
            y.record_stream(current)
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_equals_cpu(name, optimizer, autocast):
    """Proof 2: losses and weights have the same bits."""
    torch.manual_seed(3)
    make, make_input, classes, count = MODELS[name]
    model = make()
    other = copy.deepcopy(model).to("acre")
    there = train(model, "cpu", OPTIMIZERS[optimizer], make_input, classes, count, autocast)
    here = train(other, "acre", OPTIMIZERS[optimizer], make_input, classes, count, autocast)
    assert torch.equal(there, here)
    for first, second in zip(model.parameters(), other.parameters()):
        assert torch.equal(first, second.cpu())


def test_a_model_on_two_devices_equals_cpu():
    """Proof 2: the halves of a model on acre:0 and acre:1."""
    torch.manual_seed(3)
    first, second = nn.Linear(16, 32), nn.Linear(32, 5)
    halves = copy.deepcopy(first).to("acre:0"), copy.deepcopy(second).to("acre:1")
    x, y = torch.randn(8, 16), torch.randint(5, (8,))
    F.cross_entropy(second(F.relu(first(x))), y).backward()
    middle = F.relu(halves[0](x.to("acre:0"))).to("acre:1")
    F.cross_entropy(halves[1](middle), y.to("acre:1")).backward()
    for model, half in zip((first, second), halves):
        for one, other in zip(model.parameters(), half.parameters()):
            assert torch.equal(one.grad, other.grad.cpu())


def test_out_of_memory_in_training_halves_the_batch():
    """Proof 4: the exception carries the report, the job goes on, nothing stays."""
    torch.acre.empty_cache()
    before = torch.acre.memory_allocated()
    total = torch.acre.mem_get_info()[1]
    limit = torch.acre.memory_reserved() + (64 << 20)
    torch.acre.set_per_process_memory_fraction(limit / total)
    try:
        model = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 8)).to("acre")
        batch, failures = 4096, 0
        while True:
            try:
                x = torch.randn(batch, 64).to("acre")
                model(x).sum().backward()
                break
            except torch.OutOfMemoryError as error:
                assert "MiB" in str(error) and "allocated" in str(error)
                failures += 1
                model.zero_grad()
                batch //= 2
        assert failures >= 1 and batch >= 64
        assert torch.isfinite(model[0].weight.grad.cpu()).all()
        del model, x
    finally:
        torch.acre.set_per_process_memory_fraction(1.0)
    torch.acre.empty_cache()
    assert torch.acre.memory_allocated() == before


def test_sleep_between_two_steps_changes_no_loss():
    """Proof 6: a model sleeps, and trains on as if it had not."""
    def losses(is_sleeping):
        torch.manual_seed(5)
        pool = torch.acre.MemPool(tag="training")
        with torch.acre.use_mem_pool(pool):
            model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 8)).to("acre")
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        found = []
        for step in range(4):
            if is_sleeping and step == 2:
                optimizer.zero_grad(set_to_none=True)
                torch.acre.synchronize()
                torch.acre.sleep("training")
                torch.acre.wake("training")
            optimizer.zero_grad()
            loss = model(torch.randn(16, 256).to("acre")).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.detach().cpu())
        return torch.stack(found)

    assert torch.equal(losses(False), losses(True))


@pytest.mark.skipif(bool(os.environ.get("ACRE_CONF")), reason="this is the run it starts")
def test_trainings_under_policy_torch():
    """Proof 2: another policy places blocks elsewhere and computes the same bits."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__,
               "-k", "equals_cpu and not bfloat16"]
    done = subprocess.run(command, env=dict(os.environ, ACRE_CONF="policy:torch"),
                          capture_output=True, text=True)
    assert done.returncode == 0 and "13 passed" in done.stdout, done.stdout
