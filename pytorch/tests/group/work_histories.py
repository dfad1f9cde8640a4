# SPDX-License-Identifier: MIT
"""Ranks whose calls differ in number, order and end; runs on each rank."""
from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
import time

import torch
import torch.distributed as dist

from ranks import Rank
from work_faults import fails
from work_operations import refused


def nested(rank: Rank) -> None:
    """What hangs on a future may start operations and wait for them, two deep."""
    rank.init("acre")

    def again(future: torch.futures.Future) -> torch.Tensor:
        doubled = future.value()[0] * 2
        dist.all_reduce(doubled)
        later = dist.all_reduce(doubled, async_op=True).get_future()
        return later.then(lambda inner: inner.value()[0] + 1).wait()

    for _ in range(20):
        begun = dist.all_reduce(torch.ones(4), async_op=True).get_future()
        assert begun.then(again).wait().eq(17).all()
    dist.barrier()
    kept = [dist.all_reduce(torch.ones(1 << 18), async_op=True) for _ in range(8)]
    dist.destroy_process_group()  # both threads end, whichever has the last task
    assert all(work.is_completed() for work in kept)


def destroyed_by_callback(rank: Rank) -> None:
    """What hangs on the last operation of a group, or on a message, destroys the group."""
    rank.init("acre")
    ctypes.CDLL(None).mallopt(-6, 165)  # M_PERTURB: memory that was freed is not what it was
    for name in ("collective", "message"):
        box, end, errors = [dist.new_group([0, 1])], threading.Event(), []

        def destroy(_: torch.futures.Future) -> None:
            try:
                dist.destroy_process_group(box.pop())
            except Exception as error:
                errors.append(error)
            end.set()

        tensor = torch.ones(4)
        if rank.rank == 1:
            rank.await_mark(name, 0)
            if name == "message":
                dist.send(tensor, 0, group=box[0])
            else:
                dist.all_reduce(tensor, group=box[0])
            destroy(None)
        elif name == "message":
            dist.irecv(tensor, 1, group=box[0]).get_future().add_done_callback(destroy)
        else:
            work = dist.all_reduce(tensor, group=box[0], async_op=True)
            work.get_future().add_done_callback(destroy)
            del work
        rank.mark(name)
        assert end.wait(30) and not errors, errors
        time.sleep(0.2)  # the thread of the callback ends
        dist.barrier()


def values_after_wait(rank: Rank) -> None:
    """Who has waited for an operation finds its future done."""
    rank.init("acre")
    message, other = (dist.isend if rank.rank else dist.irecv), 1 - rank.rank
    for turn in range(1000):
        tensor = torch.ones(4)
        work = message(tensor, other) if turn % 2 else dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        work.wait()
        assert future.value()[0].sum().item() == (4 if turn % 2 else 8)


def waits_for_messages(rank: Rank) -> None:
    """What hangs on a message waits for the futures of others, which come later, together with it,
    or while the program waits for the last."""
    rank.init("acre")
    for how in ("later", "together", "waited for"):
        if rank.rank == 1:
            rank.await_mark(how, 0)
            for tag in range(3):
                dist.send(torch.full((4,), tag + 1.0), 0, tag=tag)
                if how == "later" and tag < 2:
                    rank.await_mark(f"called {tag}", 0)
            continue
        works = [dist.irecv(torch.zeros(4), 1, tag=tag) for tag in range(3)]
        futures = [work.get_future() for work in works]

        def called(tag: int) -> torch.futures.Future:
            def adds(future: torch.futures.Future) -> torch.Tensor:
                rank.mark(f"called {tag}")
                return future.value()[0] + sum(behind.wait()[0] for behind in futures[tag + 1:])
            return futures[tag].then(adds)

        sums = [called(tag) for tag in range(3)]
        rank.mark(how)
        if how == "waited for":
            works[2].wait()
        assert [sum.wait()[0].item() for sum in sums] == [6, 5, 3]
    dist.barrier()


