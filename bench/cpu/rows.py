# SPDX-License-Identifier: MIT
"""The rows of bench/cpu/run.py: each makes a function that does one step.

Each row is one process. It prints one line of JSON: processor time per step in
milliseconds (the median of all steps), page faults per step, and the peak of resident
memory in MiB, of the whole process and beyond what it had before the first step.
"""
import argparse
import json
import resource
import statistics
import time


def chain(torch):
    """Five elementwise operations on 64 MiB."""
    values = torch.rand(16 << 20)

    def step():
        torch.sqrt(torch.relu(values * 2 + 1) * values).neg()
    return step


def train(torch, model, inputs, target, loss):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss(model(inputs), target).backward()
        optimizer.step()
    return step


def conv(torch):
    """A small convolutional network, training, 32 images of 64 by 64."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 10))
    return train(torch, model, torch.rand(32, 3, 64, 64), torch.randint(10, (32,)),
                 nn.functional.cross_entropy)


def mlp(torch):
    """Four layers, training, 1024 samples."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(),
                          nn.Linear(2048, 512), nn.GELU(), nn.Linear(512, 10))
    return train(torch, model, torch.rand(1024, 512), torch.randint(10, (1024,)),
                 nn.functional.cross_entropy)


def tiny(torch):
    """Three small layers, training: many small tensors."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                          nn.Linear(64, 4))
    return train(torch, model, torch.rand(16, 32), torch.rand(16, 4), nn.functional.mse_loss)


def gpt(torch):
    """A transformer of 6 layers of width 384, training, 4 sequences of 128."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, activation="gelu",
                                       batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    mask = nn.Transformer.generate_square_subsequent_mask(128)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.body = nn.Embedding(2048, 384), body
            self.head = nn.Linear(384, 2048)

        def forward(self, tokens):
            return self.head(self.body(self.embed(tokens), mask=mask, is_causal=True))

    tokens = torch.randint(2048, (4, 128))
    return train(torch, Model(), tokens, tokens.roll(-1, 1),
                 lambda out, goal: nn.functional.cross_entropy(out.flatten(0, 1), goal.flatten()))


def gru(torch):
    """A GRU of width 256, training, 32 sequences of 64."""
    nn = torch.nn
    model = nn.GRU(128, 256, batch_first=True)
    target = torch.rand(32, 64, 256)
    return train(torch, model, torch.rand(32, 64, 128), target,
                 lambda out, goal: nn.functional.mse_loss(out[0], goal))


def np_chain(numpy):
    """Five elementwise operations on 32 MiB."""
    values = numpy.random.default_rng(0).random(4 << 20)

    def step():
        numpy.negative(numpy.sqrt(numpy.abs(values * 2 + 1) * values))
    return step


def np_stencil(numpy):
    """A five-point stencil on a grid of 1536 by 1536, four rounds."""
    start = numpy.random.default_rng(0).random((1536, 1536))

    def step():
        grid = start
        for _ in range(4):
            inner = (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]) * 0.25
            grid = numpy.pad(inner, 1)
    return step


def np_columns(numpy):
    """Columns of a table of 500,000 rows: filter, compute, group, sort, join."""
    random = numpy.random.default_rng(0)
    count = 500_000
    key = random.integers(0, 1000, count)
    price, amount = random.random(count), random.random(count)

    def step():
        chosen = price > 0.3
        rows = key[chosen]
        value = price[chosen] * amount[chosen] + 1.0
        sums = numpy.bincount(rows, weights=value, minlength=1000)
        share = value / sums[rows]
        order = numpy.argsort(rows, kind="stable")
        numpy.concatenate([share[order], value[order]]).cumsum()
    return step


TORCH = {"chain": chain, "conv": conv, "mlp": mlp, "tiny": tiny, "gpt": gpt, "gru": gru}
NUMPY = {"np-chain": np_chain, "np-stencil": np_stencil, "np-columns": np_columns}


def resident():
    """Peak of resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(step, seconds):
    """Steps for so long after a few to warm up."""
    began = time.process_time()
    step()
    one = max(time.process_time() - began, 1e-5)
    for _ in range(max(3, min(200, int(0.4 / one)))):
        step()
    batch = max(1, int(0.02 / one))
    times, steps = [], 0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    faults = usage.ru_minflt
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 5:
        began = time.process_time()
        for _ in range(batch):
            step()
        times.append((time.process_time() - began) / batch)
        steps += batch
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return statistics.median(times) * 1000, min(times) * 1000, faults / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("row", choices=list(TORCH) + list(NUMPY))
    parser.add_argument("--acre", action="store_true")
    parser.add_argument("--plain-pages", action="store_true", help="no huge pages")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.row in TORCH:
        import torch
        torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        if options.acre:
            import torch_acre.cpu
            torch_acre.cpu.enable(huge_pages=not options.plain_pages)
        make = TORCH[options.row](torch)
    else:
        import numpy
        if options.acre:
            import acre.numpy
            acre.numpy.enable()
        make = NUMPY[options.row](numpy)
    before = resident()
    median, least, faults = measure(make, options.seconds)
    print(json.dumps({"ms": median, "least": least, "faults": faults, "peak": resident(),
                      "beyond": resident() - before}))


if __name__ == "__main__":
    main()
