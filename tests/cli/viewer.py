#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch's own viewer script reads what Acre writes: viewer.py ACRE

Skips where no Python has torch. Versions differ in what they take: 1.13 reads the list
of segments, later ones the whole dictionary; both are handed what they ask for.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

TRACE = "a 1 1000 0\na 2 3000000 0\nf 1\na 3 5000000 0\na 4 700 1\n"

LOOK = r"""
import pickle, sys
import torch.cuda._memory_viz as viz
data = pickle.load(open(sys.argv[1], "rb"))
if hasattr(viz, "_read"):  # later versions: through their own reader
    data = viz._read(sys.argv[1])
    text = viz.segments(data, format_flamegraph=lambda flat: flat)
    page = viz.trace_plot(data)
    assert "alloc" in page or len(page) > 1000
else:
    stats = viz.stats(data["segments"])
    assert stats["segments"] == 3, stats
    text = viz.segments(data["segments"], format_flamegraph=lambda flat: flat)
assert text.count("active_allocated") == 3, text
"""


def torch_python():
    for name in (sys.executable, "/usr/bin/python3", "python3"):
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", "import torch.cuda._memory_viz"],
                                    capture_output=True).returncode == 0:
            return found
    return None


def main():
    python = torch_python()
    if not python:
        print("skipped: no Python here has torch (python3-torch)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        trace, out = pathlib.Path(folder) / "job.trace", pathlib.Path(folder) / "job.pickle"
        trace.write_text(TRACE)
        subprocess.run([sys.argv[1], "convert", str(trace), str(out)], check=True)
        done = subprocess.run([python, "-c", LOOK, str(out)], capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stdout + done.stderr)
            return 1
    print("PyTorch's viewer script reads it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