def answers_in_callback(rank: Rank) -> None:
    """What hangs on a message sends one and waits for the future of the answer."""
    rank.init("acre")

    def asks(future: torch.futures.Future) -> torch.Tensor:
        dist.isend(future.value()[0] * 2, 1).get_future().wait()
        return dist.irecv(torch.zeros(4), 1).get_future().wait()[0]

    for i in range(20):
        tensor = torch.full((4,), float(i))
        if rank.rank == 0:
            answer = dist.irecv(tensor, 1).get_future().then(asks)
            assert answer.wait().eq(2 * i + 1).all()
        else:
            dist.send(tensor, 0)
            dist.recv(tensor, 0)
            dist.send(tensor + 1, 0)
    dist.barrier()


def destroyed_while_callback_waits(rank: Rank) -> None:
    """A callback waits for a message that does not come; who destroys the group ends that."""
    rank.init("acre")
    group, ended = dist.new_group([0, 1]), []
    if rank.rank == 0:
        works = [dist.irecv(torch.zeros(4), 1, group=group, tag=tag) for tag in range(2)]
        futures = [work.get_future() for work in works]

        def called(_: torch.futures.Future) -> None:
            rank.mark("called")
            fails(futures[1].wait, "shut down while a message was under way")
            ended.append(True)

        futures[0].add_done_callback(called)
        rank.mark("posted")
        rank.await_mark("called", 0)
    else:
        rank.await_mark("posted", 0)
        dist.send(torch.ones(4), 0, group=group)
        rank.await_mark("called", 0)
    dist.destroy_process_group(group)
    assert rank.rank == 1 or ended
    dist.barrier()


