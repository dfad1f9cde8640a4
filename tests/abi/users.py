#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public call has a user, or a line in kept.txt that says why it is public without one.

    users.py            fails on calls without either, on lines that are not needed, and on a reason
                        that two calls share
    users.py --list     prints the calls that only kept.txt keeps, with the reasons

Users are the documents, the command, the bindings, the examples and the installed conformance
suite; for calls of libacre also the sources of libacre_tools, which is a library of its own.
"""
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
    kept, complaints = {}, []
    for line in (ROOT / "tests/abi/kept.txt").read_text().split("\n"):
        if not line or line.startswith("#"):
            continue
        name, reason = line.split(None, 1)
        if name not in lonely:
            complaints.append(f"{name} needs no line: it is not public, or has a user")
        if reason in kept.values():
            complaints.append(f"{name} has the reason of another call: say what this one is for")
        kept[name] = reason
    open_calls = [name for name in lonely if name not in kept]
    if "--list" in sys.argv:
        for name in lonely:
            print(f"{name}: {kept.get(name, 'nobody needs it')}")
    for name in open_calls:
        print(f"{name} is public, and nothing needs it: hide it, or say why in tests/abi/kept.txt")
    for complaint in complaints:
        print(f"tests/abi/kept.txt: {complaint}")
    print(f"{len(calls)} public calls; {len(lonely)} without a user, {len(open_calls)} of these "
          "without a reason")
    return 1 if open_calls or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
