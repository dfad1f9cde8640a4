# SPDX-License-Identifier: MIT
"""Every operation of the process group against a plain computation; runs on each rank."""
from __future__ import annotations

import itertools

import torch
import torch.distributed as dist

from ranks import Rank

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
# One element, a few, one page, the border of the small way, several pieces, and odd lengths.
COUNTS = [1, 7, 1024, 8191, 8193, 300_001]


def content(rank: int, count: int, dtype: torch.dtype, salt: int = 0) -> torch.Tensor:
    """Values that a rank contributes; small integers, so that sums are exact."""
    values = (torch.arange(count, dtype=torch.int64) * 7 + rank * 13 + salt) % 5
    if dtype == torch.bool:
        return values > 2
    return values.to(dtype)


def expected(op, size: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """The reduction of all ranks' contents, computed here."""
    result = content(0, count, dtype)
    for rank in range(1, size):
        other = content(rank, count, dtype)
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            result = result | other if dtype == torch.bool else result + other
        elif op == dist.ReduceOp.PRODUCT:
            result = result & other if dtype == torch.bool else result * other
        elif op == dist.ReduceOp.MIN:
            result = torch.minimum(result, other)
        elif op == dist.ReduceOp.MAX:
            result = torch.maximum(result, other)
        elif op == dist.ReduceOp.BAND:
            result = result & other
        elif op == dist.ReduceOp.BOR:
            result = result | other
        else:
            result = result ^ other
    if op != dist.ReduceOp.AVG:
        return result
    if dtype in COMPLEX:  # each part is divided, as if the tensor were twice as long
        return torch.view_as_complex(torch.view_as_real(result) / size)
    return result / size


def equal(a: torch.Tensor, b: torch.Tensor, what: object) -> None:
    a = a.cpu()
    assert a.dtype == b.dtype and a.shape == b.shape, (what, a.dtype, b.dtype, a.shape, b.shape)
    assert torch.equal(a, b), (what, a.flatten()[:8], b.flatten()[:8])


def reductions(dtype: torch.dtype) -> list:
    basic = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT]
    order = [dist.ReduceOp.MIN, dist.ReduceOp.MAX]
    bits = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
    if dtype in COMPLEX:
        return [dist.ReduceOp.SUM, dist.ReduceOp.AVG]
    if dtype in FLOATS:
        return basic + order + [dist.ReduceOp.AVG]
    return basic + order + bits


