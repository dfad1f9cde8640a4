#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public call has a user, or a line in kept.txt that says why it is public without one.

    users.py            fails on calls without either, and on lines that are not needed
    users.py --list     prints the calls that only kept.txt keeps, with the reasons

Users are the documents, the command, the bindings, the examples and the installed conformance
suite; for calls of libacre also the sources of libacre_tools, which is a library of its own.
"""
import fnmatch
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("ACRE_SOURCE", pathlib.Path(__file__).parents[2]))
USERS = [
    "README.md", "docs/*.md", "docs/decisions/*.md", "man/acre.1",   # documents
    "cli/**/*.[ch]",                                                 # the command
    "python/**/*.py", "pytorch/**/*.cpp", "pytorch/**/*.h", "pytorch/**/*.py",
    "src/bind/*.[ch]", "src/predict/*.[ch]", "include/acre/acre.hpp", "tools/gdb/*.py",
    "examples/*", "bench/*.c", "tests/conform/backend_suite*.[ch]", "tests/conform/installed/*.c",
]
TOOLS = ["src/format/**/*.[ch]", "src/replay/**/*.[ch]", "src/explain/**/*.[ch]",
         "src/view/**/*.[ch]"]
COMMENT = re.compile(r"/\*.*?\*/", re.S)
CALL = re.compile(r"ACRE_API [^;(]*?[ *](acre_[a-z0-9_]+)\s*\(")
NAME = re.compile(r"\bacre_[a-z0-9_]+")


def read(pattern):
    for path in sorted(ROOT.glob(pattern)):
        if path.is_file():
            yield path.read_text("utf-8", "replace")


def names(patterns):
    return {name for pattern in patterns for text in read(pattern) for name in NAME.findall(text)}


def main():
    calls = {name for text in read("include/acre/*.h")
             for name in CALL.findall(COMMENT.sub("", text))}
    own = {match.group(1) for pattern in TOOLS for text in read(pattern)
           for match in re.finditer(r"^[a-z][\w \*]*?\b(acre_[a-z0-9_]+)\(", text, re.M)}
    used = names(USERS) | (names(TOOLS) - own)
    lonely = sorted(calls - used)
    kept, unneeded = {}, []
    for line in (ROOT / "tests/abi/kept.txt").read_text().split("\n"):
        if not line or line.startswith("#"):
            continue
        pattern, reason = line.split(None, 1)
        found = [name for name in lonely if fnmatch.fnmatchcase(name, pattern)]
        kept.update((name, reason) for name in found)
        if not found:
            unneeded.append(pattern)
    open_calls = [name for name in lonely if name not in kept]
    if "--list" in sys.argv:
        for name in lonely:
            print(f"{name}: {kept.get(name, 'nobody needs it')}")
    for name in open_calls:
        print(f"{name} is public, and nothing needs it: hide it, or say why in tests/abi/kept.txt")
    for pattern in unneeded:
        print(f"tests/abi/kept.txt: {pattern} keeps nothing: take the line out")
    print(f"{len(calls)} public calls; {len(lonely)} without a user, {len(open_calls)} of these "
          "without a reason")
    return 1 if open_calls or unneeded else 0


if __name__ == "__main__":
    sys.exit(main())
