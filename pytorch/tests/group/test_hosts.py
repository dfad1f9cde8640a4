# SPDX-License-Identifier: MIT
"""Two hosts, made of two network namespaces with a cable between them."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

import ranks

NAMES = [f"acre-t{os.getpid()}-{i}" for i in range(2)]
ADDRESSES = ["10.78.41.1", "10.78.41.2"]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def hosts():
    """Two namespaces with addresses; removed afterwards."""
    if os.getuid() != 0:
        pytest.skip("network namespaces need root")
    try:
        for i, name in enumerate(NAMES):
            ip("netns", "add", name)
        cable = [f"va{os.getpid() % 100000}", f"vb{os.getpid() % 100000}"]
        ip("link", "add", cable[0], "netns", NAMES[0], "type", "veth", "peer", "name", cable[1],
           "netns", NAMES[1])
        for i, name in enumerate(NAMES):
            ip("-n", name, "addr", "add", ADDRESSES[i] + "/24", "dev", cable[i])
            ip("-n", name, "link", "set", cable[i], "up")
            ip("-n", name, "link", "set", "lo", "up")
    except (OSError, subprocess.CalledProcessError) as error:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        pytest.skip(f"network namespaces cannot be made: {error}")
    yield cable
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def run(function: str, hosts: list[str], expected: dict[int, int] | None = None) -> None:
    env = {"ACRE_TEST_NAMESPACES": " ".join(NAMES), "ACRE_TEST_CABLES": " ".join(hosts),
           "ACRE_TEST_ADDRESS": ADDRESSES[0]}
    with ranks.Job(function, 4, env) as job:
        job.wait(expected)


def test_operations(hosts):
    run("work_hosts:operations", hosts)


def test_a_host_sends_its_part_once(hosts):
    run("work_hosts:traffic", hosts)


def test_a_lost_rank_ends_the_call_everywhere(hosts):
    run("work_hosts:killed", hosts, {3: -signal.SIGKILL})


@pytest.mark.parametrize("mpi, options", [
    ("openmpi", ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                 "plm_rsh_agent", "sh"]),
    ("mpich", ["-bind-to", "none"])])
def test_the_wire_of_mpi(mpi, options, tmp_path):
    """Ranks that mpirun started take themselves for two hosts; the wire joins them."""
    wire = pathlib.Path(os.environ.get("ACRE_LIBRARY", "")).parent / f"libacre_mpi_{mpi}.so"
    command = shutil.which(f"mpirun.{mpi}")
    if not command or not wire.exists():
        pytest.skip(f"Acre was built without {mpi}")
    environment = dict(os.environ, ACRE_SYMM_WIRE="mpi", TMPDIR=str(tmp_path),
                       OMP_NUM_THREADS="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0",
                       PYTHONWARNINGS="ignore", GLOO_SOCKET_IFNAME="lo")
    done = subprocess.run([command, *options, "-n", "4", sys.executable,
                           str(pathlib.Path(ranks.HERE) / "work_wire.py"), str(tmp_path)],
                          env=environment, text=True, capture_output=True, timeout=280)
    assert done.returncode == 0 and done.stdout.count("done") == 4, \
        done.stdout[-2000:] + done.stderr[-4000:]
