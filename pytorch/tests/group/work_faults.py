# SPDX-License-Identifier: MIT
"""Ranks that die, stop or do something else; runs on each rank."""
from __future__ import annotations

import datetime
import os
import random
import signal
import threading
import time

import torch
import torch.distributed as dist

from ranks import Rank

LIMIT = 60  # seconds that a group waits; a death is noticed long before


def operations(group, root: int, peer: int) -> dict:
    """Calls in which the rank that is lost, peer, would take part."""
    size = dist.get_world_size(group)
    small, large = torch.ones(64), torch.ones(3 << 20)
    many = [torch.ones(64) for _ in range(size)]
    return {
        "all_reduce": lambda: dist.all_reduce(small, group=group),
        "all_reduce large": lambda: dist.all_reduce(large, group=group),
        "all_reduce async": lambda: dist.all_reduce(small, group=group, async_op=True).wait(),
        "broadcast": lambda: dist.broadcast(small, root, group=group),
        "reduce": lambda: dist.reduce(small, root, group=group),
        "all_gather": lambda: dist.all_gather(many, small, group=group),
        "gather": lambda: dist.gather(small, many if dist.get_rank() == root else None, root,
                                      group=group),
        "scatter": lambda: dist.scatter(small, many if dist.get_rank() == root else None, root,
                                        group=group),
        "reduce_scatter": lambda: dist.reduce_scatter(small, many, group=group),
        "all_to_all": lambda: dist.all_to_all([torch.empty(64) for _ in many], many,
                                              group=group),
        "barrier": lambda: dist.barrier(group=group),
        "recv": lambda: dist.recv(small, peer, group=group),
        "send": lambda: dist.send(large, peer, group=group),
        "monitored_barrier": lambda: group.monitored_barrier(datetime.timedelta(seconds=5)),
    }


def fails(call, *texts: str) -> float:
    """Expects an error that names the texts; gives the seconds it took."""
    begin = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        for text in texts:
            assert text in str(error), (text, str(error))
        assert isinstance(error, dist.DistBackendError), type(error)
        return time.monotonic() - begin
    raise AssertionError(f"no error, expected {texts}")


def killed(rank: Rank) -> None:
    """In group i, rank 2 + i is lost; ranks 0 and 1 are told which, where and when."""
    rank.init("acre", seconds=LIMIT)
    count = len(operations(dist.group.WORLD, 0, 0))
    assert rank.size == 2 + count
    for i in range(count):
        members = [0, 1, 2 + i]
        group = dist.new_group(members, timeout=datetime.timedelta(seconds=LIMIT))
        if rank.rank not in members:
            continue
        name, call = list(operations(group, 0, 2 + i).items())[i]
        dist.all_reduce(torch.ones(1), group=group)
        if rank.rank == 2 + i:
            os.kill(os.getpid(), signal.SIGKILL)
        function = name.split()[0]
        if function == "monitored_barrier":
            taken = fails(call, "monitored" if rank.rank == 0 else "")
        else:
            taken = fails(call, "rank 2", function, "sequence number 2")
        assert taken < LIMIT / 2, (name, taken)
        # The group is of no use any more, and says so at once.
        if function != "monitored_barrier":
            fails(lambda: dist.barrier(group=group), "failed before")
    # Survivors make a new group through another store.
    left = dist.PrefixStore("left", rank.store("again"))
    group = torch_acre_group(left, rank.rank, 2)
    tensor = torch.ones(1000)
    group.allreduce([tensor]).wait()
    assert torch.equal(tensor, torch.full((1000,), 2.0))
    os._exit(0)  # the default group has lost ranks: nothing to take leave of


def torch_acre_group(store, rank: int, size: int):
    import torch_acre
    return torch_acre.distributed.create_group(store, rank, size,
                                               datetime.timedelta(seconds=LIMIT))


