# SPDX-License-Identifier: MIT
"""Trainings on acre, bit for bit as on the CPU; out of memory and sleep in the middle."""
import copy
import functools
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

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
    """Embeddings and sparse access: rows are gathered, and few of them get gradients."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(100, 16, mode="sum")
        self.rows = nn.Parameter(torch.randn(100, 16))
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        spread = torch.zeros(len(x), 16, device=x.device)
        spread = spread.index_add(0, x[:, 0] % len(x), self.rows[x[:, 1]])
        return self.last(self.bag(x) + spread + self.rows.gather(0, x[:, :1].expand(-1, 16)))


class Language(nn.Module):
    """A language model of two LSTM layers."""

    def __init__(self, words=40, width=16):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.LSTM(width, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, words)

    def forward(self, x):
        return self.head(self.layers(self.words(x))[0]).flatten(0, 1)


class Checkpointed(nn.Module):
    """Blocks whose activations are computed again for the gradients."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
            for _ in range(3))
        self.last = nn.Linear(32, 5)

    def forward(self, x):
        x = self.first(x)
        for i, block in enumerate(self.blocks):
            x = x + checkpoint(block, x, use_reentrant=i == 1)
        return self.last(x)


class Split(nn.Module):
    """Two halves, on two devices once it is on acre."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.second = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 5))

    def to(self, device):
        self.first.to(f"{device}:0")
        self.second.to(f"{device}:1")
        return self

    def forward(self, x):
        x = self.first(x)
        x = self.second(x.to(self.second[0].weight.device, non_blocking=True))
        return x.to(self.first[0].weight.device)


MODELS = {
    "perceptron": (perceptron, lambda: torch.randn(8, 16), 5, 8),
    "residual": (Residual, lambda: torch.randn(4, 3, 8, 8), 5, 4),
    "gpt": (Gpt, lambda: torch.randint(50, (2, 12)), 50, 24),
    "language": (Language, lambda: torch.randint(40, (3, 8)), 40, 24),
    "checkpointed": (Checkpointed, lambda: torch.randn(8, 16), 5, 8),
    "split": (Split, lambda: torch.randn(8, 16), 5, 8),
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


@functools.cache
def has_bfloat16_lstm():
    """Whether oneDNN, which the CPU asks first, has such a layer for this processor. If it has
    none, PyTorch refuses on the CPU, and the device must refuse with the same words."""
    def refusal(device):
        layer, x = nn.LSTM(4, 4).to(device), torch.ones(2, 1, 4).to(device)
        try:
            with torch.autocast(device, torch.bfloat16):
                layer(x)
        except RuntimeError as error:
            assert "could not create a primitive descriptor for the LSTM" in str(error)
            return str(error)
        return None

    assert refusal("cpu") == refusal("acre")
    return refusal("cpu") is None


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_equals_cpu(name, optimizer, autocast):
    """Proof 2: losses and weights have the same bits. Without oneDNN where it cannot compute."""
    has_onednn = name != "language" or not autocast or has_bfloat16_lstm()
    with torch.backends.mkldnn.flags(enabled=has_onednn):
        compare_with_cpu(name, optimizer, autocast)


def compare_with_cpu(name, optimizer, autocast):
    torch.manual_seed(3)
    make, make_input, classes, count = MODELS[name]
    model = make()
    other = copy.deepcopy(model).to("acre")
    there = train(model, "cpu", OPTIMIZERS[optimizer], make_input, classes, count, autocast)
    here = train(other, "acre", OPTIMIZERS[optimizer], make_input, classes, count, autocast)
    assert torch.equal(there, here)
    for first, second in zip(model.parameters(), other.parameters()):
        assert torch.equal(first, second.cpu())


class Sparse(nn.Module):
    """Embeddings whose gradients are sparse tensors."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(60, 8, sparse=True)
        self.bag = nn.EmbeddingBag(60, 8, mode="sum", sparse=True)
        self.last = nn.Parameter(torch.randn(8, 5))

    def forward(self, x):
        return (self.words(x).mean(1) + self.bag(x)) @ self.last


SPARSE_OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.05),
    "sparse_adam": lambda p: torch.optim.SparseAdam(p[:2], 0.05),
}


