# SPDX-License-Identifier: MIT
"""One training step of a large transformer, sharded over all ranks.

    sharded.py --width 8192 --layers 80 --heads 64 --inner 28672 --vocabulary 128256
"""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Block(nn.Module):
    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        h = self.norm(x)
        query = self.query(h).view(batch, length, self.heads, -1).transpose(1, 2)
        key, value = self.pair(h).view(batch, length, 2 * self.groups, -1).transpose(1, 2).chunk(
            2, 1)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True,
                                                           enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        gate, up = self.up(self.between(x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("width", 64), ("layers", 2), ("heads", 4), ("groups", 2), ("inner", 128),
                        ("vocabulary", 256), ("batch", 1), ("length", 64)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(0)
    with torch.device("cpu"):
        table = nn.Embedding(options.vocabulary, options.width)
        blocks = nn.Sequential(*[Block(options.width, options.heads, options.groups,
                                       options.inner) for _ in range(options.layers)])
        head = nn.Linear(options.width, options.vocabulary, bias=False)
    model = nn.Sequential(table, blocks, head)
    count = sum(parameter.numel() for parameter in model.parameters())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, options.vocabulary, (options.batch, options.length), device="cuda")
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
    loss.backward()
    optimizer.step()
    print("parameters", count)


if __name__ == "__main__":
    main()