def powersgd(rank: Rank) -> None:
    """The hook starts one all-reduce when another has ended, and waits for it."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    rank.init("acre")
    results = []
    for group in (dist.group.WORLD, dist.new_group(backend="gloo")):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(),
                                    torch.nn.Linear(32, 1))
        parallel = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=1,
                                            start_powerSGD_iter=2, min_compression_rate=1)
        parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
        torch.manual_seed(rank.rank)
        for _ in range(6):
            optimizer.zero_grad()
            parallel(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(results[0], results[1])
    dist.barrier()


def sent_and_gone(rank: Rank) -> None:
    """Rank 2 ends after it has sent, while rank 0 waits for rank 1; both messages arrive, and the
    group goes on where rank 2 is not needed."""
    rank.init("acre")
    dist.barrier()
    if rank.rank == 2:
        rank.await_mark("posted", 0)
        dist.send(torch.full((4,), 2.0), 0)
        os._exit(0)
    if rank.rank == 1:
        time.sleep(1)
        dist.send(torch.full((4,), 1.0), 0)
        rank.await_mark("taken", 0)
    else:
        places = [torch.zeros(4) for _ in range(2)]
        works = [dist.irecv(places[i], i + 1) for i in range(2)]
        rank.mark("posted")
        for work in works:
            work.wait()
        assert places[0].eq(1).all() and places[1].eq(2).all(), places
        rank.mark("taken")
    os._exit(0)


def any_without_one(rank: Rank) -> None:
    """Rank 1 has nothing to send and ends; messages of rank 2 arrive."""
    rank.init("acre")
    tensor = torch.zeros(4)
    dist.barrier()
    if rank.rank == 1:
        rank.await_mark("met", 2)
        os._exit(0)
    for i in range(20):
        if rank.rank == 0:
            assert dist.recv(tensor) == 2
            dist.send(tensor, 2)
        else:
            time.sleep(0.002)
            dist.send(torch.full((4,), float(i)), 0)
            dist.recv(tensor, 0)
            assert tensor.eq(i).all(), tensor
    if rank.rank == 2:
        rank.mark("met")
        time.sleep(0.5)
        dist.send(torch.full((4,), 7.0), 0)
        rank.await_mark("taken", 0)
    else:
        assert dist.recv(tensor) == 2 and tensor.eq(7).all(), tensor
        rank.mark("taken")
    os._exit(0)


def any_of_none(rank: Rank) -> None:
    """When all others have ended, nobody can send any more."""
    rank.init("acre")
    dist.barrier()
    if rank.rank == 0:
        assert fails(lambda: dist.recv(torch.zeros(4)), "rank 1", "is gone") < 20
    os._exit(0)


def refused_messages(rank: Rank) -> None:
    """A message that a failed group refuses is forgotten, its tensor with it."""
    rank.init("acre")
    group = dist.new_group([0, 1])
    torch.ones(4, device="acre").sum().item()
    group._get_backend(torch.device("acre")).abort()
    before = torch.acre.memory_allocated()
    for _ in range(3):
        tensor = torch.ones(1 << 20, device="acre")
        fails(lambda: dist.send(tensor, 1 - rank.rank, group=group), "was aborted")
        fails(lambda: dist.recv(tensor, 1 - rank.rank, group=group), "was aborted")
        del tensor
    assert torch.acre.memory_allocated() == before, torch.acre.memory_allocated() - before
    dist.barrier()


def takes_over(rank: Rank, child: int) -> None:
    """The place of a killed rank is free, whatever a child of it still has, which then ends."""
    try:
        rank.init("acre")
        dist.barrier()
    finally:
        os.kill(child, signal.SIGKILL)


def orphaned(rank: Rank) -> None:
    """A rank is killed and leaves a child of fork; the next job takes over its place."""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        rank.init("acre")
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            signal.pause()
        os.write(write, str(child).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(first, 0)
    takes_over(rank, int(os.read(read, 20)))


def held(rank: Rank) -> None:
    """The place of a rank that lives is refused, and named with its process."""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        signal.alarm(60)
        rank.init("acre")
        os.write(write, b"here")
        signal.pause()
    try:
        assert os.read(read, 4) == b"here"
        fails(lambda: rank.init("acre"), f"process {first} is rank 0 of a group in this store")
    finally:
        os.kill(first, signal.SIGKILL)


def killed_while_forking(rank: Rank, flags: int = 0) -> None:
    """A rank is killed and leaves a child that has not run the handlers of fork, and does not."""
    read, write = os.pipe()
    clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    first = os.fork()
    if first == 0:
        rank.init("acre")
        libc = ctypes.CDLL(None)
        child = libc.syscall(clone, int(signal.SIGCHLD), 0, 0, 0, 0)
        if child == 0:
            libc.sleep(60)
            libc._exit(0)
        os.write(write, str(child).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | flags)
    takes_over(rank, int(os.read(read, 20)))


def killed_and_not_waited_for(rank: Rank) -> None:
    """The same, while the parent of the one that was killed has not taken note of its end."""
    killed_while_forking(rank, os.WNOWAIT)


def inherited_works(rank: Rank) -> None:
    """A child of fork is refused what its parent has under way, and takes none of it away."""
    rank.init("acre")
    ended, place = dist.all_reduce(torch.ones(4), async_op=True), torch.zeros(4)
    ended.wait()
    if rank.rank == 1:
        rank.await_mark("forked", 0)
        dist.send(torch.full((4,), 3.0), 0)
        dist.all_reduce(torch.ones(4))
    else:
        works = [dist.irecv(place, 1), dist.all_reduce(torch.ones(4), async_op=True)]
        child = os.fork()
        if child == 0:
            result = 1
            signal.alarm(20)
            try:
                ended.wait()
                for work in works:
                    fails(work.wait, "wait: this process was forked from rank 0")
                    fails(work.get_future, "get_future: this process was forked from rank 0")
                    fails(work.get_future_result, "get_future_result: this process was forked")
                    fails(work.is_completed, "is_completed: this process was forked from rank 0")
                assert ended.is_completed() and ended.get_future().wait()[0].eq(2).all()
                result = 0
            finally:
                os._exit(result)
        status = os.waitpid(child, 0)[1]
        rank.mark("forked")
        for work in works:
            work.wait()
        assert status == 0 and place.eq(3).all(), (status, place)
    dist.barrier()


# ---- Without threads -----------------------------------------------------------------------------

class no_threads:
    """While it lasts, this process cannot start a thread: no address space has room for a stack."""

    def __enter__(self) -> None:
        self.libc, self.before = ctypes.CDLL(None), ctypes.create_string_buffer(256)
        attributes = ctypes.create_string_buffer(256)
        assert self.libc.pthread_getattr_default_np(self.before) == 0
        assert self.libc.pthread_attr_init(attributes) == 0
        assert self.libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(1 << 60)) == 0
        assert self.libc.pthread_setattr_default_np(attributes) == 0

    def __exit__(self, *_) -> None:
        assert self.libc.pthread_setattr_default_np(self.before) == 0


def message_without_thread(rank: Rank) -> None:
    """A message whose thread cannot be started is refused, and takes no other's place."""
    rank.init("acre")
    if rank.rank == 1:
        rank.await_mark("refused", 0)
        dist.send(torch.full((4,), 5.0), 0)
    else:
        refused, place = torch.zeros(4), torch.zeros(4)
        with no_threads():
            fails(lambda: dist.irecv(refused, 1), "recv: no thread can be started")
        rank.mark("refused")
        dist.recv(place, 1)
        assert place.eq(5).all() and refused.eq(0).all(), (place, refused)
    dist.barrier()


