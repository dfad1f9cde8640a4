#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every numbered behaviour of the specification has a test with its number in the name.

    numbers.py   reads ../shared/spec/*.md (ACRE_SHARED) and the tests; exit 77 without them

An item is a line "- B12 ...", or follows one as "B13 [r] ..."; a test is
TEST(B12_what_it_says), TEST(B12_S3_...), or a function of a script, b12_what_it_says.
"""
import os
import pathlib
import re
import sys

ITEM = re.compile(r"(?:^- |\. (?=\w+ \[))([BDSW])(\d+)\b", re.M)
NAME = re.compile(r"\bTEST\((\w+)\)|^def (\w+)\(", re.M)
NUMBER = re.compile(r"(?:^|_)([BDSW])(\d+)(?=_|$)", re.I)


def tested(root):
    """The numbers in the names of tests below a folder."""
    found = set()
    for path in (root / "tests").rglob("*"):
        if path.suffix in (".c", ".h", ".cpp", ".py"):
            for match in NAME.finditer(path.read_text("utf-8", "replace")):
                name = match[1] or match[2]
                found.update((kind.upper(), int(n)) for kind, n in NUMBER.findall(name))
    return found


def main():
    root = pathlib.Path(os.environ.get("ACRE_SOURCE") or pathlib.Path(__file__).parents[2])
    shared = pathlib.Path(os.environ.get("ACRE_SHARED") or root.parent / "shared")
    texts = [path.read_text("utf-8") for path in sorted((shared / "spec").glob("*.md"))]
    asked = {(kind, int(n)) for text in texts for kind, n in ITEM.findall(text)}
    if not asked:
        print(f"skip: no specification in {shared}; ACRE_SHARED names its folder")
        return 77
    missing = sorted(asked - tested(root))
    for kind, number in missing:
        print(f"{kind}{number}: no test has this number in its name")
    print(f"{len(asked) - len(missing)} of {len(asked)} numbers have a test")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
