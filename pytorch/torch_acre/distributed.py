# SPDX-License-Identifier: MIT
"""Process group "acre": collectives of CPU and acre tensors through symmetric memory.

    torch.distributed.init_process_group("acre")

Ranks on one host exchange data in shared memory. Where ranks live on several hosts, Acre's wire or
gloo carries what crosses them, and an all-reduce sends the data of a host once. The rest of
torch.distributed (DDP, FSDP2, DTensor, checkpoints, object collectives) works on top without a
change.
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
    try:
        store.set(f"acre_host/{rank}", host_name())
        names = [store.get(f"acre_host/{other}").decode() for other in range(size)]
    except (dist.DistStoreError, dist.DistNetworkError) as error:
        raise dist.DistBackendError(
            f"Acre: process group \"{BACKEND}\", rank {rank} of {size}: the store {store} does not "
            f"answer ({str(error).splitlines()[0]}); see whether all ranks were started and the "
            "process that serves the store still runs, then make a new group") from error
    numbers: dict[str, int] = {}
    for name in names:
        numbers.setdefault(name, len(numbers))
    return [numbers[name] for name in names]


def _leaders(store: dist.Store, host: int, count: int, timeout: datetime.timedelta) -> dist.Backend:
    """What joins the first ranks of the hosts: Acre's wire if all have one, else gloo.

    A wire is there when ACRE_SYMM_WIRE names one, or when mpirun started the ranks. One that was
    named and does not work is an error; one that is only supposed to be there gives way to gloo.
    """
    named = os.environ.get("ACRE_SYMM_WIRE", "")
    is_started_by_mpi = any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))
    wishes = named != "none" if named else is_started_by_mpi

    def all_say(step: str, is_true: bool) -> bool:
        store.set(f"acre_{step}/{host}", str(int(is_true)))
        return all(store.get(f"acre_{step}/{other}") == b"1" for other in range(count))

    if all_say("wire", wishes):
        bridge, problem = None, None
        try:
            bridge = _C.HostBridge(dist.PrefixStore("acre_bridge", store), host, count, timeout)
        except RuntimeError as error:
            problem = error
        if all_say("bridge", bridge is not None):
            return bridge
        if problem and named:
            raise problem
    return dist.ProcessGroupGloo(dist.PrefixStore("acre_leaders", store), host, count, timeout)


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
        leaders = _leaders(store, hosts[rank], max(hosts) + 1, timeout)
    far = dist.ProcessGroupGloo(dist.PrefixStore("acre_far", store), rank, size, timeout)
    return _C.ProcessGroupHosts(hosts, rank, timeout, near, leaders, far)


def register(device: str) -> None:
    """Tells torch.distributed about the backend; device is the name of Acre's device."""
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, create_group, devices=["cpu", device])
    _devices_check(["cpu", device])


def _devices_check(served: list[str]) -> None:
    """Lets init_process_group() and new_group() refuse "cuda:acre" and the like.

    A backend is not told for which devices it is made, so the table of devices is looked at.
    """
    table = dist.distributed_c10d.BackendConfig
    fill = table.__init__

    def fill_and_check(self, backend) -> None:
        fill(self, backend)
        wrong = [name for name, value in self.device_backend_map.items()
                 if value == BACKEND and name not in served]
        if wrong:
            raise ValueError(f"Acre: \"{backend}\": process group \"{BACKEND}\" serves tensors on "
                             f"{' and '.join(served)}, not on {', '.join(wrong)}; name another "
                             f"backend for {', '.join(wrong)}")

    table.__init__ = fill_and_check