def callback_without_thread(rank: Rank) -> None:
    """A callback runs, and no second thread can be started for what comes behind: it waits."""
    rank.init("acre")
    if rank.rank == 1:
        rank.await_mark("begun", 0)
    works = [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(2)]
    called = works[0].get_future().then(lambda future: future.value()[0] + 1)
    if rank.rank == 0:
        with no_threads():
            rank.mark("begun")
            works[1].wait()
    works[1].wait()
    assert called.wait().eq(3).all()
    dist.barrier()


def waits_without_thread(rank: Rank) -> None:
    """A callback waits for what is queued behind it, and no second thread can be started: what is
    queued runs first. What the callback itself starts then is refused."""
    rank.init("acre")
    if rank.rank == 1:
        rank.await_mark("begun", 0)
    works = [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(3)]
    behind = [work.get_future() for work in works[1:]]
    refusals = []

    def called(future: torch.futures.Future) -> torch.Tensor:
        works[1].wait()
        if rank.rank == 0:
            fails(lambda: dist.all_reduce(torch.ones(4), async_op=True), "no thread can be started")
            refusals.append(True)
        return future.value()[0] + behind[0].wait()[0] + behind[1].wait()[0]

    result = works[0].get_future().then(called)
    if rank.rank == 0:
        with no_threads():
            rank.mark("begun")
            assert result.wait().eq(6).all() and refusals
    assert result.wait().eq(6).all()
    dist.barrier()


def message_future_without_thread(rank: Rank) -> None:
    """A future of a message is refused where no thread can be started for what hangs on it. When
    it is there, what hangs on it may wait for another message, though no second thread starts."""
    rank.init("acre")
    if rank.rank == 1:
        for tag in range(2):
            rank.await_mark(f"waits {tag}", 0)
            dist.send(torch.full((4,), tag + 1.0), 0, tag=tag)
    else:
        works = [dist.irecv(torch.zeros(4), 1, tag=tag) for tag in range(2)]
        with no_threads():
            fails(works[0].get_future, "get_future: no thread can be started")
        futures = [work.get_future() for work in works]

        def called(future: torch.futures.Future) -> torch.Tensor:
            rank.mark("waits 1")
            return future.value()[0] + futures[1].wait()[0]

        result = futures[0].then(called)
        with no_threads():
            rank.mark("waits 0")
            assert result.wait().eq(3).all()
    dist.barrier()


# ---- Signals -------------------------------------------------------------------------------------

def blocked_in(thread: int) -> set[int]:
    """The signals that a thread of this process blocks."""
    with open(f"/proc/self/task/{thread}/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("SigBlk:"))
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def signals(rank: Rank) -> None:
    """The group's threads block signals, but callbacks in them have the mask of the program."""
    rank.init("acre")
    if rank.rank == 1:
        rank.await_mark("attached", 0)
        dist.all_reduce(torch.ones(4))
        dist.send(torch.ones(4), 0)
        return dist.barrier()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    seen = []

    def called(future: torch.futures.Future) -> None:
        seen.append((threading.get_native_id(), blocked_in(threading.get_native_id())))

    works = [dist.all_reduce(torch.ones(4), async_op=True), dist.irecv(torch.zeros(4), 1)]
    futures = [work.get_future().then(called) for work in works]
    rank.mark("attached")
    for future in futures:
        future.wait()
    assert len({thread for thread, _ in seen} - {os.getpid()}) == 2, seen
    for thread, blocked in seen:
        assert blocked == {signal.SIGUSR2}, blocked
        end = time.monotonic() + 60  # the thread is still on its way out of the callback
        while blocked_in(thread) == {signal.SIGUSR2} and time.monotonic() < end:
            time.sleep(0.001)
        blocked = blocked_in(thread)
        assert {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM} <= blocked, blocked
        assert not {signal.SIGSEGV, signal.SIGBUS} & blocked, blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR2}
    dist.barrier()


