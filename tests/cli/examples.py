#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands that people copy: every example of a help text and every acre line of a document is run
as it stands, with files of the names it uses, and is accepted. "python" is a program that prints
its arguments: which scripts there are is not the matter of this test.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["ACRE_SOURCE"])
BUILD = pathlib.Path(os.environ["ACRE_BUILD"])
COMMANDS = ["demo", "predict", "replay", "view", "advise", "why", "diff", "convert", "plan",
            "devices", "run", "exec", "bench", "bench symm"]
LINE = re.compile(r"^(?:\$ )?((?:ACRE_\w+=\S+ )*(?:build/|\./)?acre .*)")
# They need a Python with PyTorch and have tests of their own: pytorch/tests.
LEFT_OUT = re.compile(r"acre (predict|exec) ")
# Minutes of measuring, the same in a quick form.
QUICKER = [(re.compile(r"bench$"), "bench --count 100 --rounds 1"),
           (re.compile(r"--count 100000 --rounds 3"), "--count 100 --rounds 1")]


def join(lines):
    """Lines that end with a backslash go on in the next one."""
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


def of_helps():
    for command in COMMANDS:
        text = subprocess.run([BUILD / "acre", *command.split(), "--help"], check=True,
                              capture_output=True, text=True).stdout
        parts = re.split(r"^[Ee]xamples?:?.*$", text, flags=re.M)
        found = 0
        for line in join("".join(parts[1:]).splitlines()):
            if LINE.match(line.strip()):
                found += 1
                yield f"acre {command} --help", line.strip()
        if not found:
            yield f"acre {command} --help", None


def of_documents():
    documents = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *(SOURCE / "docs").glob("*.md")]
    for document in sorted(documents):
        text = document.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", text, re.S | re.M):
            for line in join(block.splitlines()):
                if LINE.match(line.strip()):
                    yield document.name, LINE.match(line.strip())[1]


def prepare(folder):
    """Every name that the lines use, with something fitting behind it."""
    good = SOURCE / "tests/fuzz/corpus/pickle/oom.seed"
    (folder / "step.trace").write_text("a 1 4096 0\na 2 3000000 0\nf 1\nf 2\n")
    subprocess.run(["gzip", "-k", "step.trace"], cwd=folder, check=True)
    shutil.copy(folder / "step.trace.gz", folder / "job.trace.gz")
    for name in ("job", "oom_snapshot", "snapshot", "npu", "before", "after", "step100", "step200",
                 "rank0"):
        shutil.copy(good, folder / f"{name}.pickle")
    shutil.copy(BUILD / "examples/libsynchronous.so", folder / "libmine.so")
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "acre").symlink_to(BUILD / "acre")
    (folder / "build").symlink_to(BUILD)
    python = bin_ / "python"
    python.write_text('#!/bin/sh\necho python "$@"\n')
    python.chmod(0o755)
    return {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "ACRE_BACKENDS": "sim,host"}


def main():
    wrong, count, left_out = [], 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = prepare(folder)
        for place, line in [*of_helps(), *of_documents()]:
            if line is None:
                wrong.append(f"{place}: has no example")
                continue
            if LEFT_OUT.search(line):
                left_out += 1
                continue
            command = re.sub(r"\s+#\s.*$", "", line).replace("/var/tmp", str(folder))
            for slow, quick in QUICKER:
                command = slow.sub(quick, command)
            count += 1
            done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=280)
            if done.returncode not in (0, 1) or "Traceback" in done.stderr:
                wrong.append(f"{place}: {command}: exit status {done.returncode}: "
                             f"{done.stderr.strip()[-300:]}")
    for line in wrong:
        print("FAIL", line)
    print(f"{count} commands run, {left_out} that need PyTorch left to its tests, "
          f"{len(wrong)} faults")
    return 1 if wrong or count < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