@pytest.mark.parametrize("optimizer", SPARSE_OPTIMIZERS)
def test_sparse_gradients_equals_cpu(optimizer):
    """Proof 2: gradients of few rows, as sparse tensors of the device."""
    torch.manual_seed(3)
    model = Sparse()
    other = copy.deepcopy(model).to("acre")

    def order(parameters):
        # The embeddings first: one optimizer takes those only.
        return SPARSE_OPTIMIZERS[optimizer](sorted(parameters, key=lambda p: -p.shape[0]))

    there = train(model, "cpu", order, lambda: torch.randint(60, (6, 4)), 5, 6)
    here = train(other, "acre", order, lambda: torch.randint(60, (6, 4)), 5, 6)
    assert torch.equal(there, here)
    assert other.words.weight.grad.is_sparse and other.words.weight.grad.device.type == "acre"
    for first, second in zip(model.parameters(), other.parameters()):
        assert torch.equal(first, second.cpu())


OUT_OF_MEMORY = """
import gc, torch, torch_acre
from torch import nn

torch.acre.set_per_process_memory_fraction((96 << 20) / torch.acre.mem_get_info()[1])
model = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 8)).to("acre")
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

def step(batch):
    optimizer.zero_grad()
    loss = model(torch.randn(batch, 64).to("acre")).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()

step(64)
batch, failures, steps = 1 << 15, 0, 0
while steps < 5:
    try:
        assert step(batch) >= 0
        steps += 1
    except torch.OutOfMemoryError as error:
        text = str(error)
        assert "Tried to allocate" in text and "MiB" in text and "free" in text, text
        failures += 1
        batch //= 2
assert failures >= 2 and batch >= 256, (failures, batch)
stats = torch.acre.memory_stats()
assert stats["num_ooms"] == failures
assert all(torch.isfinite(p.cpu()).all() for p in model.parameters())
del model, optimizer
gc.collect()
torch.acre.empty_cache()
left = {k: v for k, v in torch.acre.memory_stats().items() if k.endswith(".current") and v}
assert not left, left
torch_acre._C._cache_check(0)
print("done")
"""


@pytest.mark.parametrize("policy", ["acre", "torch"])
def test_out_of_memory_in_training_halves_the_batch(run_python, policy):
    """Proof 4: the exception carries the report, the job goes on, nothing stays."""
    assert run_python(OUT_OF_MEMORY, ACRE_CONF=f"policy:{policy}").stdout == "done\n"


def test_sleep_between_two_steps_changes_no_loss():
    """Proof 6: a model of 200 MB sleeps, and trains on as if it had not."""
    def losses(is_sleeping):
        torch.manual_seed(5)
        pool = torch.acre.MemPool(tag="training")
        with torch.acre.use_mem_pool(pool):
            model = nn.Sequential(nn.Linear(2048, 12288), nn.ReLU(),
                                  nn.Linear(12288, 2048)).to("acre")
        assert sum(p.nbytes for p in model.parameters()) >= 200e6
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        found = []
        for step in range(3):
            if is_sleeping and step == 2:
                places = [p.data_ptr() for p in model.parameters()]
                before = torch.acre.memory_reserved(), torch.acre.mem_get_info()[0]
                torch.acre.sleep("training")
                assert torch.acre.memory_reserved() <= before[0] - 200_000_000
                assert torch.acre.mem_get_info()[0] >= before[1] + 200_000_000
                torch.acre.wake("training")
                assert [p.data_ptr() for p in model.parameters()] == places
            loss = model(torch.randn(8, 2048).to("acre")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.detach().cpu())
        return torch.stack(found)

    assert torch.equal(losses(False), losses(True))


@pytest.mark.skipif(bool(os.environ.get("ACRE_CONF")), reason="this is the run it starts")
def test_trainings_under_policy_torch():
    """Proof 2: another policy places blocks elsewhere and computes the same bits."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__,
               "-k", "equals_cpu"]
    done = subprocess.run(command, env=dict(os.environ, ACRE_CONF="policy:torch"),
                          capture_output=True, text=True)
    count = 6 * len(MODELS) + len(SPARSE_OPTIMIZERS)
    assert done.returncode == 0 and f"{count} passed" in done.stdout, done.stdout