def signals_of_second_threads(rank: Rank) -> None:
    """Callbacks in a thread that a thread of the group started have the program's mask as well."""
    rank.init("acre")
    if rank.rank == 1:
        for name in ("collective", "message"):
            rank.await_mark(name, 0)
            for _ in range(2):
                if name == "collective":
                    dist.all_reduce(torch.ones(4))
                else:
                    dist.send(torch.ones(4), 0)
        return dist.barrier()
    for name in ("collective", "message"):
        works = [dist.all_reduce(torch.ones(4), async_op=True) if name == "collective" else
                 dist.irecv(torch.zeros(4), 1) for _ in range(2)]

        def called(_: torch.futures.Future) -> tuple[int, set[int]]:
            return threading.get_native_id(), blocked_in(threading.get_native_id())

        later = works[1].get_future().then(called)
        first = works[0].get_future().then(lambda future: (later.wait(), called(future)))
        rank.mark(name)
        (thread, blocked), (other, others) = first.wait()
        assert thread != other and blocked == others == set(), (name, blocked, others)
    dist.barrier()


# ---- Two hosts on one machine --------------------------------------------------------------------

def start_hosts(rank: Rank, seconds: float = 60) -> None:
    """Every rank on a host of its own."""
    os.environ["ACRE_SYMM_HOST"] = f"host {rank.rank}"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    rank.init("acre", seconds=seconds)


def forked_between_hosts(rank: Rank) -> None:
    """A child of fork is refused what it inherits, and may destroy or abort it."""
    start_hosts(rank)
    tensor = torch.ones(4)
    dist.all_reduce(tensor, async_op=True).wait()  # the group's thread runs
    place = torch.zeros(4)
    work = dist.irecv(place, 1 - rank.rank)
    for is_abort in (False, True):
        child = os.fork()
        if child == 0:
            result = 1
            signal.alarm(20)
            try:
                parent = f"forked from rank {rank.rank},"
                fails(lambda: dist.all_reduce(torch.ones(4)), parent, "all_reduce")
                fails(lambda: dist.send(torch.ones(4), 1 - rank.rank), parent, "send")
                fails(lambda: dist.recv(torch.ones(4), 1 - rank.rank), parent, "recv")
                fails(work.wait, parent, "wait")
                if is_abort:
                    dist.group.WORLD._get_backend(torch.device("cpu")).abort()
                dist.destroy_process_group()
                result = 0
            finally:
                os._exit(result)
        assert os.waitpid(child, 0)[1] == 0
    dist.send(tensor, 1 - rank.rank)
    work.wait()
    assert place.eq(2).all(), place
    dist.all_reduce(tensor)
    assert tensor.eq(4).all(), tensor
    dist.barrier()


def refused_between_hosts(rank: Rank) -> None:
    """What is wrong is refused before anybody waits, with the sentence of a group on one host."""
    start_hosts(rank)
    out = torch.full((3,), -1.0)
    for count in (0, 1, 3):
        refused(lambda: dist.reduce_scatter(out, [torch.ones(3)] * count), "for 2 ranks")
    refused(lambda: dist.reduce_scatter(out, [torch.ones(2)] * 2), "equally large")
    refused(lambda: dist.reduce_scatter_tensor(out, torch.ones(7)), "does not hold 2 parts of 3")
    refused(lambda: dist.reduce_scatter_tensor(out, torch.ones(6), dist.ReduceOp.BAND), "BAND")
    refused(lambda: dist.reduce(out, 0, dist.ReduceOp.BAND), "BAND")
    assert out.eq(-1).all(), out
    dist.reduce_scatter(out, [torch.ones(3), torch.full((3,), 2.0)])
    assert out.eq(2 * (rank.rank + 1)).all(), out
    dist.barrier()


def waited_twice_between_hosts(rank: Rank) -> None:
    """A second wait() neither waits nor brings the message again."""
    start_hosts(rank, seconds=5)
    tensor = torch.zeros(4, device="acre")
    if rank.rank == 1:
        dist.send(torch.full((4,), 3.0), 0)
    else:
        work = dist.irecv(tensor, 1)
        work.wait()
        tensor.add_(1)
        work.wait()
        assert tensor.eq(4).all(), tensor
    dist.barrier()
