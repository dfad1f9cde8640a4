#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sums up what gcov counted: coverage.py FOLDER. One line a folder of src and cli."""
import collections
import json
import pathlib
import subprocess
import sys

PARTS = ("src/", "cli/")


def counts(folder):
    """Of each source line and branch, whether any program reached it."""
    lines = collections.defaultdict(dict)
    branches = collections.defaultdict(dict)
    root = pathlib.Path.cwd()
    for data in sorted(folder.rglob("*.gcda")):
        done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities",
                               str(data.resolve())], capture_output=True, text=True, cwd=folder)
        for text in done.stdout.splitlines():
            for file in json.loads(text)["files"]:
                path = (folder / file["file"]).resolve()
                name = str(path.relative_to(root)) if path.is_relative_to(root) else ""
                if not name.startswith(PARTS):
                    continue
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[name][number] = lines[name].get(number, False) or line["count"] > 0
                    for place, branch in enumerate(line["branches"]):
                        key = number, place
                        branches[name][key] = branches[name].get(key, False) or branch["count"] > 0
    return lines, branches


def share(reached):
    return f"{100 * sum(reached) / len(reached):5.1f} %" if reached else "      -"


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    lines, branches = counts(folder)
    if not lines:
        sys.exit(f"{folder} has no counters; run make coverage")
    rooms = sorted({str(pathlib.Path(name).parent) for name in lines})
    print(f"{'folder':24}{'lines':>9}{'reached':>9}{'branches':>10}{'reached':>9}")
    for room in rooms + [""]:
        names = [name for name in lines if not room or str(pathlib.Path(name).parent) == room]
        line = [value for name in names for value in lines[name].values()]
        branch = [value for name in names for value in branches[name].values()]
        print(f"{room or 'all':24}{len(line):9}{share(line):>9}{len(branch):10}{share(branch):>9}")


if __name__ == "__main__":
    main()
