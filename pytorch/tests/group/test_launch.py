# SPDX-License-Identifier: MIT
"""How a group comes about: launchers, stores, devices, and what is refused."""
import datetime
import os
import pathlib
import subprocess
import sys
import threading

import pytest
import torch
import torch.distributed as dist

import ranks
import torch_acre

HERE = pathlib.Path(__file__).resolve().parent
ACRE = pathlib.Path(os.environ.get("ACRE_LIBRARY", "")).parent / "acre"
LIMIT = datetime.timedelta(seconds=60)


def launched(*command: str) -> None:
    """Runs a launcher, and expects that both ranks have done their work."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300)
    for rank in range(2):
        assert f"rank {rank} of 2 done" in done.stdout, done.stdout + done.stderr[-4000:]
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("backend", ["acre", "cpu:acre,acre:acre"])
def test_torchrun(backend):
    launched(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
             "2", str(HERE / "work_launch.py"), backend)


@pytest.mark.skipif(not ACRE.exists(), reason="the command acre is not beside the library")
@pytest.mark.parametrize("backend", ["acre", "cpu:acre,acre:acre"])
def test_acre_run(backend):
    launched(str(ACRE), "run", "-n", "2", "--", sys.executable, str(HERE / "work_launch.py"),
             backend)


@pytest.mark.parametrize("kind", ["tcp", "file", "hash"])
def test_stores(kind, tmp_path):
    """Two ranks as threads of one process: HashStore knows no other processes."""
    server = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    shared = dist.HashStore()
    results, problems = {}, []

    def live(rank: int) -> None:
        try:
            if kind == "tcp":
                store = dist.TCPStore("127.0.0.1", server.port, 2, False)
            else:
                store = dist.FileStore(str(tmp_path / "store"), 2) if kind == "file" else shared
            group = torch_acre.distributed.create_group(store, rank, 2, LIMIT)
            tensor = torch.full((100_000,), rank + 1.0)
            group.allreduce([tensor]).wait()
            results[rank] = tensor
            group.shutdown()
        except Exception as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=live, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    assert all(results[rank].eq(3).all() for rank in range(2))


@pytest.mark.parametrize("variables", [{"ACRE_TORCH_STRICT": "1"}, {"ACRE_TORCH_DEVICE": "host"},
                                       {"ACRE_TORCH_DEVICE": "opencl"}],
                         ids=["strict", "host", "opencl"])
def test_other_devices(variables):
    if "opencl" in variables.values():
        code = "import torch, torch_acre; torch.empty(1, device='acre')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env=dict(os.environ, **variables))
        if done.returncode != 0:
            pytest.skip("no OpenCL device: " + done.stderr.splitlines()[-1])
    ranks.run("work_operations:on_acre", 2, variables)


def test_a_store_that_is_gone():
    """The process that served the store has left: an error, and soon."""
    ranks.run("work_faults:store_gone", 2)


def test_two_jobs_with_one_store():
    ranks.run("work_faults:two_jobs", 4)


def test_devices_that_cannot_be_served():
    ranks.run("work_faults:other_devices", 2)


def test_groups_go_while_their_threads_end():
    ranks.run("work_faults:dropped_groups", 2)
