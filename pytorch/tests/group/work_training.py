# SPDX-License-Identifier: MIT
"""Small real trainings over process group "acre" and over gloo; runs on each rank.

A training gives its losses and a digest of its parameters. With two ranks the sum of two values
does not depend on their order, so the bits of acre and of gloo are equal. With more ranks gloo adds
in another order than acre (which adds rank 0, 1, 2, ...), so results agree within the rounding
of float32. Two runs over acre always agree bit for bit.
"""
from __future__ import annotations

import pathlib

import torch
import torch.distributed as dist
from torch import nn

from ranks import Rank

STEPS = 6


def data(rank: int, step: int, rows: int = 8, width: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(1000 * rank + step)
    inputs = torch.randn(rows, width, generator=source)
    return inputs, inputs.sum(1, keepdim=True).sin()


def perceptron(seed: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(),
                         nn.Linear(32, 1))


class Branches(nn.Module):
    """In each step one of two branches stays unused."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.trunk, self.left, self.right = (nn.Linear(12, 12), nn.Linear(12, 1),
                                             nn.Linear(12, 1))

    def forward(self, inputs: torch.Tensor, step: int) -> torch.Tensor:
        return (self.left if step % 2 else self.right)(self.trunk(inputs).relu())


class Run:
    """One way of training, over one group and on one device."""

    def __init__(self, group, device: str) -> None:
        self.group, self.device = group, device
        self.rank = dist.get_rank(group)

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = data(self.rank, step)
        return inputs.to(self.device), targets.to(self.device)

    def losses(self, model: nn.Module, optimizer, forward=None) -> list[torch.Tensor]:
        out = []
        for step in range(STEPS):
            inputs, targets = self.batch(step)
            optimizer.zero_grad()
            result = model(inputs) if forward is None else forward(inputs, step)
            loss = ((result - targets) ** 2).mean()
            loss.backward()
            optimizer.step()
            out.append(loss.detach().cpu())
        return out + [parameter.detach().cpu().clone() for parameter in model.parameters()]

    def ddp(self) -> list[torch.Tensor]:
        model = nn.parallel.DistributedDataParallel(
            perceptron().to(self.device), process_group=self.group, bucket_cap_mb=0.002)
        return self.losses(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))

    def ddp_unused(self) -> list[torch.Tensor]:
        model = nn.parallel.DistributedDataParallel(
            Branches().to(self.device), process_group=self.group, find_unused_parameters=True)
        return self.losses(model, torch.optim.Adam(model.parameters(), 0.01), model)

    def ddp_no_sync(self) -> list[torch.Tensor]:
        """Gradients of two batches, exchanged once."""
        model = nn.parallel.DistributedDataParallel(perceptron().to(self.device),
                                                    process_group=self.group)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        out = []
        for step in range(STEPS):
            inputs, targets = self.batch(step)
            with model.no_sync():
                ((model(inputs[:4]) - targets[:4]) ** 2).mean().backward()
            loss = ((model(inputs[4:]) - targets[4:]) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            out.append(loss.detach().cpu())
        return out + [parameter.detach().cpu().clone() for parameter in model.parameters()]

    def ddp_hook(self) -> list[torch.Tensor]:
        """Gradients travel as float16."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        model = nn.parallel.DistributedDataParallel(perceptron().to(self.device),
                                                    process_group=self.group)
        model.register_comm_hook(self.group, default_hooks.fp16_compress_hook)
        return self.losses(model, torch.optim.SGD(model.parameters(), 0.1))

    def ddp_buffers(self) -> list[torch.Tensor]:
        """Buffers come from rank 0; samples are divided by DistributedSampler."""
        torch.manual_seed(7)
        network = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))
        model = nn.parallel.DistributedDataParallel(network.to(self.device),
                                                    process_group=self.group)
        inputs, targets = data(99, 0, rows=64)
        sampler = torch.utils.data.DistributedSampler(
            range(64), dist.get_world_size(self.group), self.rank, seed=11)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        out = []
        for epoch in range(3):
            sampler.set_epoch(epoch)
            chosen = torch.tensor(list(sampler))
            loss = ((model(inputs[chosen].to(self.device)) -
                     targets[chosen].to(self.device)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.detach().cpu())
        return out + [buffer.cpu().clone() for buffer in model.buffers()]

    def pipeline(self) -> list[torch.Tensor]:
        """Each rank holds one layer; activations and gradients travel by send and recv."""
        size = dist.get_world_size(self.group)
        torch.manual_seed(20 + self.rank)
        layer = nn.Linear(12, 12).to(self.device)
        optimizer = torch.optim.SGD(layer.parameters(), 0.05)
        ranks = dist.get_process_group_ranks(self.group)
        out = []
        for step in range(STEPS):
            inputs = data(0, step)[0].to(self.device)
            if self.rank > 0:
                dist.recv(inputs, ranks[self.rank - 1], group=self.group)
                inputs.requires_grad_()
            result = layer(inputs).tanh()
            if self.rank + 1 < size:
                dist.send(result.detach(), ranks[self.rank + 1], group=self.group)
                gradient = torch.empty_like(result)
                dist.recv(gradient, ranks[self.rank + 1], group=self.group)
                result.backward(gradient)
            else:
                loss = (result ** 2).mean()
                loss.backward()
                out.append(loss.detach().cpu())
            if self.rank > 0:
                dist.send(inputs.grad, ranks[self.rank - 1], group=self.group)
            optimizer.step()
            optimizer.zero_grad()
        return out + [parameter.detach().cpu().clone() for parameter in layer.parameters()]


class Sharded(Run):
    """What works on a device mesh of the default group."""

    def __init__(self, device: str) -> None:
        super().__init__(dist.group.WORLD, device)
        from torch.distributed.device_mesh import init_device_mesh
        self.mesh = init_device_mesh(device, (dist.get_world_size(),))

    def fsdp(self) -> list[torch.Tensor]:
        from torch.distributed.fsdp import fully_shard
        model = perceptron().to(self.device)
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=self.mesh, reshard_after_forward=True)
        fully_shard(model, mesh=self.mesh)
        values = self.losses(model, torch.optim.AdamW(model.parameters(), 0.01))
        return values[:STEPS] + [parameter.full_tensor().detach().cpu()
                                 for parameter in model.parameters()]

    def tensor_parallel(self) -> list[torch.Tensor]:
        from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                       parallelize_module)
        torch.manual_seed(9)
        model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1)).to(self.device)
        parallelize_module(model, self.mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        out = []
        for step in range(STEPS):
            inputs, targets = (part.to(self.device) for part in data(0, step))
            loss = ((model(inputs) - targets) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.detach().cpu())
        return out

    def dtensor(self) -> list[torch.Tensor]:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        whole = torch.arange(48, dtype=torch.float32).reshape(8, 6)
        tensor = distribute_tensor(whole.to(self.device), self.mesh, [Shard(0)])
        other = tensor.redistribute(self.mesh, [Shard(1)])
        product = (tensor @ distribute_tensor(whole.t().contiguous().to(self.device), self.mesh,
                                              [Replicate()])).full_tensor()
        return [other.full_tensor().cpu(), product.cpu(), tensor.sum().full_tensor().cpu()]

    def checkpoint(self, folder: str) -> list[torch.Tensor]:
        """Saves a sharded model and loads it into another one."""
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_model_state_dict
        from torch.distributed.fsdp import fully_shard
        model, other = perceptron(3).to(self.device), perceptron(4).to(self.device)
        fully_shard(model, mesh=self.mesh)
        fully_shard(other, mesh=self.mesh)
        dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=folder)
        state = {"model": get_model_state_dict(other)}
        dcp.load(state, checkpoint_id=folder)
        other.load_state_dict(state["model"])
        loaded = [parameter.full_tensor().detach().cpu() for parameter in other.parameters()]
        for a, b in zip(loaded, perceptron(3).parameters()):
            assert torch.equal(a, b.detach())
        return loaded


