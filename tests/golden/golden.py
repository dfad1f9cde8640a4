#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs scripts of commands and compares what they print: golden.py [--update] FILE...

A script is what a terminal would show:

    # a comment, up to the first command
    $ acre --version
    acre <...>
    $ acre nonsense
    acre: there is no command "nonsense"; "acre --help" lists them
    [2]

Standard error stands in line with standard output. [N] is the exit status, 0
when there is no such line. <...> stands for any text within a line; a line of
only <...> for any number of lines. Commands run in the shell, one after the
other, in one fresh folder, with the build first in PATH and a bare environment;
ACRE_SOURCE names the tree, and ACRE_BACKENDS keeps drivers of the machine out.
--update writes what was printed into the file, where it differs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def read_script(path):
    """Returns the comment at the top and a list of (command, expected lines)."""
    head, cases = [], []
    for line in path.read_text().splitlines():
        if line.startswith("$ "):
            cases.append((line[2:], []))
        elif cases:
            cases[-1][1].append(line)
        else:
            head.append(line)
    return head, cases


def run(command, folder, environment):
    """Returns what a command prints, as lines, the exit status last."""
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines + ([f"[{done.returncode}]"] if done.returncode else [])


def agrees(expected, lines):
    """Whether the lines are the expected ones, <...> considered."""
    pattern = ""
    for line in expected:
        if line == "<...>":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("<...>")) + r"\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines)) is not None


def play(path, update):
    """Runs one script; returns (passed, failed)."""
    head, cases = read_script(path)
    failed = 0
    environment = {
        "PATH": os.environ["ACRE_BUILD"] + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8",
        "ACRE_SOURCE": os.environ["ACRE_SOURCE"], "ACRE_BACKENDS": "sim,host",
        **{key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")},
    }
    out = list(head)
    with tempfile.TemporaryDirectory() as folder:
        for command, expected in cases:
            lines = run(command, folder, environment)
            fits = agrees(expected, lines)
            out += ["$ " + command] + (expected if fits else lines)
            if fits:
                continue
            failed += 1
            print(f"{path.name}: $ {command}")
            print("".join(f"  expected: {line}\n" for line in expected), end="")
            print("".join(f"  printed:  {line}\n" for line in lines), end="")
    if update and failed:
        path.write_text("\n".join(out) + "\n")
    return len(cases) - failed, failed


def main():
    names = sys.argv[1:]
    update = "--update" in names
    passed = failed = 0
    for name in names:
        if name != "--update":
            one, other = play(pathlib.Path(name), update)
            passed, failed = passed + one, failed + other
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
