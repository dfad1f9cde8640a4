# SPDX-License-Identifier: MIT
"""What a user's program does, from init_process_group() on; started by torchrun or acre run."""
from __future__ import annotations

import sys

import torch
import torch.distributed as dist
import torch_acre  # noqa: F401
from torch.nn.parallel import DistributedDataParallel


def main(backend: str) -> None:
    """One line of change from gloo: the name of the backend."""
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    for device in ("cpu", "acre"):
        tensor = torch.full((1000,), float(rank + 1), device=device)
        dist.all_reduce(tensor)
        assert tensor.cpu().eq(size * (size + 1) / 2).all(), (device, tensor)
        torch.manual_seed(1)
        model = DistributedDataParallel(torch.nn.Linear(4, 2).to(device))
        model(torch.full((3, 4), float(rank), device=device)).sum().backward()
        mean = 3 * sum(range(size)) / size
        assert model.module.weight.grad.cpu().eq(mean).all(), model.module.weight.grad
    dist.barrier()
    print(f"rank {rank} of {size} done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
