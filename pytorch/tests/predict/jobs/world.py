# SPDX-License-Identifier: MIT
"""Two steps of one model, distributed in one of three ways: world.py ddp|fsdp1|fsdp2."""
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
