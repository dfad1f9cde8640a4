# SPDX-License-Identifier: MIT
"""A made-up world: process groups whose other ranks do not exist.

Collectives return at once and leave memory as it is. What this rank allocates around them,
DistributedDataParallel's buckets and FSDP's shards, is allocated as usual. NCCL's own
buffers lie outside the allocator and are a line of their own.
"""
import os

import torch

# NCCL's buffers for each peer of a ring or tree, per communicator: about this many bytes.
_NCCL_CHANNEL_BYTES = 4 << 20
_NCCL_CHANNELS = 32


def nccl_bytes(world):
    """An estimate of what NCCL holds outside the allocator."""
    return 2 * _NCCL_CHANNELS * _NCCL_CHANNEL_BYTES if world > 1 else 0


def install(world, rank, remarks):
    """torch.distributed with a world of a given size."""
    if world > 1:  # as a launcher says it
        for name, value in (("RANK", rank), ("LOCAL_RANK", 0), ("WORLD_SIZE", world),
                            ("LOCAL_WORLD_SIZE", min(world, 8)), ("MASTER_ADDR", "127.0.0.1"),
                            ("MASTER_PORT", 29500)):
            os.environ.setdefault(name, str(value))
    _install_spawn(rank, remarks)
    if not torch.distributed.is_available():
        return
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    start = dist.init_process_group

    def init(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None,
             **rest):
        count = int(os.environ.get("WORLD_SIZE", 1)) if world_size in (-1, None) else world_size
        count = max(count, 1)
        place = int(os.environ.get("RANK", 0)) if rank in (-1, None) else rank
        text = (f"torch.distributed: a world of {count}, seen from rank {place}; "
                "collectives move nothing")
        if text not in remarks:
            remarks.append(text)
        return start(backend="fake", store=FakeStore(), rank=place, world_size=count)

    dist.init_process_group = dist.distributed_c10d.init_process_group = init
    group = dist.new_group

    def new_group(ranks=None, timeout=None, backend=None, *args, **kwargs):
        return group(ranks, timeout, "fake", *args, **kwargs)

    dist.new_group = dist.distributed_c10d.new_group = new_group
    _install_parallel()
    dist.is_nccl_available = lambda: True
    dist.distributed_c10d.is_nccl_available = lambda: True


def _install_spawn(rank, remarks):
    """torch.multiprocessing.spawn: of all processes one runs, in this one."""
    def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
        text = (f"torch.multiprocessing.spawn: of {nprocs} processes the one of rank "
                f"{rank % nprocs} is run")
        if nprocs > 1 and text not in remarks:
            remarks.append(text)
        fn(rank % nprocs, *args)
        return None if join else _Joined()

    import torch.multiprocessing
    torch.multiprocessing.spawn = spawn
    torch.multiprocessing.start_processes = spawn


class _Joined:
    """Processes that have ended."""

    processes = ()

    def join(self, timeout=None, grace_period=None):
        return True


def _install_parallel():
    """DistributedDataParallel whose buckets are reduced by nobody."""
    kind = torch.nn.parallel.DistributedDataParallel
    make = kind.__init__

    def reduce(_, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def init(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self.register_comm_hook(None, reduce)
        self.logger = _Logger(self.logger)

    kind.__init__ = init


class _Logger:
    """The logger of DistributedDataParallel, without the timers of a GPU."""

    def __init__(self, logger):
        self._logger = logger

    def set_runtime_stats_and_log(self):
        """Nothing was timed."""

    def __getattr__(self, name):
        return getattr(self._logger, name)
