# SPDX-License-Identifier: MIT
"""Process group "acre": collectives of CPU and acre tensors through symmetric memory.

    torch.distributed.init_process_group("acre")

Ranks on one host exchange data in shared memory. Where ranks live on several hosts, gloo carries
what crosses them, and an all-reduce sends the data of a host once. The rest of torch.distributed
(DDP, FSDP2, DTensor, checkpoints, object collectives) works on top without a change.
"""
from __future__ import annotations

import datetime
import os
import pathlib

import torch.distributed as dist

from torch_acre import _C

BACKEND = "acre"


def host_name() -> str:
    """Equal for processes that can share memory: one kernel, network and set of processes.

    ACRE_SYMM_HOST gives this host another name.
    """
    named = os.environ.get("ACRE_SYMM_HOST")
    if named:
        return named
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return " ".join([boot, os.readlink("/proc/self/ns/net"), os.readlink("/proc/self/ns/pid")])


def _hosts(store: dist.Store, rank: int, size: int) -> list[int]:
    """The number of each rank's host; hosts count from 0 in the order of their first ranks."""
    if size == 1:
        return [0]
    store.set(f"acre_host/{rank}", host_name())
    names = [store.get(f"acre_host/{other}").decode() for other in range(size)]
    numbers: dict[str, int] = {}
    for name in names:
        numbers.setdefault(name, len(numbers))
    return [numbers[name] for name in names]


def create_group(store: dist.Store, rank: int, size: int,
                 timeout: datetime.timedelta) -> dist.Backend:
    """Makes the backend object of a process group; called by torch.distributed."""
    hosts = _hosts(store, rank, size)
    mine = [other for other in range(size) if hosts[other] == hosts[rank]]
    if len(mine) == size:
        return _C.ProcessGroupAcre(store, rank, size, timeout)
    if not dist.is_gloo_available():
        raise RuntimeError("Acre: the ranks of this group are on several hosts, and this PyTorch "
                           "has no gloo to carry data between them; use ranks of one host")
    near = _C.ProcessGroupAcre(dist.PrefixStore(f"acre_near/{hosts[rank]}", store),
                               mine.index(rank), len(mine), timeout)
    leaders = None
    if mine[0] == rank:
        leaders = dist.ProcessGroupGloo(dist.PrefixStore("acre_leaders", store), hosts[rank],
                                        max(hosts) + 1, timeout)
    far = dist.ProcessGroupGloo(dist.PrefixStore("acre_far", store), rank, size, timeout)
    return _C.ProcessGroupHosts(hosts, rank, timeout, near, leaders, far)


def register(device: str) -> None:
    """Tells torch.distributed about the backend; device is the name of Acre's device."""
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, create_group, devices=["cpu", device])
