# SPDX-License-Identifier: MIT
"""Process group "acre": collectives of CPU and acre tensors through symmetric memory.

    torch.distributed.init_process_group("acre")

Ranks on one host exchange data in shared memory. The rest of torch.distributed (DDP, FSDP2,
DTensor, checkpoints, object collectives) works on top without a change.
"""
from __future__ import annotations

import datetime

import torch
import torch.distributed as dist

from torch_acre import _C

BACKEND = "acre"


def create_group(store: dist.Store, rank: int, size: int,
                 timeout: datetime.timedelta) -> "_C.ProcessGroupAcre":
    """Makes the backend object of a process group; called by torch.distributed."""
    return _C.ProcessGroupAcre(store, rank, size, timeout)


def register(device: str) -> None:
    """Tells torch.distributed about the backend; device is the name of Acre's device."""
    if not dist.is_available() or BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, create_group, devices=["cpu", device])
