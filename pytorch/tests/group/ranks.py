# SPDX-License-Identifier: MIT
"""Starts the ranks of a test as processes of their own and collects what they say.

A test names a function of a worker module. Every rank calls it with a Rank, which knows the
store, and prints nothing unless something failed.
"""
from __future__ import annotations

import ctypes
import dataclasses
import datetime
import importlib
import json
import os
import pathlib
import signal
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
        part = self.folder / f"{name}.{self.rank}.part"
        part.write_text(text)
        part.rename(path)

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


class Server:
    """A process that has imported PyTorch and starts jobs by forking, since importing takes
    seconds. It ends when this process does."""

    shared: "Server | None" = None

    def __init__(self, env: dict[str, str]) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0",
                           PYTHONWARNINGS="ignore", **env)
        self.process = subprocess.Popen([sys.executable, str(HERE / "ranks.py")], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)

    @classmethod
    def for_env(cls, env: dict[str, str]) -> "Server":
        """The server of all tests, or one of its own for variables that are read by imports."""
        if any(not name.startswith("ACRE_TEST_") for name in env):
            return cls(env)
        if cls.shared is None or cls.shared.process.poll() is not None:
            cls.shared = cls({})
        return cls.shared

    def start(self, *job: object) -> int:
        """Starts a job; the process id of the parent of its ranks."""
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)


class Job:
    """Ranks of one test, forked from one process that has imported PyTorch; use it with "with"."""

    def __init__(self, function: str, size: int, env: dict[str, str] | None = None,
                 seconds: float = 300) -> None:
        self.size = size
        self.seconds = seconds
        self.folder = tempfile.TemporaryDirectory(prefix="acre-group-")
        self.path = pathlib.Path(self.folder.name)
        self.server = Server.for_env(env or {})
        self.pid = self.server.start(function, size, str(self.path), seconds, env or {})

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_) -> None:
        if self.is_running():
            os.killpg(self.pid, signal.SIGKILL)
        if self.server is not Server.shared:
            self.server.close()
        self.folder.cleanup()

    def is_running(self) -> bool:
        """Whether the parent of the ranks is still there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def text(self, rank: int) -> str:
        """What a rank has printed."""
        return (self.path / f"out.{rank}").read_text()

    def wait(self, expected: dict[int, int] | None = None) -> None:
        """Waits for all ranks; each must end with 0, or with the status expected of it."""
        end = time.monotonic() + self.seconds + 60
        while self.is_running():
            assert time.monotonic() < end, "the ranks do not end:\n" + self.all_text()
            time.sleep(0.01)
        statuses = json.loads((self.path / "statuses").read_text())
        for rank, status in enumerate(statuses):
            wanted = (expected or {}).get(rank, 0)
            assert status == wanted, f"rank {rank} ended with {status}:\n{self.all_text()}"

    def all_text(self) -> str:
        return "\n".join(f"--- rank {rank}:\n{self.text(rank)[-3000:]}"
                         for rank in range(self.size) if self.text(rank))


def run(function: str, size: int, env: dict[str, str] | None = None,
        seconds: float = 300) -> None:
    """Runs a function on all ranks and expects that it succeeds."""
    with Job(function, size, env, seconds) as job:
        job.wait()


def _enter_host(rank: Rank) -> None:
    """The first half of the ranks goes to the first network namespace, if there are two."""
    names = os.environ.get("ACRE_TEST_NAMESPACES", "").split()
    if not names:
        return
    host = rank.rank * len(names) // rank.size
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["ACRE_TEST_CABLES"].split()[host]
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{names[host]}") as namespace:
        if libc.setns(namespace.fileno(), 0x40000000) != 0:  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), "setns")


def _rank_main(module: object, name: str, rank: Rank) -> None:
    """The life of one rank, in a child of the process that has imported PyTorch."""
    import torch.distributed as dist

    with open(rank.folder / f"out.{rank.rank}", "w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    _enter_host(rank)
    getattr(module, name)(rank)
    if dist.is_initialized():
        dist.destroy_process_group()


def _job_main(function: str, size: int, folder: str, seconds: float, env: dict[str, str]) -> None:
    """The parent of the ranks; returns in each rank, too, when that is done."""
    os.environ.update(env)
    place, name = function.split(":")
    module = importlib.import_module(place)
    pids = []
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            _rank_main(module, name, Rank(rank, size, pathlib.Path(folder)))
            return
        pids.append(pid)
    statuses = _collect(pids, time.monotonic() + seconds)
    (pathlib.Path(folder) / "statuses").write_text(json.dumps(statuses))


def _main() -> None:
    """Starts a job for each line of the standard input; answers with its process id."""
    sys.path.insert(0, str(HERE))
    import torch
    import torch_acre  # noqa: F401
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes ended jobs away
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            with open(os.devnull) as null:
                os.dup2(null.fileno(), 0)
            os.dup2(2, 1)
            _job_main(*json.loads(line))
            return
        print(pid, flush=True)


def _collect(pids: list[int], end: float) -> list[int]:
    """Exit statuses by rank; -9 and the like for signals. Who is late is killed."""
    statuses: dict[int, int] = {}
    while len(statuses) < len(pids):
        for pid in pids:
            if pid in statuses:
                continue
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                statuses[pid] = os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    return [statuses[pid] for pid in pids]


if __name__ == "__main__":
    _main()
