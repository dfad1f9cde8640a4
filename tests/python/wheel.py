#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pip install . into a fresh environment, without network: the package brings its library."""
import os
import pathlib
import subprocess
import sys
import tempfile

CHECK = """
import acre, pathlib, subprocess, sys
from acre import library
assert pathlib.Path(library.path).parent == pathlib.Path(acre.__file__).parent, library.path
with acre.Cache(acre.Device("openreg")) as cache:
    block = cache.alloc(1 << 20)
    assert cache.stats()["allocated_bytes"]["all"]["current"] == 1 << 20
    cache.snapshot().write("now.pickle")
    del block
assert "in use" in str(acre.why("now.pickle"))
assert acre.plan([(0, 2, 100), (1, 3, 50)]).height == 150
assert (pathlib.Path(library.path).parent / "libacre_predict.so").exists()
assert "usage" in subprocess.run([sys.executable, "-m", "acre.predict", "--help"], check=True,
                                 capture_output=True, text=True).stdout
print(acre.version())
"""


def main():
    source = pathlib.Path(os.environ["ACRE_SOURCE"])
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.executable, "-m", "venv", f"{folder}/fresh"],
                              capture_output=True, text=True)
        if made.returncode:
            print("no virtual environments here:", made.stdout.strip().splitlines()[:1])
            return 77
        python = f"{folder}/fresh/bin/python"
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("PYTHONPATH", "ACRE_LIBRARY")}
        environment.update(ACRE_WHEEL_BUILD=os.environ["ACRE_BUILD"], PIP_NO_INDEX="1",
                           PIP_DISABLE_PIP_VERSION_CHECK="1", ACRE_BACKENDS="sim,host")
        subprocess.run([python, "-m", "pip", "install", "-q", str(source)], check=True,
                       env=environment, cwd=folder)
        said = subprocess.run([python, "-c", CHECK], check=True, env=environment, cwd=folder,
                              capture_output=True, text=True)
        print("installed:", said.stdout.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
