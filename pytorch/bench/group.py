# SPDX-License-Identifier: MIT
"""Figures of process group "acre" against gloo, in one run.

    build/torch/python pytorch/bench/group.py [--ranks 2,4,8] [--parts calls,ddp] [--quick]
        [--rows TEXT,...]

The ranks are bound to the processors in turn. Each row of "calls" alternates between both groups
and gives medians of the slowest rank. "ddp" is a step of DistributedDataParallel, also without any
exchange, which is the least that any group can reach. --rows takes the rows of "calls" in whose
names one of the texts occurs, such as "all_reduce 1 MiB,barrier".
"""
from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = [(1 << 10, "1 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB"), (16 << 20, "16 MiB"),
         (64 << 20, "64 MiB")]
SMALL = 1 << 20  # up to here 1/10 of gloo is asked for, above 1/5


def group_join(rank: int, size: int, folder: str):
    """Binds the rank to a processor and joins; gives torch.distributed."""
    import torch
    import torch.distributed as dist
    import torch_acre  # noqa: F401

    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("acre", store=dist.FileStore(folder + "/store", size), rank=rank,
                            world_size=size, timeout=datetime.timedelta(seconds=300))
    return dist


def rank_main(rank: int, size: int, folder: str, is_quick: bool, wanted: list[str]) -> None:
    dist = group_join(rank, size, folder)
    import torch

    limit = datetime.timedelta(seconds=300)
    groups = {"acre": dist.group.WORLD, "gloo": dist.new_group(backend="gloo", timeout=limit)}
    rows = []

    def slowest(of: float) -> float:
        """The largest of what the ranks give."""
        word = torch.tensor([of], dtype=torch.float64)
        dist.all_reduce(word, dist.ReduceOp.MAX)
        return word.item()

    def median_of(call, group, budget: float) -> float:
        """Microseconds of one call: the median over repeats, of the slowest rank. The calls take
        about budget seconds together, of which the second one tells how many those are."""
        call(group)
        times = []
        count = 1
        while len(times) < count:
            begin = time.perf_counter()
            call(group)
            times.append((time.perf_counter() - begin) * 1e6)
            if len(times) == 1:
                count = max(3, min(300, int(budget * 1e6 / slowest(times[0]))))
        return slowest(statistics.median(times))

    def row(name: str, call, limit_ratio: float) -> None:
        if not any(text in name for text in wanted):
            return
        samples = {key: [] for key in groups}
        for _ in range(5):
            for key, group in groups.items():
                samples[key].append(median_of(call, group, 0.05 if is_quick else 0.2))
        acre, gloo = (statistics.median(samples[key]) for key in ("acre", "gloo"))
        rows.append({"name": name, "ranks": size, "acre": acre, "gloo": gloo,
                     "limit": limit_ratio})

    row("barrier", lambda group: dist.barrier(group=group), 1 / 20 if size == 2 else 1)
    for bytes_, text in SIZES:
        tensor = torch.ones(bytes_ // 4)
        ratio = 1 if size > 2 else 1 / 10 if bytes_ <= SMALL else 1 / 5
        row("all_reduce " + text, lambda group, t=tensor: dist.all_reduce(t, group=group), ratio)
    part, whole = torch.ones((1 << 20) // 4 // size), torch.ones((1 << 20) // 4 // size * size)
    ratio = 1 / 5 if size == 2 else 1
    row("all_gather 1 MiB", lambda group: dist.all_gather_into_tensor(whole, part, group=group),
        ratio)
    row("reduce_scatter 1 MiB",
        lambda group: dist.reduce_scatter_tensor(part, whole, group=group), ratio)
    row("broadcast 1 MiB", lambda group: dist.broadcast(whole, 0, group=group), ratio)
    other = torch.empty_like(whole)
    row("all_to_all 1 MiB", lambda group: dist.all_to_all_single(other, whole, group=group),
        ratio)
    if rank == 0:
        print(json.dumps(rows), flush=True)
    dist.destroy_process_group()


def ddp_main(rank: int, folder: str, is_quick: bool) -> None:
    """Steps of a GPT (6 layers, width 384, context 256, 8 sequences on 2 ranks)."""
    dist = group_join(rank, 2, folder)
    import torch
    from torch.nn.parallel import DistributedDataParallel
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
    from test_trainings import Gpt

    gloo = dist.new_group(backend="gloo")
    sides = {"gloo": (gloo, "cpu"), "acre": (None, "cpu"), "acre tensors": (None, "acre")}
    steps = {}
    for key, (group, device) in sides.items():
        torch.manual_seed(1)
        model = Gpt(width=384, heads=6, layers=6, words=512, length=256).to(device)
        model = DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        tokens = torch.randint(512, (4, 256)).to(device)
        targets = torch.randint(512, (4 * 256,)).to(device)

        def step(model=model, optimizer=optimizer, tokens=tokens, targets=targets) -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(tokens), targets).backward()
            optimizer.step()
            torch.accelerator.synchronize()
        steps[key] = step
        if key == "acre":
            def alone(model=model, step=step) -> None:
                with model.no_sync():
                    step()
            steps["alone"] = alone
    samples = {key: [] for key in steps}
    for count in range(4 if is_quick else 8):
        for key, step in steps.items():
            dist.barrier()
            begin = time.perf_counter()
            step()
            taken = torch.tensor([(time.perf_counter() - begin) * 1e6], dtype=torch.float64)
            dist.all_reduce(taken, dist.ReduceOp.MAX)
            if count > 0:
                samples[key].append(taken.item())
    if rank == 0:
        print(json.dumps({key: statistics.median(of) for key, of in samples.items()}), flush=True)
    dist.destroy_process_group()


def run(part: str, size: int, is_quick: bool, wanted: str = ""):
    """Starts the ranks of a part; what rank 0 prints."""
    with tempfile.TemporaryDirectory(prefix="acre-bench-") as folder:
        environment = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        processes = [subprocess.Popen(
            [sys.executable, "-W", "ignore", str(pathlib.Path(__file__).resolve()), "--rank",
             part, str(rank), str(size), folder, "--rows", wanted]
            + (["--quick"] if is_quick else []),
            stdout=subprocess.PIPE, text=True, env=environment) for rank in range(size)]
        outs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            sys.exit(f"a rank failed: {[process.returncode for process in processes]}")
        return json.loads(outs[0])


def print_calls(ranks: list[int], is_quick: bool, wanted: str) -> None:
    print(f"{'operation':24}{'ranks':>6}{'acre us':>12}{'gloo us':>12}{'ratio':>8}{'asked':>8}")
    for size in ranks:
        for row in run("calls", size, is_quick, wanted):
            ratio = row["acre"] / row["gloo"]
            print(f"{row['name']:24}{row['ranks']:6}{row['acre']:12.1f}{row['gloo']:12.1f}"
                  f"{ratio:8.3f}{row['limit']:8.3f}{'' if ratio <= row['limit'] else '  above'}")


def print_ddp(is_quick: bool) -> None:
    found = run("ddp", 2, is_quick)
    print("DDP step of a GPT on 2 ranks: " + ", ".join(
        f"{key} {value / 1e3:.0f} ms ({value / found['gloo']:.3f})"
        for key, value in found.items()) + "; alone: nothing is exchanged (asked 0.9)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks, by commas")
    parser.add_argument("--parts", default="calls,ddp", help="which parts, by commas")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--rows", default="", help="texts in the names of rows, by commas")
    parser.add_argument("--rank", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        part, rank, size, folder = options.rank
        if part == "calls":
            rank_main(int(rank), int(size), folder, options.quick, options.rows.split(","))
        else:
            ddp_main(int(rank), folder, options.quick)
        return
    parts = options.parts.split(",")
    if "calls" in parts:
        print_calls([int(n) for n in options.ranks.split(",")], options.quick,
                    options.rows)
    if "ddp" in parts:
        print_ddp(options.quick)


if __name__ == "__main__":
    main()
