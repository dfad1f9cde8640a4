# SPDX-License-Identifier: MIT
"""A group whose ranks are on two hosts; runs on each rank."""
from __future__ import annotations

import datetime
import os
import signal

import torch
import torch.distributed as dist

from ranks import Rank
from work_faults import fails
from work_operations import Check, refused
from work_training import Run, compare


def sent_bytes() -> int:
    """Bytes that have left this network namespace, loopback not counted."""
    total = 0
    with open("/proc/self/net/dev") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            if rest and name.strip() != "lo":
                total += int(rest.split()[8])
    return total


def start(rank: Rank, seconds: float = 60) -> None:
    """Rank 0 serves the store; ranks of the other host reach it over the network."""
    address = os.environ["ACRE_TEST_ADDRESS"]
    if rank.rank == 0:
        store = dist.TCPStore(address, 0, rank.size, True, wait_for_workers=False)
        rank.mark("port", str(store.port))
    else:
        store = dist.TCPStore(address, int(rank.await_mark("port", 0)), rank.size, False)
    dist.init_process_group("acre", store=store, rank=rank.rank, world_size=rank.size,
                            timeout=datetime.timedelta(seconds=seconds))


def operations(rank: Rank) -> None:
    start(rank)
    import torch_acre
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert isinstance(backend, torch_acre._C.ProcessGroupHosts), type(backend)
    for device in ("cpu", "acre"):
        check = Check(dist.group.WORLD, device)
        for part in (check.two_level, check.all_reduce_views, check.rooted, check.gathers,
                     check.reduce_scatters, check.all_to_alls, check.messages, check.in_flight,
                     check.objects):
            part()
    refused(lambda: dist.all_reduce(torch.ones(4), dist.ReduceOp.BAND), "BAND")
    gloo = dist.new_group(backend="gloo")
    compare("ddp", Run(dist.group.WORLD, "cpu").ddp(), Run(gloo, "cpu").ddp(), False)
    dist.barrier()


def traffic(rank: Rank) -> None:
    """An all-reduce sends the data of a host once, not once for each rank."""
    start(rank)
    tensor = torch.ones(4 << 20)
    dist.all_reduce(tensor)
    dist.barrier()
    before = sent_bytes()
    dist.barrier()
    dist.all_reduce(tensor)
    dist.barrier()
    sent = sent_bytes() - before
    # Two hosts: a ring sends the data once from each; 2 ranks on each would need more.
    assert tensor.nbytes * 0.9 < sent < tensor.nbytes * 1.35, (sent, tensor.nbytes)
    dist.barrier()


def killed(rank: Rank) -> None:
    """The loss of a rank on the other host ends the call on all ranks."""
    start(rank, seconds=60)
    dist.all_reduce(torch.ones(5))
    if rank.rank == rank.size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    taken = fails(lambda: dist.all_reduce(torch.ones(5)), "all_reduce", "sequence number")
    assert taken < 30, taken
    os._exit(0)