def compare(name: str, ours: list, theirs: list, is_exact: bool) -> None:
    assert len(ours) == len(theirs), name
    for a, b in zip(ours, theirs):
        if is_exact:
            assert torch.equal(a, b), (name, a, b)
        else:
            # Gradients of the hook are float16, whose rounding is about 1e-3.
            relative, absolute = (5e-3, 5e-4) if name == "ddp_hook" else (2e-5, 2e-6)
            torch.testing.assert_close(a, b, rtol=relative, atol=absolute,
                                       msg=lambda m: f"{name}: {m}")


def groups(rank: Rank, device: str) -> None:
    """Trainings over sub-groups of 2 and all ranks: twice acre, once gloo on the CPU."""
    rank.init("acre")
    for size in sorted({2, rank.size}):
        members = list(range(size))
        acre, gloo = dist.new_group(members), dist.new_group(members, backend="gloo")
        if rank.rank not in members:
            continue
        for name in ("ddp", "ddp_unused", "ddp_no_sync", "ddp_hook", "ddp_buffers", "pipeline"):
            first = getattr(Run(acre, device), name)()
            compare(name + " again", first, getattr(Run(acre, device), name)(), True)
            compare(name, first, getattr(Run(gloo, "cpu"), name)(), size == 2)
    dist.barrier()


def on_cpu(rank: Rank) -> None:
    groups(rank, "cpu")


def on_acre(rank: Rank) -> None:
    groups(rank, "acre")


def sharded(rank: Rank) -> None:
    """FSDP2, tensor parallel layers, DTensor and checkpoints, over acre and over gloo."""
    results = {}
    for key, backend, device in (("acre", "acre", "cpu"), ("device", "acre", "acre"),
                                 ("gloo", "gloo", "cpu")):
        rank.init(backend, name="store " + key)
        run = Sharded(device)
        folder = str(pathlib.Path(rank.folder) / ("checkpoint " + key))
        results[key] = {"fsdp": run.fsdp(), "tensor_parallel": run.tensor_parallel(),
                        "dtensor": run.dtensor()}
        # torch.distributed.checkpoint asks the accelerator for its current stream.
        if hasattr(torch.acre, "current_stream"):
            results[key]["checkpoint"] = run.checkpoint(folder)
        dist.destroy_process_group()
    for name, theirs in results["gloo"].items():
        compare(name, results["acre"][name], theirs, rank.size == 2)
        if name in results["device"]:
            compare(name + " on acre", results["device"][name], theirs, rank.size == 2)
