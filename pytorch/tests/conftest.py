# SPDX-License-Identifier: MIT
"""What every test starts from: the device, and a way to run code in a process of its own."""
import os
import subprocess
import sys

import pytest
import torch

import torch_acre  # noqa: F401


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(20261117)
    yield


@pytest.fixture
def run_python():
    """Runs a program in a new process; gives its result."""
    def run(code: str, check: bool = True, timeout: int = 300, args=(), **variables):
        environment = {**os.environ, **{k: str(v) for k, v in variables.items()}}
        done = subprocess.run([sys.executable, *args, "-c", code], env=environment, text=True,
                              capture_output=True, timeout=timeout)
        if check:
            assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done
    return run
