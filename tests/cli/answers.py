#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--json is JSON in every case: every command that has it, with every kind of bad use and bad
input, prints one JSON value to standard output; what is bad is in "error", and the exit status
is 2. Times are bounded: no damaged file keeps a command busy."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["ACRE_SOURCE"])
ACRE = pathlib.Path(os.environ["ACRE_BUILD"]) / "acre"
SECONDS = 60  # a command that is still busy then does not end
GOOD = SOURCE / "tests/fuzz/corpus/pickle/oom.seed"
failed = 0
count = 0


def complain(what):
    global failed
    failed += 1
    print("FAIL", what)


def run(folder, arguments, codes, needs_error):
    global count
    count += 1
    line = "acre " + " ".join(arguments)
    try:
        done = subprocess.run([str(ACRE), *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        complain(f"{line}: does not end")
        return
    if done.returncode not in codes:
        complain(f"{line}: exit status {done.returncode}, one of {codes} wanted: {done.stderr}")
    try:
        value = json.loads(done.stdout)
    except ValueError as error:
        complain(f"{line}: no JSON ({error}): {done.stdout[:200]!r} {done.stderr[:200]!r}")
        return
    if needs_error and not (isinstance(value, dict) and value.get("error")):
        complain(f"{line}: no \"error\" in {done.stdout[:200]!r}")


def files(folder):
    """Names of bad files by kind."""
    whole = GOOD.read_bytes()
    dice = random.Random(20)
    (folder / "good.pickle").write_bytes(whole)
    (folder / "good.trace").write_text("a 1 4096 0\nf 1\n")
    (folder / "cut.pickle").write_bytes(whole[:len(whole) // 2])
    (folder / "junk.bin").write_bytes(dice.randbytes(3000))
    (folder / "text.json").write_text('{"segments": 7, "device_traces": {}}')
    (folder / "folder").mkdir()
    changed = bytearray(whole)
    for _ in range(20):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    (folder / "changed.pickle").write_bytes(changed)
    return ["none.pickle", "cut.pickle", "junk.bin", "text.json", "folder"]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        bad = files(folder)
        for command in ("replay", "advise", "why", "plan"):
            for file in bad:
                run(folder, [command, file, "--json"], [2], True)
                run(folder, [command, "--json", file], [2], True)
            run(folder, [command, "changed.pickle", "--json"], [0, 1, 2], False)
            run(folder, [command, "--json"], [2], True)
            run(folder, [command, "good.pickle", "--json", "--memory", "1"], [2], True)
        for file in bad:
            run(folder, ["diff", "good.pickle", file, "--json"], [2], True)
            run(folder, ["diff", file, "good.pickle", "--json"], [2], True)
            # A good file before a bad one: one value all the same.
            run(folder, ["replay", "good.trace", file, "--json"], [2], False)
        run(folder, ["diff", "good.pickle", "--json"], [2], True)
        for command in ("replay", "advise", "why", "plan", "diff", "devices", "bench", "view",
                        "convert"):
            run(folder, [command, "--json", "--nonsense"], [2], True)
            run(folder, [command, "good.pickle", "--json", "--device", "many"], [2], True)
            run(folder, [command, "good.pickle", "--json", "--memory", "x"], [2], True)
        run(folder, ["replay", "good.trace", "--json", "--conf", "nonsense:1"], [2], True)
        run(folder, ["replay", "good.trace", "--json", "--policy", "nonsense"], [2], True)
        run(folder, ["replay", "good.pickle", "--json", "--device", "7"], [2], True)
        run(folder, ["plan", "good.pickle", "--json", "--device", "7"], [2], True)
        run(folder, ["bench", "--json", "--count", "0"], [2], True)
        run(folder, ["nonsense", "--json"], [2], True)
        run(folder, ["--backend", "./none.so", "devices", "--json"], [2], True)
        run(folder, ["--backend=none.so", "why", "good.pickle", "--json"], [2], True)
        run(folder, ["devices", "--json"], [0, 1], False)
        run(folder, ["replay", "good.trace", "--json"], [0], False)
        run(folder, ["why", "good.pickle", "--json"], [0, 1], False)
    print(f"{count} calls, {failed} without JSON or with another exit status")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
