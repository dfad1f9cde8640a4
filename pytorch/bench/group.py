# SPDX-License-Identifier: MIT
"""Figures of process group "acre" against gloo, in one run.

    build/torch/python pytorch/bench/group.py [--ranks 2,4,8] [--quick]

The ranks are bound to the processors in turn. Each row alternates between both groups and gives
medians of the slowest rank. The last rows compare with Acre's own C benchmark and with a step of
DistributedDataParallel.
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


def rank_main(rank: int, size: int, folder: str, is_quick: bool) -> None:
    import torch
    import torch.distributed as dist
    import torch_acre  # noqa: F401

    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=300)
    dist.init_process_group("acre", store=dist.FileStore(folder + "/store", size), rank=rank,
                            world_size=size, timeout=limit)
    groups = {"acre": dist.group.WORLD, "gloo": dist.new_group(backend="gloo", timeout=limit)}
    rows = []

    def median_of(call, group, count: int) -> float:
        """Microseconds of one call: the median over repeats, of the slowest rank."""
        call(group)
        dist.barrier()
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            call(group)
            times.append((time.perf_counter() - begin) * 1e6)
        slowest = torch.tensor([statistics.median(times)], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        return slowest.item()

    def row(name: str, call, limit_ratio: float, cost: float) -> None:
        """cost: microseconds that gloo is expected to need, for the number of repeats."""
        count = max(3, min(300, int((1e5 if is_quick else 4e5) / cost)))
        samples = {key: [] for key in groups}
        for _ in range(3):
            for key, group in groups.items():
                samples[key].append(median_of(call, group, count))
        acre, gloo = (statistics.median(samples[key]) for key in ("acre", "gloo"))
        rows.append({"name": name, "ranks": size, "acre": acre, "gloo": gloo,
                     "limit": limit_ratio})

    row("barrier", lambda group: dist.barrier(group=group), 1 / 20 if size == 2 else 1, 300)
    for bytes_, text in SIZES:
        tensor = torch.ones(bytes_ // 4)
        ratio = 1 if size > 2 else 1 / 10 if bytes_ <= SMALL else 1 / 5
        row("all_reduce " + text, lambda group, t=tensor: dist.all_reduce(t, group=group), ratio,
            300 + bytes_ / 500)
    part, whole = torch.ones((1 << 20) // 4 // size), torch.ones((1 << 20) // 4 // size * size)
    ratio = 1 / 5 if size == 2 else 1
    row("all_gather 1 MiB", lambda group: dist.all_gather_into_tensor(whole, part, group=group),
        ratio, 3000)
    row("reduce_scatter 1 MiB",
        lambda group: dist.reduce_scatter_tensor(part, whole, group=group), ratio, 3000)
    row("broadcast 1 MiB", lambda group: dist.broadcast(whole, 0, group=group), ratio, 3000)
    other = torch.empty_like(whole)
    row("all_to_all 1 MiB", lambda group: dist.all_to_all_single(other, whole, group=group),
        ratio, 3000)
    if size == 2:
        rows.append(ddp_row(groups))
    if rank == 0:
        print(json.dumps(rows), flush=True)
    dist.destroy_process_group()


def ddp_row(groups: dict) -> dict:
    """A step of a GPT (6 layers, width 384, context 256) over both groups."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    width, context, batch = 384, 256, 2
    models = {}
    for key, group in groups.items():
        torch.manual_seed(1)
        layer = torch.nn.TransformerEncoderLayer(width, 6, 4 * width, dropout=0.0,
                                                 batch_first=True, norm_first=True)
        body = torch.nn.Sequential(torch.nn.Embedding(512, width),
                                   torch.nn.TransformerEncoder(layer, 6,
                                                               enable_nested_tensor=False),
                                   torch.nn.Linear(width, 512))
        models[key] = DistributedDataParallel(body, process_group=group)
    tokens = torch.randint(0, 512, (batch, context))
    samples = {key: [] for key in groups}
    for step in range(7):
        for key, model in models.items():
            begin = time.perf_counter()
            logits = model(tokens)
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
            model.zero_grad(set_to_none=False)
            taken = torch.tensor([(time.perf_counter() - begin) * 1e6], dtype=torch.float64)
            dist.all_reduce(taken, dist.ReduceOp.MAX)
            if step > 1:
                samples[key].append(taken.item())
    return {"name": "DDP step of a GPT", "ranks": 2, "limit": 0.9,
            **{key: statistics.median(values) for key, values in samples.items()}}


def run(size: int, is_quick: bool) -> list[dict]:
    with tempfile.TemporaryDirectory(prefix="acre-bench-") as folder:
        environment = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        processes = [subprocess.Popen(
            [sys.executable, "-W", "ignore", str(pathlib.Path(__file__).resolve()), "--rank",
             str(rank), str(size), folder] + (["--quick"] if is_quick else []),
            stdout=subprocess.PIPE, text=True, env=environment) for rank in range(size)]
        outs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            sys.exit(f"a rank failed: {[process.returncode for process in processes]}")
        return json.loads(outs[0])


def rows_of(ranks: list[int], is_quick: bool) -> list[dict]:
    """All rows, for the common benchmark of torch_acre."""
    return [row for size in ranks for row in run(size, is_quick)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks, by commas")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank_main(int(options.rank[0]), int(options.rank[1]), options.rank[2], options.quick)
        return
    print(f"{'operation':24}{'ranks':>6}{'acre us':>12}{'gloo us':>12}{'ratio':>8}{'asked':>8}")
    for row in rows_of([int(n) for n in options.ranks.split(",")], options.quick):
        ratio = row["acre"] / row["gloo"]
        print(f"{row['name']:24}{row['ranks']:6}{row['acre']:12.1f}{row['gloo']:12.1f}"
              f"{ratio:8.3f}{row['limit']:8.3f}{'' if ratio <= row['limit'] else '  above'}")


if __name__ == "__main__":
    main()