def stopped(rank: Rank) -> None:
    """Rank 1 stops: the others give up at their time limit, and name it."""
    rank.init("acre", seconds=2)
    rank.mark("pid", str(os.getpid()))
    pid = int(rank.await_mark("pid", 1))
    dist.barrier()
    if rank.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    taken = fails(lambda: dist.all_reduce(torch.ones(5)), "rank 1", "all_reduce",
                  "sequence number 2")
    assert taken > 1, taken
    rank.mark("done")
    if rank.rank == 0:
        rank.await_mark("done", 2)
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def mismatched(rank: Rank) -> None:
    """Different calls are named on all ranks, nothing moves, and the group goes on."""
    rank.init("acre", seconds=LIMIT)
    is_odd = rank.rank == 1
    tensor = torch.full((8,), float(rank.rank))
    pairs = [
        (lambda: dist.all_reduce(tensor), lambda: dist.broadcast(tensor, 0),
         ["ALLREDUCE", "BROADCAST"]),
        (lambda: dist.all_reduce(tensor), lambda: dist.all_reduce(torch.ones(9)),
         ["8 elements", "9 elements"]),
        (lambda: dist.all_reduce(tensor), lambda: dist.all_reduce(torch.ones(8).double()),
         ["Float", "Double"]),
        (lambda: dist.all_reduce(tensor), lambda: dist.all_reduce(tensor, dist.ReduceOp.MAX),
         ["reduction sum", "reduction max"]),
        (lambda: dist.broadcast(tensor, 0), lambda: dist.broadcast(tensor, 1),
         ["root 0", "root 1"]),
        (lambda: dist.barrier(), lambda: dist.all_reduce(torch.ones(1 << 20)),
         ["BARRIER", "ALLREDUCE"]),
        (lambda: dist.all_to_all_single(torch.ones(rank.size), torch.ones(rank.size)),
         lambda: dist.all_to_all_single(torch.ones(2 * rank.size), torch.ones(2 * rank.size)),
         ["bytes", "split sizes"]),
    ]
    for usual, odd, texts in pairs:
        fails(odd if is_odd else usual, *texts)
        assert torch.equal(tensor, torch.full((8,), float(rank.rank)))
        dist.barrier()
    # A message of another size is refused by the receiver, and the next one arrives.
    if rank.rank == 0:
        dist.send(torch.ones(3), 1)
        dist.send(torch.ones(4), 1)
    elif is_odd:
        fails(lambda: dist.recv(torch.ones(4), 0), "12 bytes", "16 bytes")
        dist.recv(torch.zeros(4), 0)
    dist.barrier()


def aborted(rank: Rank) -> None:
    """abort() ends what waits on this rank; nothing stays mapped or open afterwards."""
    def maps() -> int:
        with open("/proc/self/maps") as lines:
            return sum("memfd" in line for line in lines)

    files, mapped = len(os.listdir("/proc/self/fd")), maps()
    backend = torch_acre_group(rank.store("direct"), rank.rank, rank.size)
    backend.allreduce([torch.ones(3)]).wait()
    rank.mark("ready")
    rank.await_mark("ready", 1 - rank.rank)
    if rank.rank == 0:
        work = backend.allreduce([torch.ones(3)])
        timer = threading.Timer(0.2, backend.abort)
        timer.start()
        fails(work.wait, "aborted")
        timer.join()
        del work, timer
    del backend
    assert maps() == mapped, (maps(), mapped)
    assert len(os.listdir("/proc/self/fd")) <= files + 1


def foreign(rank: Rank) -> None:
    """A process of another user is not let in, and the group's own rank is told."""
    if rank.rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
        os.chmod(rank.folder, 0o777)
        rank.mark("port", str(store.port))
    else:
        port = int(rank.await_mark("port", 0))
        os.setuid(65534)
        store = dist.TCPStore("127.0.0.1", port, 2, False)
    try:
        import torch_acre
        torch_acre.distributed.create_group(store, rank.rank, 2, datetime.timedelta(seconds=5))
    except RuntimeError as error:
        rank.mark("refused", str(error))
        rank.await_mark("refused", 1 - rank.rank)
        return
    raise AssertionError("a process of another user joined")


def mixed_until_death(rank: Rank) -> None:
    """Random calls until one rank is killed from outside; the rest names it and goes on."""
    seed = int(os.environ["ACRE_TEST_SEED"])
    rank.mark("pid", str(os.getpid()))
    rank.init("acre", seconds=LIMIT)
    source = random.Random(seed)
    calls = operations(dist.group.WORLD, 0, 0)
    names = [name for name in calls if name not in ("send", "recv", "monitored_barrier")]
    rank.mark("started")
    try:
        for _ in range(10_000_000):
            calls[source.choice(names)]()
    except dist.DistBackendError as error:
        rank.mark("noticed", f"{time.monotonic()} {error}")
    victim = seed % rank.size
    left = [r for r in range(rank.size) if r != victim]
    group = torch_acre_group(rank.store("left"), left.index(rank.rank), len(left))
    tensor = torch.ones(9)
    group.allreduce([tensor]).wait()
    assert torch.equal(tensor, torch.full((9,), float(len(left))))
    rank.mark("again")
    os._exit(0)


def store_gone(rank: Rank) -> None:
    """Rank 0 serves the store and takes it away; rank 1 cannot make a group any more."""
    if rank.rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
        rank.mark("port", str(store.port))
        rank.await_mark("connected", 1)
        del store
        rank.mark("gone")
        rank.await_mark("refused", 1)
        return
    store = dist.TCPStore("127.0.0.1", int(rank.await_mark("port", 0)), 2, False)
    rank.mark("connected")
    rank.await_mark("gone", 0)
    begin = time.monotonic()
    try:
        torch_acre_group(store, 1, 2)
    except RuntimeError as error:
        assert "Acre: " in str(error) and "store" in str(error), error
        assert time.monotonic() - begin < LIMIT / 2, error
        rank.mark("refused")
        return
    raise AssertionError("a group without a store")


