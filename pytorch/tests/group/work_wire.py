# SPDX-License-Identifier: MIT
"""A rank that mpirun has started: the first half of the ranks is one host, the rest another."""
from __future__ import annotations

import os
import pathlib
import sys

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
SIZE = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ["PMI_SIZE"])
os.environ["ACRE_SYMM_HOST"] = f"half-{RANK * 2 // SIZE}"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_acre  # noqa: E402

from ranks import Rank  # noqa: E402
from work_operations import Check  # noqa: E402


def main() -> None:
    torch.set_num_threads(1)
    Rank(RANK, SIZE, pathlib.Path(sys.argv[1])).init("acre")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert isinstance(backend, torch_acre._C.ProcessGroupHosts), type(backend)
    is_first = RANK in (0, SIZE // 2)
    assert isinstance(backend.leaders, torch_acre._C.HostBridge) == is_first, backend.leaders
    for device in ("cpu", "acre"):
        check = Check(dist.group.WORLD, device)
        for part in (check.two_level, check.all_reduce, check.rooted, check.in_flight):
            part()
    # Several pieces, and a host receives its data once: half as a part, half as a result.
    tensor = torch.ones(3 << 20)
    before = backend.leaders.received_bytes if is_first else 0
    dist.all_reduce(tensor)
    assert tensor.eq(SIZE).all()
    if is_first:
        assert backend.leaders.received_bytes - before == tensor.nbytes
    dist.barrier()
    print("done", flush=True)
    dist.destroy_process_group()


main()
