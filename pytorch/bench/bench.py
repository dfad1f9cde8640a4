# SPDX-License-Identifier: MIT
"""make bench-torch: runs every benchmark of this folder, one after the other."""
from __future__ import annotations

import pathlib
import subprocess
import sys


def main() -> int:
    """The exit status is that of the first script that failed, or 0."""
    status = 0
    for script in sorted(pathlib.Path(__file__).resolve().parent.glob("*.py")):
        if script.name == "bench.py":
            continue
        print(f"--- {script.stem}", flush=True)
        done = subprocess.run([sys.executable, "-W", "ignore", str(script), *sys.argv[1:]])
        status = status or done.returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
