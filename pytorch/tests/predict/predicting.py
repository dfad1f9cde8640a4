# SPDX-License-Identifier: MIT
"""Predictions are made in processes of their own: PyTorch stays changed after one."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
JOBS = HERE / "jobs"


def shared(*parts):
    """A file of the recordings, or a skip that says what is missing."""
    folder = pathlib.Path(os.environ.get("ACRE_SHARED", ROOT.parent / "shared"))
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is missing; ACRE_SHARED names the folder of recordings")
    return path


def run(*words, folder=None, timeout=300):
    """A prediction as a finished process."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), HF_HUB_OFFLINE="1",
                       TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    environment.setdefault("ACRE_LIBRARY", str(ROOT / "build" / "libacre.so"))
    return subprocess.run([sys.executable, "-m", "acre.predict", *map(str, words)],
                          cwd=folder or HERE, env=environment, capture_output=True, text=True,
                          timeout=timeout, check=False)


def answer(*words, folder=None, status=(0, 1)):
    """The answer of a prediction."""
    done = run("--json", *words, folder=folder)
    assert done.returncode in status, done.stderr[-3000:]
    return json.loads(done.stdout)
