# SPDX-License-Identifier: MIT
"""Programs whose results depend on the order of streams; each prints "kept" or "lost".

test_order.py runs each of them twice: as it is, and with a library in front of Acre's in which
the one call that keeps the order does nothing.
"""
import sys
import threading
from collections.abc import Callable

import torch
from gate import Gate

import torch_acre  # noqa: F401

COUNT = 1 << 16


def tell(is_kept: bool) -> None:
    print("kept" if is_kept else "lost", flush=True)


def memory_used_elsewhere() -> None:
    """A tensor is freed while a stream behind a gate still has to read it."""
    side = torch.acre.Stream()
    out = torch.zeros(COUNT, device="acre")
    used = torch.ones(COUNT, device="acre")
    gate = Gate(side)
    with torch.acre.stream(side):
        out.copy_(used, non_blocking=True)
    used.record_stream(side)
    del used
    others = [torch.full((COUNT,), 7.0, device="acre") for _ in range(4)]
    gate.open()
    torch.acre.synchronize()
    tell(bool((out.cpu() == 1).all()))
    del others


def result_of_a_future() -> None:
    """What a future holds is read on the stream of the one who waits for it."""
    side = torch.acre.Stream()
    out = torch.zeros(COUNT, device="acre")
    future = torch.futures.Future(devices=["acre:0"])
    with torch.acre.stream(side):
        future.set_result(torch.ones(COUNT, device="acre"))
    reader = torch.acre.Stream()
    with torch.acre.stream(reader):
        used = future.wait()
        gate = Gate(reader)
        out.copy_(used, non_blocking=True)
    del used, future
    with torch.acre.stream(side):
        others = [torch.full((COUNT,), 7.0, device="acre") for _ in range(4)]
    gate.open()
    torch.acre.synchronize()
    tell(bool((out.cpu() == 1).all()))
    del others


def read_after_copy(count: int, read: Callable, is_broken: bool) -> list:
    """What a reader on another thread finds while a copy behind a gate has still to write.

    Gives nothing when the reader was done before the gate opened."""
    source = torch.ones(count).pin_memory()
    there = torch.zeros(count, device="acre")
    side = torch.acre.Stream()
    is_done = threading.Event()
    found = []
    torch.acre.synchronize()
    gate = Gate(side)

    def work() -> None:
        with torch.acre.stream(side):
            there.copy_(source, non_blocking=True)
            found.append(read(there))
        is_done.set()

    thread = threading.Thread(target=work)
    thread.start()
    # A reader that waits is not done before the gate opens, however long one looks.
    was_early = is_done.wait(60 if is_broken else 0.5)
    gate.open()
    thread.join()
    torch.acre.synchronize()
    return [] if was_early else found


def operator_after_copy(is_broken: bool) -> None:
    """The fallback reads what a copy behind a gate has still to write."""
    found = read_after_copy(COUNT, lambda there: there + 1, is_broken)
    tell(bool(found) and bool((found[0].cpu() == 2).all()))


def scalar_after_copy(is_broken: bool) -> None:
    """item() reads what a copy behind a gate has still to write."""
    tell(read_after_copy(1, lambda there: there.item(), is_broken) == [1.0])


def source_of_a_copy() -> None:
    """Page-locked memory is freed while a copy behind a gate still has to read it."""
    source = torch.ones(COUNT).pin_memory()
    there = torch.zeros(COUNT, device="acre")
    side = torch.acre.Stream()
    torch.acre.synchronize()
    gate = Gate(side)
    with torch.acre.stream(side):
        there.copy_(source, non_blocking=True)
    del source
    others = [torch.full((COUNT,), 7.0).pin_memory() for _ in range(4)]
    gate.open()
    torch.acre.synchronize()
    tell(bool((there.cpu() == 1).all()))
    del others


if __name__ == "__main__":
    globals()[sys.argv[1]](*(part == "broken" for part in sys.argv[2:]))
