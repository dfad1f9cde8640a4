# SPDX-License-Identifier: MIT
"""The device beside the CPU: a GPT step, one addition, one empty tensor, a snapshot.

    build/torch/python pytorch/bench/device.py [--quick]

Both sides alternate in one run; each figure is a median. An empty tensor is compared
with one of the device "meta", which takes PyTorch's dispatcher and no memory.
"""
import argparse
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import torch_acre  # noqa: F401, makes the device known

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from test_trainings import Gpt  # noqa: E402


def timed(function) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def alternate(functions: dict, rounds: int) -> dict:
    """The median time of each function, called in turn."""
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(timed(function))
    return {name: statistics.median(values) for name, values in times.items()}


def step_of(device: str, batch: int):
    torch.manual_seed(1)
    model = Gpt(width=384, heads=6, layers=6, words=512, length=256).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x = torch.randint(512, (batch, 256)).to(device)
    y = torch.randint(512, (batch * 256,)).to(device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        torch.accelerator.synchronize()
    step()
    return step


def repeated(function, count: int):
    def run():
        for _ in range(count):
            function()
    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    rounds = 3 if parser.parse_args().quick else 9
    found = alternate({d: step_of(d, 8) for d in ("cpu", "acre")}, rounds)
    print(f"GPT step, 6 layers, width 384, context 256, batch 8: cpu {found['cpu'] * 1e3:.0f} ms, "
          f"acre {found['acre'] * 1e3:.0f} ms, ratio {found['acre'] / found['cpu']:.3f} "
          "(asked 1.10)")
    pairs = {d: (torch.ones(1, device=d), torch.ones(1, device=d)) for d in ("cpu", "acre")}
    found = alternate({d: repeated(lambda a=a, b=b: a + b, 2000) for d, (a, b) in pairs.items()},
                      rounds)
    print(f"a + b, one element: cpu {found['cpu'] * 500:.2f} us, "
          f"acre {found['acre'] * 500:.2f} us, "
          f"{(found['acre'] - found['cpu']) * 500:.2f} us more (asked 3)")
    found = alternate({d: repeated(lambda d=d: torch.empty(1 << 20, device=d), 2000)
                       for d in ("meta", "acre")}, rounds)
    print(f"empty(1 << 20) and del: meta {found['meta'] * 500:.2f} us, acre "
          f"{found['acre'] * 500:.2f} us, {(found['acre'] - found['meta']) * 500:.2f} us more "
          "(asked 1.5)")
    torch.acre.memory._record_memory_history(max_entries=100_000, stacks="python")
    for _ in range(50_000):
        torch.empty(1024, device="acre")
    seconds = timed(torch.acre.memory._snapshot)
    torch.acre.memory._record_memory_history(None)
    print(f"snapshot of 100,000 events: {seconds:.2f} s (asked 1)")


if __name__ == "__main__":
    main()