def two_jobs(rank: Rank) -> None:
    """Ranks 2 and 3 are a second job, whose ranks 0 and 1 come to the store of the first."""
    job, place = divmod(rank.rank, 2)
    if job == 1:
        for other in range(2):
            rank.await_mark("made", other)
    store = dist.FileStore(str(rank.folder / "store"), 2)
    if job == 0:
        group = torch_acre_group(store, place, 2)
        rank.mark("made")
        for other in (2, 3):
            rank.await_mark("refused", other)
        tensor = torch.ones(100_000)
        group.allreduce([tensor]).wait()
        assert tensor.eq(2).all()
        return
    try:
        torch_acre_group(store, place, 2)
    except RuntimeError as error:
        for text in ("Acre: ", "store", "rank " + str(place)):
            assert text in str(error), (text, str(error))
        rank.mark("refused", str(error))
        return
    raise AssertionError("a second job joined the first one's group")


def dropped_groups(rank: Rank) -> None:
    """A group goes while its thread still holds a tensor that Python knows, again and again."""
    tensor = torch.ones(100_000)
    for turn in range(40):
        store = dist.FileStore(str(rank.folder / f"store{turn}"), 2)
        group = torch_acre_group(store, rank.rank, 2)
        tensor.fill_(1)
        group.allreduce([tensor]).wait()
        del group
        assert tensor.eq(2).all()


def monitored_after_messages(rank: Rank) -> None:
    """Rank 0 has sent two messages, the others have received one each."""
    rank.init("acre")
    tensor = torch.full((4,), rank.rank)
    for peer in (1, 2):
        if rank.rank == 0:
            dist.send(tensor, peer)
        elif rank.rank == peer:
            dist.recv(tensor, 0)
    for _ in range(2):
        dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=LIMIT))
    assert tensor.eq(0).all(), tensor


def given_up(rank: Rank) -> None:
    """A monitored barrier gives up while its message waits behind a large one."""
    rank.init("acre")
    group, limit = dist.group.WORLD, datetime.timedelta(seconds=0.5)
    large, small = torch.arange(1 << 20, dtype=torch.int32), torch.full((4,), 7)
    store = dist.distributed_c10d._get_default_store()
    if rank.rank == 1:
        sent = dist.isend(large, 0)
        fails(lambda: group.monitored_barrier(limit), "monitored")
        store.set("given up", "1")
        dist.isend(small, 0).wait()
        sent.wait()
        time.sleep(1)  # past the limit of the message that was given up
    else:
        store.wait(["given up"])
        fails(lambda: group.monitored_barrier(limit), "Rank 1 failed to pass")
        taken, last = torch.zeros_like(large), torch.zeros_like(small)
        dist.recv(taken, 1)
        dist.recv(last, 1)
        assert taken.equal(large) and last.equal(small), (taken, last)
    dist.all_reduce(small)
    assert small.eq(14).all(), small
    dist.barrier()


def forked(rank: Rank) -> None:
    """A child of fork is refused what it inherits, and changes nothing for its parent."""
    rank.init("acre")
    tensor = torch.ones(4)
    dist.all_reduce(tensor, async_op=True).wait()  # the group's thread runs
    if rank.rank == 0:
        child = os.fork()
        if child == 0:
            result = 1
            signal.alarm(30)
            try:
                for is_async in (False, True):
                    fails(lambda: dist.all_reduce(torch.ones(4), async_op=is_async),
                          "forked from rank 0", "all_reduce")
                fails(lambda: dist.send(torch.ones(4), 1), "forked from rank 0")
                dist.destroy_process_group()
                result = 0
            finally:
                os._exit(result)
        assert os.waitpid(child, 0)[1] == 0
    tensor.fill_(rank.rank)
    dist.all_reduce(tensor)
    assert tensor.eq(1).all(), tensor
    dist.barrier()


def patient_for_centuries(rank: Rank) -> None:
    """A time limit beyond the reach of the clock is no limit."""
    rank.init("acre", seconds=400 * 365 * 86400)
    time.sleep(rank.rank * 0.5)
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert tensor.eq(2).all(), tensor
    dist.barrier()


def other_devices(rank: Rank) -> None:
    """Devices and tensors that the group does not serve are refused by name."""
    for wrong in ("cuda:acre", "cpu:gloo,xla:acre"):
        try:
            rank.init(wrong, name="wrong " + wrong)
        except (RuntimeError, ValueError) as error:
            assert "acre" in str(error) and wrong.split(":")[-2].split(",")[-1] in str(error), error
        else:
            raise AssertionError(f"{wrong} was taken")
        assert not dist.is_initialized()
    rank.init("acre")
    tensor = torch.ones(4, device="meta")
    for call in (lambda: dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([tensor]),
                 lambda: dist.group.WORLD._get_backend(torch.device("cpu")).broadcast([tensor])):
        try:
            call()
        except RuntimeError as error:
            assert "meta" in str(error) and "move the tensor" in str(error), error
        else:
            raise AssertionError("a tensor without memory was taken")
    dist.barrier()
