#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `acre bench` once, small, and checks the form of its JSON and of its picture."""
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as tree

PATTERNS = ["pair_512", "pair_4k", "pair_1m", "pair_20m", "pair_512_live", "mix"]
ALLOCATORS = ["acre", "torch", "glibc", "mimalloc", "jemalloc"]

with tempfile.NamedTemporaryFile(suffix=".svg") as picture:
    command = [sys.argv[1], "bench", "--json", "--count", "2000", "--rounds", "1"]
    done = subprocess.run(command + ["--svg", picture.name], check=True, stdout=subprocess.PIPE)
    drawing = tree.parse(picture.name).getroot()
results = json.loads(done.stdout)["results"]
assert [row["pattern"] for row in results] == PATTERNS, results
timed = 0
for row in results:
    assert set(row) == {"pattern", "bytes", "live"} | {f"{name}_ns" for name in ALLOCATORS}, row
    for name in ("acre", "torch", "glibc"):
        assert row[f"{name}_ns"] > 0, row
    timed += sum(row[f"{name}_ns"] is not None for name in ALLOCATORS)
assert drawing.tag.endswith("svg")
bars = [item for item in drawing if item.tag.endswith("rect")]
assert len(bars) == timed + len(ALLOCATORS), (len(bars), timed)

# Without --count the time is limited, whatever an allocator takes for large memory.
started = time.monotonic()
subprocess.run([sys.argv[1], "bench", "--rounds", "1"], check=True, stdout=subprocess.DEVNULL)
taken = time.monotonic() - started
assert taken < 30, f"{taken} s for one round"

refused = subprocess.run(command + ["--svg", "/nowhere/at/all.svg"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)
assert refused.returncode == 2 and "/nowhere/at/all.svg" in refused.stderr, refused
print(f"1 passed, 0 failed: {timed} figures")
