# SPDX-License-Identifier: MIT
"""Every entry of PyTorch's operator database: acre equals the CPU, or refuses by name."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def listed():
    lines = (HERE / "refused.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_database_equals_cpu_or_refuses(tmp_path):
    """Proof 1: nothing differs, and refused.txt is what is refused."""
    found = tmp_path / "found"
    command = [sys.executable, str(HERE / "database.py"), "--list", str(found)]
    if os.environ.get("ACRE_TEST_LONG"):
        command.append("--whole")
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = done.stdout.splitlines()[-1]
    assert ", 0 different, " in counts
    assert int(counts.split()[0]) > 2000, counts
    lines = found.read_text().splitlines()
    assert {line.partition(" ")[2].partition(":")[0] for line in lines} == listed()
