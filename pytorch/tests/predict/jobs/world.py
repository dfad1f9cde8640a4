# SPDX-License-Identifier: MIT
"""Two steps of one model, distributed in one of several ways:
world.py ddp|buckets|fsdp1|fsdp2|wrapped."""
import functools
import sys

import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def wrapped(net):
    """FSDP with most of its settings, and activation checkpoints."""
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as checkpoints
    from torch.distributed.fsdp import (BackwardPrefetch, FullyShardedDataParallel,
                                        MixedPrecision, ShardingStrategy)
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    net = FullyShardedDataParallel(
        net, auto_wrap_policy=functools.partial(transformer_auto_wrap_policy,
                                                transformer_layer_cls={Block}),
        mixed_precision=MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16),
        sharding_strategy=ShardingStrategy.FULL_SHARD, forward_prefetch=True,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=True,
        use_orig_params=True, device_id=torch.cuda.current_device())
    checkpoints.apply_activation_checkpointing(
        net, checkpoint_wrapper_fn=checkpoints.checkpoint_wrapper,
        check_fn=lambda module: isinstance(module, Block))
    return net


def main(kind):
    dist.init_process_group("nccl")
    torch.cuda.set_device(0)
    net = nn.Sequential(*[Block(512) for _ in range(4)])
    if kind == "ddp":
        net = nn.parallel.DistributedDataParallel(net.cuda(), device_ids=[0])
    elif kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy
        net = FullyShardedDataParallel(net, device_id=0,
                                       auto_wrap_policy=ModuleWrapPolicy({Block}))
    elif kind == "buckets":
        net.append(nn.BatchNorm1d(512))
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net).cuda()
        net = nn.parallel.DistributedDataParallel(net, device_ids=[0], find_unused_parameters=True,
                                                  gradient_as_bucket_view=True)
        with net.no_sync():
            net(torch.randn(8, 512, device="cuda")).mean().backward()
    elif kind == "wrapped":
        net = wrapped(net)
    else:
        from torch.distributed.fsdp import fully_shard
        net = net.cuda()
        for block in net:
            fully_shard(block)
        fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        net(torch.randn(8, 512, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        total = torch.zeros(1, device="cuda")
        dist.all_reduce(total)
        dist.barrier()
    dist.destroy_process_group()


main(sys.argv[1])