class Check:
    """One group, on one device."""

    def __init__(self, group, device: str) -> None:
        self.group = group
        self.device = device
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.ranks = dist.get_process_group_ranks(group)

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device)

    def mine(self, count: int, dtype=torch.float32, salt: int = 0) -> torch.Tensor:
        return self.put(content(self.rank, count, dtype, salt))

    def all_reduce(self) -> None:
        types = FLOATS + INTEGERS + COMPLEX + [torch.bool]
        for dtype, count in itertools.product(types, COUNTS):
            ops = reductions(dtype) if count in (7, 8193) else [dist.ReduceOp.SUM]
            for op in ops:
                tensor = self.mine(count, dtype)
                dist.all_reduce(tensor, op, group=self.group)
                equal(tensor, expected(op, self.size, count, dtype), (dtype, count, op))

    def two_level(self) -> None:
        """Sizes and operations that also reach ranks on other hosts."""
        for dtype, count in itertools.product([torch.float32, torch.int64], (1, 8193, 300_001)):
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
                tensor = self.mine(count, dtype)
                dist.all_reduce(tensor, op, group=self.group)
                equal(tensor, expected(op, self.size, count, dtype), (dtype, count, op))
        tensor = self.mine(100)
        dist.all_reduce(tensor, dist.ReduceOp.AVG, group=self.group)
        equal(tensor, expected(dist.ReduceOp.AVG, self.size, 100, torch.float32), "average")

    def all_reduce_views(self) -> None:
        """Tensors with gaps, and empty ones."""
        base = self.put(content(self.rank, 600, torch.float32).reshape(20, 30))
        tensor = base.t()[::2]
        before = base.clone()
        dist.all_reduce(tensor, group=self.group)
        whole = expected(dist.ReduceOp.SUM, self.size, 600, torch.float32).reshape(20, 30)
        equal(tensor.contiguous(), whole.t()[::2].contiguous(), "view")
        equal(base.t()[1::2].contiguous(), before.cpu().t()[1::2].contiguous(), "gaps")
        dist.all_reduce(self.put(torch.empty(0)), group=self.group)

    def coalesced(self) -> None:
        tensors = [self.mine(count) for count in (3, 5000, 9)]
        dist.all_reduce_coalesced(tensors, group=self.group)
        for tensor in tensors:
            equal(tensor, expected(dist.ReduceOp.SUM, self.size, tensor.numel(), torch.float32),
                  "coalesced")
        outs = [[self.put(torch.empty(3)), self.put(torch.empty(50))] for _ in self.ranks]
        dist.all_gather_coalesced(outs, [self.mine(3), self.mine(50)], group=self.group)
        for rank, out in enumerate(outs):
            equal(out[0], content(rank, 3, torch.float32), "gather coalesced")
            equal(out[1], content(rank, 50, torch.float32), "gather coalesced")

    def rooted(self) -> None:
        for root, count in itertools.product(range(self.size), (1, 70_000)):
            at = self.ranks[root]
            tensor = self.mine(count)
            dist.broadcast(tensor, at, group=self.group)
            equal(tensor, content(root, count, torch.float32), ("broadcast", root))
            tensor = self.mine(count)
            dist.reduce(tensor, at, group=self.group)
            if self.rank == root:
                equal(tensor, expected(dist.ReduceOp.SUM, self.size, count, torch.float32),
                      ("reduce", root))
            else:
                equal(tensor, content(self.rank, count, torch.float32), ("reduce keeps", root))
            outs = [self.put(torch.empty(count)) for _ in self.ranks]
            dist.gather(self.mine(count), outs if self.rank == root else None, at,
                        group=self.group)
            if self.rank == root:
                for rank, out in enumerate(outs):
                    equal(out, content(rank, count, torch.float32), ("gather", root))
            ins = [self.mine(count, salt=rank) for rank in range(self.size)]
            out = self.put(torch.empty(count))
            dist.scatter(out, ins if self.rank == root else None, at, group=self.group)
            equal(out, content(root, count, torch.float32, self.rank), ("scatter", root))

    def gathers(self) -> None:
        for dtype, count in itertools.product([torch.float32, torch.int8, torch.bool],
                                              (1, 5, 100_003)):
            outs = [self.put(torch.empty(count, dtype=dtype)) for _ in self.ranks]
            dist.all_gather(outs, self.mine(count, dtype), group=self.group)
            whole = self.put(torch.empty(count * self.size, dtype=dtype))
            dist.all_gather_into_tensor(whole, self.mine(count, dtype), group=self.group)
            for rank, out in enumerate(outs):
                equal(out, content(rank, count, dtype), ("all_gather", dtype))
                equal(whole[rank * count:(rank + 1) * count], content(rank, count, dtype),
                      ("into_tensor", dtype))

    def reduce_scatters(self) -> None:
        for dtype, count in itertools.product([torch.float32, torch.bfloat16, torch.int64],
                                              (1, 9, 50_001)):
            whole = expected(dist.ReduceOp.SUM, self.size, count * self.size, dtype)
            part = whole[self.rank * count:(self.rank + 1) * count]
            source = self.mine(count * self.size, dtype)
            out = self.put(torch.empty(count, dtype=dtype))
            dist.reduce_scatter(out, list(source.chunk(self.size)), group=self.group)
            equal(out, part, ("reduce_scatter", dtype))
            out = self.put(torch.empty(count, dtype=dtype))
            dist.reduce_scatter_tensor(out, source, group=self.group)
            equal(out, part, ("reduce_scatter_tensor", dtype))
            out = source.chunk(self.size)[self.rank]
            dist.reduce_scatter_tensor(out, source, group=self.group)
            equal(out, part, ("reduce_scatter_tensor in place", dtype))

    def all_to_alls(self) -> None:
        for count in (1, 40_001):
            ins = [self.mine(count, salt=rank) for rank in range(self.size)]
            outs = [self.put(torch.empty(count)) for _ in self.ranks]
            dist.all_to_all(outs, ins, group=self.group)
            single = self.put(torch.empty(count * self.size))
            dist.all_to_all_single(single, torch.cat(ins), group=self.group)
            for rank, out in enumerate(outs):
                equal(out, content(rank, count, torch.float32, self.rank), "all_to_all")
                equal(single[rank * count:(rank + 1) * count],
                      content(rank, count, torch.float32, self.rank), "all_to_all_single")
        # Rank i sends (i + 2 * j) % 5 rows of 3 to rank j; some parts are empty.
        rows = [[(i + 2 * j) % 5 for j in range(self.size)] for i in range(self.size)]
        ins = self.put(torch.cat([content(self.rank, 3 * n, torch.int32, j).reshape(n, 3)
                                  for j, n in enumerate(rows[self.rank])]))
        takes = [rows[i][self.rank] for i in range(self.size)]
        out = self.put(torch.empty(sum(takes), 3, dtype=torch.int32))
        dist.all_to_all_single(out, ins, takes, rows[self.rank], group=self.group)
        wanted = torch.cat([content(i, 3 * n, torch.int32, self.rank).reshape(n, 3)
                            for i, n in enumerate(takes)])
        equal(out, wanted, "splits")

    def messages(self) -> None:
        if self.size == 1:
            return
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for count in (1, 1000, 400_000):  # the last is larger than the ring between two ranks
            send = dist.isend(self.mine(count), self.ranks[after], group=self.group, tag=3)
            tensor = self.put(torch.empty(count))
            dist.recv(tensor, self.ranks[before], group=self.group, tag=3)
            send.wait()
            equal(tensor, content(before, count, torch.float32), ("recv", count))
        # Messages with other tags may be received in another order.
        sends = [dist.isend(self.mine(10, salt=tag), self.ranks[after], group=self.group, tag=tag)
                 for tag in range(4)]
        for tag in (2, 0, 3, 1):
            tensor = self.put(torch.empty(10))
            dist.recv(tensor, self.ranks[before], group=self.group, tag=tag)
            equal(tensor, content(before, 10, torch.float32, tag), ("tag", tag))
        for send in sends:
            send.wait()
        # From anybody.
        if self.rank == 0:
            seen = set()
            for _ in range(self.size - 1):
                tensor = self.put(torch.empty(6))
                source = dist.recv(tensor, group=self.group)
                seen.add(source)
                equal(tensor, content(self.ranks.index(source), 6, torch.float32), "any")
            assert seen == set(self.ranks[1:])
        else:
            dist.send(self.mine(6), self.ranks[0], group=self.group)
        dist.barrier(group=self.group)  # else a message of the batch could be taken by "anybody"
        # A batch in which every rank sends before it receives, larger than the rings.
        out = self.put(torch.empty(200_000))
        batch = [dist.P2POp(dist.isend, self.mine(200_000), self.ranks[after], self.group),
                 dist.P2POp(dist.irecv, out, self.ranks[before], self.group)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        equal(out, content(before, 200_000, torch.float32), "batch")

    def in_flight(self) -> None:
        """Several asynchronous operations, waited for in another order, and futures."""
        tensors = [self.mine(1000 + 40_000 * (i % 2), salt=i) for i in range(8)]
        works = [dist.all_reduce(tensor, group=self.group, async_op=True) for tensor in tensors]
        barrier = dist.barrier(group=self.group, async_op=True)
        doubled = works[3].get_future().then(lambda future: future.value()[0] * 2)
        for work in reversed(works):
            work.wait()
            assert work.is_completed()
        barrier.wait()
        for i, tensor in enumerate(tensors):
            wanted = sum(content(rank, tensor.numel(), torch.float32, i)
                         for rank in range(self.size))
            equal(tensor, wanted, ("in flight", i))
            if i == 3:
                equal(doubled.wait(), wanted * 2, "future")

    def objects(self) -> None:
        outs = [None] * self.size
        dist.all_gather_object(outs, {"rank": self.rank, "text": "x" * 1000}, group=self.group)
        assert [out["rank"] for out in outs] == list(range(self.size))
        values = [self.rank, "a"] if self.rank == self.size - 1 else [None, None]
        dist.broadcast_object_list(values, self.ranks[-1], group=self.group)
        assert values == [self.size - 1, "a"]

    def refusals(self) -> None:
        """What is refused is refused on each rank alone, and the group goes on."""
        refused(lambda: dist.all_reduce(self.mine(4), dist._make_nccl_premul_sum(2.0),
                                        group=self.group), "PREMUL_SUM")
        refused(lambda: dist.all_reduce(self.mine(4), dist.ReduceOp.BAND, group=self.group),
                "BAND")
        refused(lambda: dist.all_reduce(self.mine(4, torch.int32), dist.ReduceOp.AVG,
                                        group=self.group), "AVG")
        refused(lambda: dist.all_reduce(torch.eye(3).to_sparse(), group=self.group), "Sparse")
        refused(lambda: dist.all_gather_into_tensor(self.mine(self.size * 4 + 1), self.mine(4),
                                                    group=self.group), "does not hold")
        dist.barrier(group=self.group)

    def all(self) -> None:
        for part in (self.all_reduce, self.all_reduce_views, self.coalesced, self.rooted,
                     self.gathers, self.reduce_scatters, self.all_to_alls, self.messages,
                     self.in_flight, self.objects, self.refusals):
            part()


def refused(function, text: str) -> None:
    try:
        function()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        assert text in str(error), (text, str(error))
        return
    raise AssertionError(f"not refused: {text}")


def everything(rank: Rank, device: str) -> None:
    rank.init("acre")
    for size in range(rank.size, 0, -1):
        members = list(range(rank.size - size, rank.size))
        group = dist.new_group(members)
        if rank.rank in members:
            Check(group, device).all()
    dist.barrier()


def on_cpu(rank: Rank) -> None:
    everything(rank, "cpu")


def on_acre(rank: Rank) -> None:
    everything(rank, "acre")
