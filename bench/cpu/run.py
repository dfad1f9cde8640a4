#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch on CPUs and NumPy with each host allocator in turn, Acre among them.

    bench/cpu/run.py [--rows chain,conv] [--rounds 3] [--seconds 2] [--threads 1] [--median]
                     [--json FILE]

Each round starts one process for each row and allocator, one after the other, so that what
else the machine does meets all alike. Printed is the processor time of the fastest step (of short
steps, of the fastest batch; --median: of the median step of the fastest round), the page faults per
step in that round, and the least peak of resident memory. A star marks the best of a row. "Acre"
must stay within 1.02 of the best other in both; the last lines count.
"""
import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROWS = ("chain", "conv", "mlp", "tiny", "gpt", "gru", "np-chain", "np-stencil", "np-columns")
LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
             "mimalloc": "libmimalloc.so.2"}


def allocators():
    """Name to (preloaded library, options of rows.py); those that are not installed are said."""
    found = {"glibc": ("", ())}
    for name, library in LIBRARIES.items():
        paths = glob.glob(f"/usr/lib/*/{library}") + glob.glob(f"/usr/lib/{library}")
        if paths:
            found[name] = (paths[0], ())
        else:
            print(f"{library} is not installed; the column {name} is missing", file=sys.stderr)
    found["Acre"] = ("", ("--acre",))
    return found


def once(row, preload, options, arguments):
    environment = dict(os.environ)
    if preload:
        environment["LD_PRELOAD"] = preload
    command = [sys.executable, str(HERE / "rows.py"), row, *options, "--seconds",
               str(arguments.seconds), "--threads", str(arguments.threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{row}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    if not arguments.median:
        found["ms"] = found["least"]
    return found


def line(row, best, names):
    """One row of the table: time, faults, peak."""
    least = min(best[name]["ms"] for name in names)
    low = min(best[name]["peak"] for name in names)
    cells = [f"{best[name]['ms']:9.2f}{'*' if best[name]['ms'] == least else ' '}"
             f"{best[name]['faults']:9.0f} {best[name]['peak']:6.0f}"
             f"{'*' if best[name]['peak'] == low else ' '}" for name in names]
    others = [name for name in names if name != "Acre"]
    time = best["Acre"]["ms"] / min(best[name]["ms"] for name in others)
    peak = best["Acre"]["peak"] / min(best[name]["peak"] for name in others)
    glibc = best["glibc"]["ms"] / best["Acre"]["ms"]
    print(f"{row:11}" + " ".join(cells) + f"  {time:5.2f} {peak:5.2f} {glibc:5.2f}", flush=True)
    return time, peak, glibc


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--median", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    kinds = allocators()
    names = list(kinds)
    rows = arguments.rows.split(",")
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]}; there are {', '.join(ROWS)}")
    print(f"{'':11}" + " ".join(f"{name:>27}" for name in names) + "  Acre/best others, glibc/Acre")
    print(f"{'':11}" + " ".join(f"{'ms':>9} {'faults':>9} {'MiB':>6} " for _ in names)
          + "   time  peak  time")
    everything, ratios = {}, []
    for row in rows:
        best = {}
        for _ in range(arguments.rounds):
            for name, (preload, options) in kinds.items():
                found = once(row, preload, options, arguments)
                known = best.setdefault(name, found)
                peak = min(known["peak"], found["peak"])
                if found["ms"] < known["ms"]:
                    best[name] = found
                best[name]["peak"] = peak
        everything[row] = best
        ratios.append(line(row, best, names))
    count = len(ratios)
    print(f"time within 1.02 of the best other: {sum(r[0] <= 1.02 for r in ratios)} of {count}; "
          f"peak within 1.02 of the lowest: {sum(r[1] <= 1.02 for r in ratios)} of {count}; "
          f"fastest of all: {sum(r[0] < 1 for r in ratios)}; "
          f"not slower than glibc: {sum(r[2] >= 1 for r in ratios)}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
