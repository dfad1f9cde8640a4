# SPDX-License-Identifier: MIT
"""torch.distributed._symmetric_memory against plain computations; runs on each rank."""
from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

from ranks import Rank
from work_faults import fails
from work_operations import refused

ops = torch.ops.symm_mem


def content(rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return ((torch.arange(count) * 3 + 5 * rank) % 7).to(dtype)


def equal(a: torch.Tensor, b: torch.Tensor, what: object) -> None:
    assert torch.equal(a.cpu(), b), (what, a.cpu().flatten()[:8], b.flatten()[:8])


class Check:
    """One group, on one device."""

    def __init__(self, group, device: str) -> None:
        self.group, self.device = group, torch.device(device)
        self.name = group.group_name
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def symmetric(self, values: torch.Tensor) -> torch.Tensor:
        tensor = symm_mem.empty(*values.shape, dtype=values.dtype, device=self.device)
        tensor.copy_(values)
        symm_mem.rendezvous(tensor, self.name)
        return tensor

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(*shape, dtype=dtype, device=self.device)

    def total(self, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return sum(content(rank, count, dtype) for rank in range(self.size))

    def meet(self) -> None:
        dist.barrier(group=self.group)

    def handle(self) -> None:
        tensor = self.symmetric(content(self.rank, 100))
        handle = symm_mem.rendezvous(tensor, self.name)
        assert symm_mem.is_symm_mem_tensor(tensor)
        assert not symm_mem.is_symm_mem_tensor(self.empty(4))
        assert (handle.rank, handle.world_size) == (self.rank, self.size)
        assert handle.buffer_size == 400 and handle.offset == 0
        assert handle.device.type == self.device.type
        assert len(handle.buffer_ptrs) == len(handle.signal_pad_ptrs) == self.size
        assert handle.buffer_ptrs[self.rank] == tensor.data_ptr()
        assert handle.buffer_ptrs_dev and handle.signal_pad_ptrs_dev
        self.meet()
        for rank in range(self.size):
            equal(handle.get_buffer(rank, (100,), torch.float32), content(rank, 100), "buffer")
            equal(handle.get_remote_tensor(rank, (10, 10), torch.float32),
                  content(rank, 100).reshape(10, 10), "remote")
            equal(handle.get_buffer(rank, (50,), torch.float32, 50), content(rank, 100)[50:],
                  "second half")
        refused(lambda: handle.get_buffer(self.size, (1,), torch.float32), "")
        refused(lambda: handle.get_buffer(0, (101,), torch.float32), "")
        for rank, remote in enumerate(ops.get_remote_tensors(tensor, self.name)):
            equal(remote, content(rank, 100), "get_remote_tensors")
        self.meet()

    def signals(self) -> None:
        tensor = self.symmetric(content(self.rank, 16))
        handle = symm_mem.rendezvous(tensor, self.name)
        assert handle.get_signal_pad(self.rank).numel() * 4 == symm_mem.get_signal_pad_size()
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for channel in (0, 3):
            handle.get_buffer(after, (16,), torch.float32).copy_(content(self.rank + 9, 16))
            handle.put_signal(dst_rank=after, channel=channel)
            handle.wait_signal(src_rank=before, channel=channel)
            equal(tensor, content(before + 9, 16), "written before the signal")
            handle.barrier(channel=channel)
        equal(handle.get_signal_pad(self.rank), torch.zeros(handle.get_signal_pad(0).numel(),
                                                            dtype=torch.uint32), "pads at rest")
        refused(lambda: handle.barrier(channel=1 << 20), "")
        if self.size > 1:
            fails(lambda: handle.wait_signal(src_rank=after, channel=1, timeout_ms=50),
                  f"rank {after}", "50 ms")
        self.meet()

    def all_reduces(self) -> None:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            values = content(self.rank, 128, dtype)
            wanted = self.total(128, dtype)
            tensor = self.symmetric(values)
            equal(ops.one_shot_all_reduce(tensor, "sum", self.name), wanted, "one shot")
            out = self.empty(128, dtype=dtype)
            equal(ops.one_shot_all_reduce_out(tensor, "sum", self.name, out), wanted, "out")
            buffer, source = self.symmetric(values * 0), values.to(self.device)
            equal(ops.one_shot_all_reduce_copy(buffer, source, "sum", self.name), wanted, "copy")
            equal(buffer, values, "the copy")
            out = self.empty(128, dtype=dtype)
            ops.one_shot_all_reduce_copy_out(buffer, source, "sum", self.name, out)
            equal(out, wanted, "copy out")
            equal(ops.multimem_one_shot_all_reduce(tensor, "sum", self.name), wanted, "multimem")
            out = self.empty(128, dtype=dtype)
            ops.multimem_one_shot_all_reduce_out(tensor, "sum", self.name, out)
            equal(out, wanted, "multimem out")
            equal(tensor, values, "the input stays")
            if self.size in (2, 4, 8):
                out = self.empty(128, dtype=dtype)
                ops.two_shot_all_reduce_out(tensor, "sum", self.name, out)
                equal(out, wanted, "two shot out")
            tensor = self.symmetric(values)
            ops.two_shot_all_reduce_(tensor, "sum", self.name)
            equal(tensor, wanted, "two shot")
            tensor = self.symmetric(values)
            ops.multimem_all_reduce_(tensor, "sum", self.name)
            equal(tensor, wanted, "multimem in place")
            self.meet()
        # A part of a tensor; what is around it stays.
        tensor = self.symmetric(content(self.rank, 96))
        ops.two_shot_all_reduce_(tensor[16:80], "sum", self.name)
        equal(tensor[16:80], self.total(96)[16:80], "a part")
        equal(tensor[:16], content(self.rank, 96)[:16], "before it")
        equal(tensor[80:], content(self.rank, 96)[80:], "behind it")
        refused(lambda: ops.one_shot_all_reduce(tensor, "max", self.name), "max")
        refused(lambda: ops.one_shot_all_reduce(self.empty(8), "sum", self.name), "")
        self.meet()

    def reduces(self) -> None:
        count = 16 * self.size
        tensor = self.symmetric(content(self.rank, 4 * count).reshape(4, count))
        whole = self.total(4 * count)
        out = self.empty(4 * count // self.size)
        ops.reduce_scatter_out(tensor, self.name, False, out)
        equal(out, whole.chunk(self.size)[self.rank], "reduce_scatter")
        out = self.empty(4, count // self.size)
        ops.reduce_scatter_out(tensor, self.name, True, out)
        equal(out, whole.reshape(4, count).chunk(self.size, 1)[self.rank].contiguous(), "rows")
        for root in range(self.size):
            out = self.empty(4, count)
            ops.multimem_one_shot_reduce_out(tensor, "sum", root, self.name, out)
            wanted = whole.reshape(4, count)
            equal(out, wanted if self.rank == root else wanted * 0, "reduce")
            place = self.empty(4, count)
            ops.tile_reduce(tensor[1:3, 4:12], place[1:3, 4:12], root, self.name)
            result = torch.zeros(4, count)
            if self.rank == root:
                result[1:3, 4:12] = wanted[1:3, 4:12]
            equal(place, result, "tile")
        tiles = [tensor[:, 16 * i:16 * i + 8] for i in range(self.size)]
        place = self.empty(4, count)
        ops.multi_root_tile_reduce(tiles, place[:, :8], list(range(self.size)), self.name)
        equal(place[:, :8], whole.reshape(4, count)[:, 16 * self.rank:16 * self.rank + 8],
              "several roots")
        self.meet()

    def moves(self) -> None:
        out = self.symmetric(torch.zeros(8 * self.size))
        ops.multimem_all_gather_out(content(self.rank, 8).to(self.device), self.name, out)
        equal(out, torch.cat([content(rank, 8) for rank in range(self.size)]), "all_gather")
        rows = [[(2 * i + j) % 4 for j in range(self.size)] for i in range(self.size)]
        most = 4 * self.size
        source = torch.zeros(most, 3)
        mine = sum(rows[self.rank])
        source[:mine] = content(self.rank, 3 * mine).reshape(mine, 3)
        tensor, out = self.symmetric(source), self.symmetric(torch.zeros(most, 3))
        splits = self.symmetric(torch.tensor(rows[self.rank]))
        results = self.symmetric(torch.zeros(2, self.size, dtype=torch.int64))
        ops.all_to_all_vdev(tensor, out, splits, results, self.name)
        takes = [rows[i][self.rank] for i in range(self.size)]
        starts = [sum(takes[:i]) for i in range(self.size)]
        equal(results, torch.tensor([takes, starts]), "splits and offsets")
        for i in range(self.size):
            begin = sum(rows[i][:self.rank])
            sent = content(i, 3 * sum(rows[i])).reshape(-1, 3)[begin:begin + takes[i]]
            equal(out[starts[i]:starts[i] + takes[i]], sent, "rows")
        self.meet()

    def experts(self) -> None:
        """There and back with two experts on each rank restores the rows."""
        count = 2 * self.size
        rows = [(self.rank + 3 * i) % 3 + 1 for i in range(count)]
        most = 40 * self.size
        source = torch.zeros(most, 4)
        source[:sum(rows)] = content(self.rank, 4 * sum(rows)).reshape(-1, 4)
        tensor, there = self.symmetric(source), self.symmetric(torch.zeros(most, 4))
        back = self.symmetric(torch.zeros(most, 4))
        splits = self.symmetric(torch.tensor(rows))
        middle = self.symmetric(torch.zeros(2, count, dtype=torch.int64))
        last = self.symmetric(torch.zeros(2, count, dtype=torch.int64))
        ops.all_to_all_vdev_2d(tensor, there, splits, middle, self.name, 8)
        starts = middle.cpu()[1].reshape(2, self.size)[:, 0]
        assert all(int(start) % 8 == 0 for start in starts), starts
        ops.all_to_all_vdev_2d_offset(there, back, middle, last, self.name)
        equal(back[:sum(rows)], source[:sum(rows)], "rows came back")
        equal(last[0], torch.tensor(rows), "splits came back")
        refused(lambda: ops.all_to_all_vdev_2d(tensor, there, splits, middle, self.name, 0),
                "major_align")
        self.meet()

    def words(self) -> None:
        tensor = self.symmetric(torch.zeros(64, dtype=torch.uint32))
        symm_mem._SymmetricMemory.stream_write_value32(tensor, 5, 77)
        symm_mem._SymmetricMemory.memset32(tensor, offset=32, val=1, count=16)
        wanted = torch.zeros(64, dtype=torch.int64)
        wanted[5], wanted[32:48] = 77, 1
        equal(tensor.to(torch.int64), wanted, "words")
        for offset, value, count in ((-1, 0, 1), (0, -1, 1), (0, 1 << 32, 1), (60, 0, 5),
                                     (0, 0, 0)):
            refused(lambda o=offset, v=value, c=count: ops.memset32_(tensor, o, v, c), "")
        self.meet()

    def persistent(self) -> None:
        def make():
            return symm_mem._SymmetricMemory.empty_strided_p2p(
                (32,), (1,), torch.float32, self.device, self.name, alloc_id=40 + self.size)
        tensor = make()
        address = tensor.data_ptr()
        handle = symm_mem.rendezvous(tensor, self.name)
        refused(make, "")
        del tensor, handle
        tensor = make()
        assert tensor.data_ptr() == address
        symm_mem.rendezvous(tensor, self.name)
        self.meet()

    def all(self) -> None:
        for part in (self.handle, self.signals, self.all_reduces, self.reduces, self.moves,
                     self.experts, self.words, self.persistent):
            part()


def everything(rank: Rank, device: str) -> None:
    rank.init("acre")
    symm_mem.set_backend("ACRE")
    assert symm_mem.get_backend(torch.device(device)) == "ACRE"
    for size in (8, 4, 3, 2):
        if size > rank.size:
            continue
        group = dist.new_group(list(range(size)))
        if rank.rank < size:
            Check(group, device).all()
    dist.barrier()


def on_acre(rank: Rank) -> None:
    everything(rank, "acre")


def on_cpu(rank: Rank) -> None:
    everything(rank, "cpu")


def in_place(rank: Rank) -> None:
    """The process group reduces a tensor where it lies, if that is symmetric memory everywhere."""
    rank.init("acre")
    name = dist.group.WORLD.group_name
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for device in ("cpu", "acre"):
        before = backend.in_place_count
        tensor = symm_mem.empty(100_000, dtype=torch.float32, device=device)
        other = symm_mem.empty(100_000, dtype=torch.float32, device=device)
        for each in (tensor, other):
            each.copy_(content(rank.rank, 100_000))
            symm_mem.rendezvous(each, name)
        wanted = sum(content(r, 100_000) for r in range(rank.size))
        dist.all_reduce(tensor)
        equal(tensor, wanted, "in place")
        assert backend.in_place_count == before + 1
        dist.all_reduce(other[1000:90_000], dist.ReduceOp.AVG)
        equal(other[1000:90_000], wanted[1000:90_000] / rank.size, "a part, averaged")
        equal(other[:1000], content(rank.rank, 1000), "before it")
        assert backend.in_place_count == before + 2
        # One rank passes plain memory, or another block: all take the other way.
        plain = content(rank.rank, 100_000).to(device)
        for odd in (plain, other):
            tensor.copy_(content(rank.rank, 100_000))
            other.copy_(content(rank.rank, 100_000))
            chosen = odd if rank.rank == 1 else tensor
            dist.all_reduce(chosen)
            equal(chosen, wanted, "mixed")
        assert backend.in_place_count == before + 2
