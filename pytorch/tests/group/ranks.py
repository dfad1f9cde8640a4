# SPDX-License-Identifier: MIT
"""Starts the ranks of a test as processes of their own and collects what they say.

A test names a function of a worker module. Every rank calls it with a Rank, which knows the
store, and prints nothing unless something failed.
"""
from __future__ import annotations

import dataclasses
import datetime
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass
class Rank:
    """What a rank's process knows."""

    rank: int
    size: int
    folder: pathlib.Path

    def store(self, name: str = "store"):
        """A store of the test, by name."""
        import torch.distributed as dist
        return dist.FileStore(str(self.folder / name), self.size)

    def init(self, backend: str = "acre", name: str = "store", seconds: float = 60) -> None:
        """init_process_group() with a store of the test."""
        import torch.distributed as dist
        dist.init_process_group(backend, store=self.store(name), rank=self.rank,
                                world_size=self.size,
                                timeout=datetime.timedelta(seconds=seconds))

    def mark(self, name: str, text: str = "") -> None:
        """Leaves a note for other ranks and for the test."""
        path = self.folder / f"{name}.{self.rank}"
        path.with_suffix(".part").write_text(text)
        path.with_suffix(".part").rename(path)

    def await_mark(self, name: str, rank: int, seconds: float = 60) -> str:
        """Waits for another rank's note."""
        return await_file(self.folder / f"{name}.{rank}", seconds)


def await_file(path: pathlib.Path, seconds: float = 60) -> str:
    """Waits for a file and gives its text."""
    end = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{path.name} did not appear within {seconds} s")
        time.sleep(0.01)
    return path.read_text()


class Job:
    """Processes of one test; use it with "with"."""

    def __init__(self, function: str, size: int, env: dict[str, str] | None = None,
                 seconds: float = 300) -> None:
        self.seconds = seconds
        self.folder = tempfile.TemporaryDirectory(prefix="acre-group-")
        self.path = pathlib.Path(self.folder.name)
        environment = dict(os.environ, OMP_NUM_THREADS="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0",
                           **(env or {}))
        self.processes = []
        for rank in range(size):
            with open(self.path / f"out.{rank}", "w") as out:
                self.processes.append(subprocess.Popen(
                    [sys.executable, str(HERE / "ranks.py"), function, str(rank), str(size),
                     str(self.path)], stdout=out, stderr=subprocess.STDOUT, env=environment))

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.folder.cleanup()

    def text(self, rank: int) -> str:
        """What a rank has printed."""
        return (self.path / f"out.{rank}").read_text()

    def wait(self, expected: dict[int, int] | None = None) -> None:
        """Waits for all ranks; each must end with 0, or with the status expected of it."""
        end = time.monotonic() + self.seconds
        for rank, process in enumerate(self.processes):
            try:
                status = process.wait(max(1.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} did not end within {self.seconds} s:\n"
                                     f"{self.all_text()}") from None
            wanted = (expected or {}).get(rank, 0)
            assert status == wanted, f"rank {rank} ended with {status}:\n{self.all_text()}"

    def all_text(self) -> str:
        return "\n".join(f"--- rank {rank}:\n{self.text(rank)[-4000:]}"
                         for rank in range(len(self.processes)))


def run(function: str, size: int, env: dict[str, str] | None = None,
        seconds: float = 300) -> None:
    """Runs a function on all ranks and expects that it succeeds."""
    with Job(function, size, env, seconds) as job:
        job.wait()


def _main() -> None:
    function, rank, size, folder = sys.argv[1:5]
    sys.path.insert(0, str(HERE))
    import torch
    import torch.distributed as dist
    import torch_acre  # noqa: F401
    torch.set_num_threads(1)
    module, name = function.split(":")
    getattr(importlib.import_module(module), name)(Rank(int(rank), int(size),
                                                        pathlib.Path(folder)))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    _main()
